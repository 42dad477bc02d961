// Unit tests of the viewer's pure modules; run with `node --test tests/web/`.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import * as format from "../../assets/js/format.mjs";
import { TailParser } from "../../assets/js/parse.mjs";
import * as rle from "../../assets/js/rle.mjs";
import { bucket } from "../../assets/js/series.mjs";
import { apply, newState, rejectedOf, trippedRange, whyNot, winnerOf } from "../../assets/js/state.mjs";
import { synthetic } from "./synthetic.mjs";

const lines = (events) => events.map((event) => JSON.stringify(event) + "\n").join("");
const fold = (events) => events.reduce(apply, newState());
const CONFIG = { ent_window: 4, cmp_window: 10, tau_ent: 2.5, tau_cmp: 0.3 };

test("rle agrees with the shared table and with itself", () => {
  const cases = JSON.parse(readFileSync(new URL("../data/rle_cases.json", import.meta.url)));
  assert.ok(cases.length > 5);
  for (const { levels, text } of cases) {
    assert.equal(rle.encode(levels), text);
    assert.deepEqual(rle.decode(text), levels);
  }
  for (const bad of ["g", "f-1", "f  0", "fz zz99999", " f", "f00"]) assert.throws(() => rle.decode(bad), undefined, bad);
});

test("the parser reads any cut of a stream once", () => {
  const events = synthetic({ steps: 4 });
  const text = lines(events);
  for (let trial = 0; trial < 50; trial++) {
    const parser = new TailParser();
    const seen = [];
    let at = 0;
    while (at < text.length) {
      at = Math.min(text.length, at + 1 + Math.floor(((trial * 7919 + at * 104729) % 977) * 2));
      seen.push(...parser.feed(text.slice(0, at)).events);
    }
    assert.deepEqual(seen, events);
    assert.deepEqual(parser.problems, []);
  }
});

test("another run resets the parser", () => {
  const parser = new TailParser();
  const first = lines(synthetic({ steps: 2, run: "aaaa" }));
  const second = lines(synthetic({ steps: 3, run: "bbbb" }));
  parser.feed(first);
  const { events, restarted } = parser.feed(second);
  assert.ok(restarted);
  assert.equal(events[0].type, "header");
  assert.equal(events[0].run, "bbbb");
  assert.ok(parser.feed("").restarted);
});

test("bad lines and gaps are told, not fatal", () => {
  const parser = new TailParser();
  const { events } = parser.feed('{"type":"header","seq":0}\nnot json\n[]\nnull\n{"type":"end","seq":5}\n{"type":"x"');
  assert.deepEqual(events.map((event) => event.type), ["header", "end"]);
  assert.equal(parser.problems.length, 4);
  assert.match(parser.problems[3], /1 to 4/);
});

test("the fold does not depend on how events arrive, and counts add up", () => {
  const events = synthetic({ steps: 6 });
  const state = fold(events);
  assert.equal(state.counts.commits, 6);
  assert.equal(state.steps.length, 6);
  assert.ok(state.counts.aborts > 0 && state.counts.flags > 0);
  for (const step of state.steps) {
    assert.equal(step.candidates.size, 4);
    assert.equal(rejectedOf(step).length, 3);
    assert.equal(winnerOf(step).source, step.commit.source);
  }
});

test("every rejected candidate has a reason", () => {
  const state = fold(synthetic({ steps: 6 }));
  const reasons = state.steps.flatMap((step) => rejectedOf(step).map((candidate) => whyNot(candidate, format.label)));
  assert.ok(reasons.some((reason) => /aborted: entropy at token \d+ \(\d+\.\d\d > 2.5 nats\)/.test(reason)));
  assert.ok(reasons.some((reason) => /aborted: loop, gzip ratio at token \d+/.test(reason)));
  assert.ok(reasons.some((reason) => /same text as B1/.test(reason)));
  assert.ok(reasons.every(Boolean));
});

test("the moving average starts when its window is full", () => {
  const state = newState();
  apply(state, { type: "header", config: CONFIG });
  const rows = [{ cand: 0, tokens: 6, text: "abcdef", ent: [1, 2, 3, 4, 5, 6], gzip: [] }];
  apply(state, { type: "tokens", step: 0, source: "base", rows });
  const [candidate] = state.steps[0].candidates.values();
  assert.deepEqual(candidate.average, [null, null, null, 2.5, 3.5, 4.5]);
});

test("the tripped window is found in the text", () => {
  const candidate = { text: "0123456789abcdefghij", marks: [[0, 0], [4, 8], [8, 16], [10, 20]] };
  assert.deepEqual(trippedRange(candidate, { guard: "entropy", position: 8 }, CONFIG), [8, 16]);
  assert.deepEqual(trippedRange(candidate, { guard: "entropy", position: 2 }, CONFIG), [0, 8]);
  assert.deepEqual(trippedRange(candidate, { guard: "gzip", position: 10 }, CONFIG), [10, 20]);
});

test("long series keep their extremes", () => {
  const points = Array.from({ length: 5000 }, (_, i) => [i, i === 3210 ? 99 : Math.sin(i)]);
  const short = bucket(points, 300);
  assert.ok(short.length <= 300);
  assert.ok(short.some(([, y]) => y === 99));
  assert.deepEqual(bucket(points.slice(0, 10), 300), points.slice(0, 10));
  for (let i = 1; i < short.length; i++) assert.ok(short[i][0] > short[i - 1][0]);
});

test("numbers read well", () => {
  assert.equal(format.bytes(512), "512 B");
  assert.equal(format.bytes(4423680), "4.2 MB");
  assert.equal(format.percent(0.214), "21 %");
  assert.equal(format.plural(1, "step"), "1 step");
  assert.equal(format.plural(1234, "token"), "1,234 tokens");
  assert.equal(format.fixed(NaN), "–");
  assert.equal(format.label("helper", 0), "H1");
});
