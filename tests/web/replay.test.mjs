// Where a trace can be stopped, and what is refused before it is shown.

import assert from "node:assert/strict";
import test from "node:test";
import { nudged, placeOf, readWhole, stopsOf } from "../../assets/js/replay.mjs";

const events = ["header", "prompt", "step_begin:0", "abort", "abort", "commit:helper", "kv", "step_begin:1", "evict", "commit:base", "kv", "end"].map(
  (text, seq) => {
    const [type, more] = text.split(":");
    return { type, seq, ...(type === "step_begin" ? { step: Number(more) } : { source: more }) };
  },
);

test("a trace stops after the problem, after every step and at its end", () => {
  assert.deepEqual(stopsOf(events), [
    { count: 2, step: null, aborts: 0, helper: false, evictions: 0 },
    { count: 7, step: 0, aborts: 2, helper: true, evictions: 0 },
    { count: 12, step: 1, aborts: 0, helper: false, evictions: 1 },
  ]);
});

test("what follows the last step belongs to it", () => {
  assert.equal(stopsOf(events).at(-1).count, events.length);
  assert.deepEqual(stopsOf([]), []);
});

test("a run that died before any step has one stop", () => {
  assert.deepEqual(stopsOf([{ type: "header" }, { type: "error" }]), [{ count: 2, step: null, aborts: 0, helper: false, evictions: 0 }]);
});

test("a whole trace is read with or without its last newline", () => {
  const text = events.map((event) => JSON.stringify(event.type === "header" ? { ...event, config: {} } : event)).join("\n");
  for (const whole of [text, `${text}\n`]) {
    const { events: read, wrong } = readWhole(whole);
    assert.equal(wrong, null);
    assert.equal(read.length, events.length);
  }
});

test("files that are no trace, or too large, are refused", () => {
  assert.equal(readWhole("hello").wrong, "none");
  assert.equal(readWhole('{"type":"end","seq":0}').wrong, "none");
  assert.equal(readWhole('{"type":"header","seq":0,"config":7}').wrong, "none");
  assert.equal(readWhole("x".repeat(10 * 1024 * 1024 + 1)).wrong, "large");
});

test("between two stops lies what was written meanwhile, and near a stop is at it", () => {
  const stops = stopsOf(events);
  assert.deepEqual(placeOf(stops, 1), { at: 1, count: 7 });
  assert.deepEqual(placeOf(stops, 0.5), { at: 0, count: 5 });
  assert.deepEqual(placeOf(stops, 0.95), { at: 1, count: 7 });
  assert.deepEqual(placeOf(stops, 1.05), { at: 1, count: 7 });
  assert.deepEqual(placeOf(stops, -3), { at: 0, count: 2 });
  assert.deepEqual(placeOf(stops, 99), { at: 2, count: 12 });
  assert.deepEqual(placeOf([], 1), { at: 0, count: 0 });
});

test("a nudge goes to the next tokens, commit or abort, and never outside", () => {
  const places = [];
  for (let count = 2; count < events.length; ) places.push((count = nudged(events, count, 1)));
  assert.deepEqual(places, [4, 5, 6, 10, 12]);
  assert.equal(nudged(events, 6, -1), 5);
  assert.equal(nudged(events, 4, -1), 0);
  assert.equal(nudged(events, 12, 1), 12);
});
