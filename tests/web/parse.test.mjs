import assert from "node:assert/strict";
import test from "node:test";

import { TailParser } from "../../assets/js/parse.mjs";
import { HOSTILE, random, synthetic } from "./synthetic.mjs";

const lines = (events) => events.map((event) => JSON.stringify(event) + "\n").join("");

test("any cut of a stream is read once, in order", () => {
  const events = synthetic({ steps: 4, text: HOSTILE });
  const text = lines(events);
  const next = random(7);
  for (let trial = 0; trial < 60; trial++) {
    const parser = new TailParser();
    const seen = [];
    for (let at = 0; at < text.length; ) {
      at = Math.min(text.length, at + 1 + Math.floor(next() * 2500));
      const { events: read, restarted } = parser.feed(text.slice(0, at));
      assert.equal(restarted, false);
      seen.push(...read);
    }
    assert.deepEqual(seen, events);
    assert.deepEqual(parser.problems, []);
  }
});

test("every single character may be a cut", () => {
  const text = lines(synthetic({ steps: 1, n: 1, close: null })).slice(0, 3000);
  const parser = new TailParser();
  let count = 0;
  for (let at = 0; at <= text.length; at++) count += parser.feed(text.slice(0, at)).events.length;
  assert.equal(count, text.split("\n").length - 1);
});

test("the last line may be incomplete", () => {
  const parser = new TailParser();
  assert.deepEqual(parser.feed('{"type":"header","seq":0').events, []);
  assert.equal(parser.feed('{"type":"header","seq":0}').events.length, 0);
  assert.equal(parser.feed('{"type":"header","seq":0}\n').events.length, 1);
});

test("another run, or a shorter string, begins anew", () => {
  const parser = new TailParser();
  const first = lines(synthetic({ steps: 2, run: "aaaa" }));
  const second = lines(synthetic({ steps: 3, run: "bbbb" }));
  parser.feed(first);
  const { events, restarted } = parser.feed(second);
  assert.ok(restarted);
  assert.equal(events[0].run, "bbbb");
  assert.ok(parser.feed("").restarted);
  assert.ok(!parser.feed("").restarted);
  assert.ok(!parser.feed(first).restarted);
});

test("bad lines and gaps are told and not fatal", () => {
  const parser = new TailParser();
  const { events } = parser.feed('{"type":"header","seq":0}\nnot json\n[]\nnull\n{"type":"x"}\n\n{"type":"end","seq":5}\n{"type":"late","seq":2}\n{"type":"x"');
  assert.deepEqual(events.map((event) => event.type), ["header", "end", "late"]);
  assert.deepEqual(parser.problems, [
    { code: "bad_line", line: 2 }, { code: "not_event", line: 3 }, { code: "not_event", line: 4 }, { code: "not_event", line: 5 },
    { code: "gap", from: 1, to: 4 }, { code: "order", seq: 2 },
  ]);
});

test("a flood of bad lines does not grow without end", () => {
  const parser = new TailParser();
  parser.feed("x\n".repeat(10_000));
  assert.ok(parser.problems.length <= 20);
});
