import assert from "node:assert/strict";
import test from "node:test";

import { apply, newState } from "../../assets/js/state.mjs";
import { tripAt, whatIf } from "../../assets/js/whatif.mjs";

const one = (more) => ({ source: "base", cand: 0, average: [], gzip: [], tokens: 0, abort: null, ...more });

test("the earlier of two trips counts, and limits are strict", () => {
  const both = one({ average: [null, null, 1, 3], gzip: [[3, 0.2]] });
  assert.deepEqual(tripAt(both, { tau_ent: 2, tau_cmp: 0.3 }), { position: 3, guard: "gzip" });
  assert.deepEqual(tripAt(both, { tau_ent: 0.5, tau_cmp: 0.1 }), { position: 3, guard: "entropy" });
  assert.equal(tripAt(both, { tau_ent: 3, tau_cmp: 0.2 }), null);
});

// Two steps by hand. Step 1: B1 is chosen and peaks at 1.0 (token 2 of 4); B2 was aborted at token 2. Step 2: the helper is chosen.
function run() {
  const config = { ent_window: 2, tau_ent: 2.5, tau_cmp: 0.3 };
  const row = (cand, ent) => ({ cand, tokens: ent.length, text: "x", ent });
  return [
    { type: "header", config, models: {} },
    { type: "step_begin", step: 0 },
    { type: "tokens", step: 0, source: "base", rows: [row(0, [1, 1, 0, 0]), row(1, [3, 3])] },
    { type: "abort", step: 0, source: "base", cand: 1, guard: "entropy", position: 2, value: 3, threshold: 2.5 },
    { type: "commit", step: 0, source: "base", cand: 0, score: 0.9, text: "x", tokens: 4, pieces: [] },
    { type: "step_begin", step: 1 },
    { type: "tokens", step: 1, source: "base", rows: [row(0, [0.2, 1.4, 0, 0, 0])] },
    { type: "tokens", step: 1, source: "helper", rows: [row(0, [9, 9])] },
    { type: "commit", step: 1, source: "helper", cand: 0, score: 0.9, text: "x", tokens: 2, pieces: [] },
  ].reduce(apply, newState());
}

test("the recorded limits change nothing", () => {
  assert.deepEqual(whatIf(run(), { tau_ent: 2.5, tau_cmp: 0.3 }), { killed: [], spared: [], saved: 0, known: null });
});

test("lower limits kill earlier and save the rest of the tokens", () => {
  const found = whatIf(run(), { tau_ent: 0.9, tau_cmp: 0.3 });
  assert.deepEqual(found.killed, [{ step: 0, name: "B1", position: 2, guard: "entropy", saved: 2, chosen: true }]);
  assert.equal(found.known, 0);
  const lower = whatIf(run(), { tau_ent: 0.75, tau_cmp: 0.3 });
  assert.equal(lower.saved, 2 + 3);
});

test("higher limits spare a candidate, and from there on nothing is known", () => {
  const found = whatIf(run(), { tau_ent: 5, tau_cmp: 0.3 });
  assert.deepEqual([found.killed, found.spared, found.known], [[], [{ step: 0, name: "B2" }], 0]);
});
