import assert from "node:assert/strict";
import test from "node:test";

import { KINDS, crosshair, emptiest, figure } from "../../assets/js/figures.mjs";
import { translator } from "../../assets/js/i18n.mjs";
import { bucket, joined, positions, series, summaries } from "../../assets/js/series.mjs";
import { apply, newState } from "../../assets/js/state.mjs";
import { rowsOf } from "../../assets/js/tables.mjs";
import { HOSTILE, random, synthetic } from "./synthetic.mjs";

const t = translator();
const fold = (options) => synthetic(options).reduce(apply, newState());
const THRESHOLDS = { tau_ent: 2.5, tau_cmp: 0.3, ent_window: 16 };
const COLORS = { base: "#00f", helper: "#f80", alert: "#603", ink: "#111", muted: "#666", grid: "#eee", panel: "#fff" };
const VIEW = { axis: "step", range: [0, 8], revision: 0, steps: 6, narrow: false, thresholds: THRESHOLDS, colors: COLORS };

test("long series keep their extremes and their order", () => {
  const points = Array.from({ length: 5000 }, (_, x) => ({ x, y: x === 3210 ? 99 : x === 17 ? -99 : Math.sin(x) }));
  const short = bucket(points, 300);
  assert.ok(short.length <= 300);
  assert.ok(short.some(({ y }) => y === 99) && short.some(({ y }) => y === -99));
  for (let i = 1; i < short.length; i++) assert.ok(short[i].x > short[i - 1].x);
  assert.deepEqual(bucket(points.slice(0, 300), 300), points.slice(0, 300));
});

test("no length of input gives too many points", () => {
  const next = random(5);
  for (let trial = 0; trial < 200; trial++) {
    const points = Array.from({ length: Math.floor(next() * 2000) }, (_, x) => ({ x, y: next() }));
    assert.ok(bucket(points, 300).length <= 300);
    const lines = Array.from({ length: Math.floor(next() * 150) }, (_, i) => Array.from({ length: 1 + Math.floor(next() * 60) }, (_, x) => ({ x: i + x, y: next() })));
    assert.ok(joined(lines, 300).length <= 300);
  }
});

test("lines of two candidates are not tied together", () => {
  const list = joined([[{ x: 1, y: 1 }, { x: 2, y: 2 }], [{ x: 1, y: 5 }]], 300);
  assert.deepEqual(list.map(({ y }) => y), [1, 2, null, 5, null]);
});

test("x is the step, or the committed tokens up to its end", () => {
  const state = fold({ steps: 3 });
  assert.deepEqual(positions(state, "step"), [1, 2, 3]);
  const tokens = state.steps.map((step) => step.commit.tokens);
  assert.deepEqual(positions(state, "token"), [tokens[0], tokens[0] + tokens[1], tokens[0] + tokens[1] + tokens[2]]);
});

test("every committed step has a reward, every abort a cross, and memory a point each", () => {
  const state = fold({ steps: 6 });
  const data = series(state, "step", t);
  assert.deepEqual(data.reward.committed.map(({ y }) => y), state.steps.map((step) => step.commit.score));
  assert.equal(data.reward.aborted.length, state.counts.aborts);
  assert.equal(data.retention.held.length, 7);
  assert.equal(data.retention.held[0].x, 0);
  assert.equal(data.entropy.aborted.length + data.gzip.aborted.length, state.counts.aborts);
});

test("by step the entropy is the highest average of the step", () => {
  const state = fold({ steps: 4 });
  for (const point of series(state, "step", t).entropy.committed) {
    const { commit, candidates } = state.steps[point.step];
    const { average } = candidates.get(`${commit.source}/${commit.cand}`);
    assert.equal(point.y, Math.max(...average.filter((value) => value !== null)));
  }
});

test("nothing is drawn before a window is full", () => {
  const state = fold({ steps: 1, n: 1, text: "too short", close: null });
  const { entropy, gzip } = series(state, "token", t);
  assert.deepEqual([entropy.committed, gzip.committed], [[], []]);
  assert.match(figure("gzip", gzip, VIEW, t).empty, /^$/, "the aborted base candidate is a cross");
  assert.match(figure("gzip", null, VIEW, t).empty, /not judged yet/);
});

test("figures: threshold written on its line, gzip not clamped, no model text near Plotly", () => {
  const state = fold({ steps: 6, text: HOSTILE, problem: HOSTILE });
  state.steps[0].candidates.get("base/0").gzip.push([20, 1.4]);
  state.steps[0].candidates.get("base/0").gzipMin = 1.4;
  for (const axis of ["step", "token"]) {
    const data = series(state, axis, t);
    for (const kind of KINDS) {
      const made = figure(kind, data[kind], { ...VIEW, axis }, t);
      assert.ok(!JSON.stringify(made).includes("onerror"));
      for (const trace of made.traces) assert.ok(trace.x.length <= 300 && trace.x.length === trace.y.length);
      assert.ok(made.layout.hoverlabel.bgcolor && made.layout.xaxis.zerolinecolor && made.layout.yaxis.gridcolor);
    }
    assert.ok(figure("gzip", data.gzip, { ...VIEW, axis }, t).layout.yaxis.range[1] > 1.4);
    assert.equal(figure("entropy", data.entropy, VIEW, t).layout.annotations[0].text, "abort above 2.5 nats");
  }
});

test("the crosshair marks the selected and the hovered step once each", () => {
  assert.equal(crosshair([1, 2, 3], 1, 2, COLORS).length, 2);
  assert.equal(crosshair([1, 2, 3], 1, 1, COLORS).length, 1);
  assert.equal(crosshair([1, 2, 3], null, null, COLORS).length, 0);
  assert.equal(crosshair([], 4, null, COLORS).length, 0);
});

test("each chart has a sentence and a table", () => {
  const empty = summaries(newState(), THRESHOLDS, t);
  assert.deepEqual(Object.keys(empty).sort(), [...KINDS].sort());
  const state = fold({ steps: 6 });
  const lines = summaries(state, THRESHOLDS, t);
  assert.match(lines.reward, /^PRM reward of 6 committed steps: between 0\.\d\d and 0\.\d\d\. Lowest at step \d\. 3 candidates aborted\.$/);
  assert.match(lines.retention, /^64 of \d+ tokens are held \(\d+ %\)\.$/);
  const data = series(state, "step", t);
  for (const kind of KINDS) assert.ok(rowsOf(kind, data[kind]).length > 0);
});

test("a limit's label stands where the fewest points are", () => {
  const at = (x, y) => ({ x, y });
  assert.deepEqual(emptiest([], 2, 3, "top"), { xanchor: "right", yanchor: "top" });
  assert.deepEqual(emptiest([at(10, 1.9)], 2, 3, "top"), { xanchor: "left", yanchor: "top" });
  assert.deepEqual(emptiest([at(1, 1.9), at(10, 1.9)], 2, 3, "top"), { xanchor: "right", yanchor: "bottom" });
  assert.deepEqual(emptiest([at(1, 1.9), at(10, 1.9), at(10, 2.1)], 2, 3, "top"), { xanchor: "left", yanchor: "bottom" });
  assert.deepEqual(emptiest([at(5, 1.9), at(10, 0.1)], 2, 3, "top"), { xanchor: "right", yanchor: "top" });
});
