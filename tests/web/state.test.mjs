import assert from "node:assert/strict";
import test from "node:test";

import { TailParser } from "../../assets/js/parse.mjs";
import { apply, newState, rejectedOf, winnerOf } from "../../assets/js/state.mjs";
import { HOSTILE, random, synthetic } from "./synthetic.mjs";

const lines = (events) => events.map((event) => JSON.stringify(event) + "\n").join("");
const fold = (events) => events.reduce(apply, newState());

test("counts add up", () => {
  const events = synthetic({ steps: 6 });
  const state = fold(events);
  const of = (type) => events.filter((event) => event.type === type).length;
  assert.deepEqual(state.counts, { commits: 6, aborts: of("abort"), flags: of("flag") });
  assert.ok(state.counts.aborts > 1 && state.counts.flags > 0);
  assert.equal(state.kvs.length, 7);
  assert.equal(state.skipped, 0);
  for (const step of state.steps) {
    assert.equal(step.candidates.size, 4);
    assert.equal(rejectedOf(step).length, 3);
    assert.equal(winnerOf(step).source, step.commit.source);
    assert.equal(winnerOf(step).text, step.commit.text);
    assert.equal(step.commit.pieces.join(""), step.commit.text);
  }
  for (const total of Object.values(state.closing.totals)) assert.equal(total.generated, total.committed + total.discarded + total.aborted);
});

test("what ReCo decides is kept with its step", () => {
  const state = fold([
    { type: "step_begin", step: 0, penalty: 4, band: "high" },
    { type: "tokens", step: 0, source: "base", rows: [{ cand: 0, tokens: 2, text: "So 3", ent: [0.1, 0.2], suppressed: [[1, "Wait", "So"]] }] },
    { type: "commit", step: 0, source: "base", cand: 0, score: 0.9, text: "So 3", tokens: 2, pieces: ["So", " 3"], ended: "delimiter" },
    { type: "probe", step: 0, text: "x", answer: "42", perplexity: 1.03, threshold: 1.1, accepted: true, tokens: 2, seconds: 0.1 },
    { type: "probe", step: 0, text: "x", answer: null, perplexity: null, threshold: 1.1, accepted: "yes", tokens: 2, seconds: 0.1 },
    { type: "retain", step: 0, asked: 0.25, length: 200, target: 50, before: 96, after: 50, reason: "reward" },
    { type: "retain", step: 0, asked: "much" },
  ]);
  const [step] = state.steps;
  assert.deepEqual([step.penalty, step.band, step.retain.target], [4, "high", 50]);
  assert.deepEqual(step.probes.map(({ answer, accepted }) => [answer, accepted]), [["42", true], [null, false]]);
  assert.deepEqual(winnerOf(step).suppressed, [[1, "Wait", "So"]]);
  assert.equal(state.skipped, 1);
});

test("the fold is the same in one go and in pieces", () => {
  const events = synthetic({ steps: 5, n: 3, text: HOSTILE });
  const text = lines(events);
  const whole = fold(events);
  const next = random(3);
  for (let trial = 0; trial < 25; trial++) {
    const parser = new TailParser();
    const state = newState();
    for (let at = 0; at < text.length; ) {
      at = Math.min(text.length, at + 1 + Math.floor(next() * 9000));
      for (const event of parser.feed(text.slice(0, at)).events) apply(state, event);
    }
    assert.deepEqual(state, whole);
  }
});

test("rejected candidates come best first, unscored ones last", () => {
  const scores = rejectedOf(fold(synthetic({ steps: 1, n: 4 })).steps[0]).map((candidate) => candidate.score ?? -1);
  assert.deepEqual(scores, scores.toSorted((a, b) => b - a));
});

test("the moving average starts when its window is full", () => {
  const state = newState();
  apply(state, { type: "header", config: { ent_window: 4 } });
  apply(state, { type: "tokens", step: 0, source: "base", rows: [{ cand: 0, tokens: 6, text: "abcdef", ent: [1, 2, 3, 4, 5, 6], gzip: [[6, 1.2]] }] });
  const [candidate] = state.steps[0].candidates.values();
  assert.deepEqual(candidate.average, [null, null, null, 2.5, 3.5, 4.5]);
  assert.equal(candidate.entMax, 4.5);
  assert.equal(candidate.gzipMin, 1.2);
});

test("malformed events are counted, never fatal, and cannot fill the memory", () => {
  const bad = [
    { type: "step_begin", step: 1e9 }, { type: "step_begin", step: -1 }, { type: "step_begin", step: "0" }, { type: "tokens", step: 0, source: "base" },
    { type: "tokens", step: 0, source: "base", rows: [{ cand: 1e9, text: "", ent: [], tokens: 1 }] }, { type: "abort", step: 0, source: "root", cand: 0, guard: "entropy" },
    { type: "abort", step: 0, source: "base", cand: 0, guard: "__proto__" }, { type: "commit", step: 0, source: "base", cand: 0 }, { type: "kv", step: null }, { type: "header" },
    { type: "scores", step: 0, scorer: "x" },
  ];
  const state = fold(bad);
  assert.equal(state.skipped, bad.length);
  assert.ok(state.steps.length <= 1);
  assert.equal(fold([{ type: "constructor" }, { type: "toString" }, { type: "from_the_future", step: 3 }]).skipped, 0);
});

test("a run that dies keeps its steps and its message", () => {
  const state = fold(synthetic({ steps: 2, close: "error" }));
  assert.equal(state.closing.type, "error");
  assert.equal(state.counts.commits, 2);
  assert.match(state.closing.message, /failed/);
});
