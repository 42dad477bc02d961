// Several runs on one time line, how they ended, and what the lessons promise about their recordings.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { LESSONS } from "../../assets/js/lessons.mjs";
import { countsAt, firstDifference, merge } from "../../assets/js/merge.mjs";
import { TailParser } from "../../assets/js/parse.mjs";
import { linesOf } from "../../assets/js/sparkline.mjs";
import { apply, newState } from "../../assets/js/state.mjs";
import { figuresOf, leastOf } from "../../assets/js/verdict_table.mjs";
import { translator } from "../../assets/js/i18n.mjs";

const run = (...marks) => marks.map((mark, seq) => {
  const [type, t_ms, more] = mark.split(":");
  return { type, seq, t_ms: Number(t_ms), ...(type === "step_begin" ? { step: Number(more) } : {}) };
});
const fast = run("header:0", "step_begin:10:0", "commit:20", "step_begin:30:1", "commit:40", "end:41");
const slow = run("header:0", "step_begin:100:0", "commit:900", "end:950");
const recorded = (name) => {
  const text = readFileSync(new URL(`../../examples/traces/${name}.ndjson`, import.meta.url), "utf8");
  return new TailParser().feed(text).events;
};
const stateOf = (events) => events.reduce(apply, newState());

test("runs race within a step and wait for one another between steps", () => {
  const { events, stops } = merge([fast, slow]);
  assert.deepEqual(stops.map((stop) => [stop.step, stop.count]), [[null, 2], [0, 7], [1, 10]]);
  assert.ok(events.every((entry, i) => !i || entry.t_ms >= events[i - 1].t_ms));
  assert.deepEqual(countsAt(events, stops[1].count, 2), [3, 4]);
  assert.deepEqual(countsAt(events, events.length, 2), [fast.length, slow.length]);
});

test("nothing to merge is nothing", () => {
  assert.deepEqual(merge([]), { events: [], stops: [] });
  assert.equal(firstDifference([]), null);
});

test("runs part where their steps differ, or where one has ended", () => {
  const said = (...texts) => ({ steps: texts.map((text, index) => ({ index, commit: { text } })) });
  assert.equal(firstDifference([said("a", "b"), said("a ", "b")]), null);
  assert.equal(firstDifference([said("a", "b"), said("a", "c")]), 1);
  assert.equal(firstDifference([said("a", "b"), said("a")]), 1);
});

test("several runs in one text are several runs", () => {
  const parser = new TailParser();
  const events = parser.feed(readFileSync(new URL("../../examples/traces/lab-rescue-compared.ndjson", import.meta.url), "utf8")).events;
  assert.equal(events.filter((event) => event.type === "header").length, 4);
  assert.deepEqual(parser.problems, []);
});

test("the least of a column is marked, but not a wrong run's", () => {
  const rows = [{ tokens: 9, right: true }, { tokens: 3, right: false }, { tokens: 5, right: null }];
  assert.deepEqual([...leastOf(rows, "tokens")], [2]);
  assert.deepEqual([...leastOf([{ tokens: 1 }, { tokens: 1 }], "tokens")], []);
  assert.deepEqual([...leastOf([{ tokens: 1 }, { tokens: null }], "tokens")], []);
});

test("a run's figures are those of its end", () => {
  const events = recorded("lab-rescue");
  const end = events.at(-1);
  const figures = figuresOf(stateOf(events));
  assert.equal(figures.method, "kv-rescue");
  assert.equal(figures.right, true);
  assert.equal(figures.tokens, end.totals.base.committed + end.totals.helper.committed);
  assert.equal(figuresOf(stateOf(events.slice(0, 20))).tokens, null);
  assert.equal(linesOf(stateOf(events)).reward.length, end.steps);
});

