import assert from "node:assert/strict";
import test from "node:test";

import { translator } from "../../assets/js/i18n.mjs";
import { apply, newState, rejectedOf, winnerOf } from "../../assets/js/state.mjs";
import { bytesBefore, clip, safeCut, tail } from "../../assets/js/text.mjs";
import { trippedRange, verdictText, whyNot } from "../../assets/js/verdicts.mjs";
import { synthetic } from "./synthetic.mjs";

const t = translator();
const CONFIG = { ent_window: 4, cmp_window: 10 };

test("every rejected candidate has a reason", () => {
  const state = synthetic({ steps: 6 }).reduce(apply, newState());
  const reasons = state.steps.flatMap((step) => rejectedOf(step).map((candidate) => whyNot(candidate, winnerOf(step), t)));
  for (const pattern of [/^aborted: entropy at token \d+ \(2\.73 > 2\.5 nats\)$/, /^aborted: loop, gzip ratio at token \d+ \(0\.18 < 0\.3\)$/, /^duplicate of B1$/, /^lower score$/]) {
    assert.ok(reasons.some((reason) => pattern.test(reason)), `${pattern}`);
  }
  assert.ok(reasons.every((reason) => reason && !reason.includes("why.")));
});

test("each state of a candidate has its own words", () => {
  const of = (fields) => whyNot({ abort: null, finish: "delimiter", duplicateOf: null, empty: false, score: 0.5, ...fields }, { score: 0.7 }, t);
  const words = [
    of({}), of({ score: 0.7 }), of({ score: null }), of({ score: undefined }), of({ empty: true, score: undefined }), of({ duplicateOf: ["helper", 2] }), of({ finish: "stopped" }), of({ finish: null }),
  ];
  assert.equal(new Set(words).size, words.length);
  assert.equal(words[5], "duplicate of H3");
});

test("a flag uses another word than an abort", () => {
  const text = verdictText({ guard: "entropy", position: 20, value: 2.8, threshold: 2.5 }, t, "why.flag");
  assert.match(text, /^flagged, not stopped: entropy at token 20 \(2\.80 > 2\.5 nats\)$/);
});

test("the tripped window is found in the text", () => {
  const candidate = { text: "0123456789abcdefghij", marks: [[0, 0], [4, 8], [8, 16], [10, 20]] };
  const range = (guard, position) => trippedRange(candidate, { guard, position }, CONFIG);
  assert.deepEqual(range("entropy", 8), [8, 16]);
  assert.deepEqual(range("entropy", 2), [0, 8]);
  // The window begins inside the first batch: all of that batch counts.
  assert.deepEqual(range("entropy", 10), [8, 20]);
  assert.deepEqual(range("entropy", 7), [0, 16]);
  assert.deepEqual(range("gzip", 10), [10, 20]);
  assert.deepEqual(range("gzip", 4), [0, 8]);
  assert.deepEqual(range("gzip", 99), [10, 20]);
});

test("byte windows count UTF-8 and never cut a character", () => {
  assert.equal(bytesBefore("abcdef", 6, 4), 2);
  assert.equal(bytesBefore("한국어", 3, 6), 1);
  assert.equal(bytesBefore("한국어", 3, 5), 2);
  assert.equal(bytesBefore("a🎈b", 4, 5), 1);
  assert.equal(bytesBefore("a🎈b", 4, 4), 3);
  assert.equal(bytesBefore("abc", 3, 100), 0);
  for (const text of ["héllo 한 🎈🎈 x", "\ud800a\udc00"]) {
    for (let bytes = 0; bytes < 24; bytes++) {
      const kept = text.slice(bytesBefore(text, text.length, bytes));
      assert.ok(Buffer.byteLength(kept, "utf8") <= bytes);
    }
  }
});

test("cuts keep surrogate pairs whole", () => {
  assert.equal(clip("a🎈b", 2), "a");
  assert.equal(clip("a🎈b", 3), "a🎈");
  assert.equal(tail("a🎈b", 2), "b");
  assert.equal(tail("a🎈b", 3), "🎈b");
  assert.equal(safeCut("a🎈b", 2), 1);
  assert.equal(clip("\ud800x", 1), "\ud800");
});