test("every lesson finds in its recording what it tells", () => {
  const t = translator();
  assert.equal(LESSONS.length, 7);
  LESSONS.forEach((lesson, index) => {
    const whole = stateOf(recorded(lesson.trace));
    const step = lesson.step(whole);
    assert.ok(step >= 0 && step < whole.steps.length - 1, lesson.trace);
    const values = lesson.values(whole, step);
    for (const [name, value] of Object.entries(values)) assert.ok(typeof value === "string" ? value && value !== "NaN" : Number.isFinite(value), `${lesson.trace}: ${name} ${value}`);
    for (const part of ["title", "text", "question", "option.1", "option.2", "option.3", "reveal"]) assert.ok(!/[{}]/.test(t(`lesson.${index + 1}.${part}`, values).replace(/\\boxed\{[^}]*\}/, "")), part);
    assert.ok(lesson.right >= 1 && lesson.right <= 3);
  });
});

test("what the lessons say about right and wrong is so", () => {
  const ended = (name) => stateOf(recorded(name)).closing;
  assert.equal(ended("lab-forgets").correct, false);
  assert.equal(ended("lab-derails").correct, false);
  assert.equal(ended("lab-helper").correct, false);
  assert.equal(ended("lab-easy").correct, true);
  assert.equal(ended("lab-rescue").correct, true);
  // Card 4: the helper's first wrong step is a sum; card 5: the helper's step is looked up, not calculated.
  const at = (index) => {
    const whole = stateOf(recorded(LESSONS[index].trace));
    return LESSONS[index].values(whole, LESSONS[index].step(whole));
  };
  assert.match(at(3).bad, /\d+ [-+*] \d+ = \d+/);
  assert.match(at(4).said, /^(First|Next), /);
  assert.match(at(1).next, /^(First|Next), /);
  assert.ok(at(6).last <= at(6).limit && at(6).first > at(6).limit);
  // Card 7: the reward falls, more memory is asked for than usual, and the model finds back.
  assert.ok(at(6).low < 0.1 && at(6).more > at(6).usual && at(6).suppressed > 0);
  assert.match(at(6).found, /^Hmm, there are \d+/);
  assert.ok(at(5).best - at(5).worst > 0.5);
});

test("the helper's run is judged as cards 4 and 6 tell it", () => {
  const { steps, closing } = stateOf(recorded("lab-helper"));
  const scores = steps.map(({ commit }) => commit.score);
  const bad = scores.findIndex((score) => score < 0.5);
  const { n } = LESSONS[3].values(stateOf(recorded("lab-helper")));
  // The wrong sum and every check of it, then the last step alone is liked: it only repeats the total.
  assert.equal(bad + 1 + n + 1, steps.length);
  assert.ok(scores.slice(bad, -1).every((score) => score < 0.01) && scores.slice(0, bad).every((score) => score > 0.9));
  assert.ok(steps.slice(bad + 1, -1).every(({ commit }) => /^(Wait|Hmm), .*that is right/.test(commit.text)));
  assert.equal(closing.correct, false);
  for (const language of ["en", "ko"]) {
    const words = JSON.parse(readFileSync(new URL(`../../assets/i18n/${language}.json`, import.meta.url), "utf8"))["lesson.6.reveal.other"];
    assert.ok(words.includes(` ${closing.answer}`) && words.includes(scores.at(-1).toFixed(2)), language);
  }
});

test("of equal rewards the first in line was taken, the base's before the helper's", () => {
  for (const step of stateOf(recorded("lab-rescue")).steps) {
    const rank = ({ source, cand }) => (source === "base" ? 0 : 100) + cand;
    const chosen = step.candidates.get(`${step.commit.source}/${step.commit.cand}`) ?? [...step.candidates.values()].find((one) => one.source === step.commit.source && one.cand === step.commit.cand);
    for (const one of step.candidates.values()) assert.ok(!(one.score > chosen.score) && (one.score !== chosen.score || rank(one) >= rank(chosen)), `step ${step.index + 1}`);
  }
});

test("what a card asks for is not on the page before it is answered", () => {
  LESSONS.forEach((lesson, index) => {
    const whole = stateOf(recorded(lesson.trace));
    const step = lesson.step(whole);
    if (lesson.then) assert.ok(lesson.then(whole, step) > step, `card ${index + 1}`);
  });
  const whole = stateOf(recorded("lab-reco"));
  const lambda = whole.header.config.retention_ratio;
  assert.ok(whole.steps.slice(0, LESSONS[6].step(whole) + 1).every(({ retain }) => !retain || retain.asked <= lambda));
});
