import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { sentence } from "../../assets/js/grid.mjs";
import { translator } from "../../assets/js/i18n.mjs";
import { alwaysKept, droppedSince, forgottenNumbers, forgottenSince, gridOf, groupsOf, heldBy, levelsOf, memoryAt, shade } from "../../assets/js/recall.mjs";
import * as rle from "../../assets/js/rle.mjs";
import { random, synthetic } from "./synthetic.mjs";

test("the codec agrees with the table it shares with Python", () => {
  const cases = JSON.parse(readFileSync(new URL("../data/rle_cases.json", import.meta.url), "utf8"));
  assert.ok(cases.length > 5);
  for (const { levels, text } of cases) {
    assert.equal(rle.encode(levels), text);
    assert.deepEqual(rle.decode(text), levels);
  }
});

test("the codec is its own inverse and refuses anything else", () => {
  const next = random(11);
  for (let trial = 0; trial < 100; trial++) {
    const levels = Array.from({ length: Math.floor(next() * 400) }, () => Math.floor(next() * next() * 16));
    assert.deepEqual(rle.decode(rle.encode(levels)), levels);
  }
  for (const bad of ["g", "f-1", "f  0", "fz zz99999", " f", "f00", "F2", "f2\n"]) assert.throws(() => rle.decode(bad), undefined, bad);
});

test("only an empty token is forgotten and only a full one is everywhere", () => {
  const shades = Array.from({ length: 16 }, (_, level) => shade(level));
  assert.deepEqual(shades.filter((one) => one === 0).length, 1);
  assert.deepEqual(shades.filter((one) => one === 4).length, 1);
  assert.deepEqual(shades, shades.toSorted((a, b) => a - b));
});

test("a broken map is no map", () => {
  assert.deepEqual(levelsOf({ map: "nonsense" }), []);
  assert.deepEqual(levelsOf({ map: "f2 0" }), [15, 15, 0]);
});

test("the memory after a step, or the newest", () => {
  const kvs = [{ step: -1 }, { step: 0 }, { step: 1 }];
  assert.equal(memoryAt(kvs, null), kvs[2]);
  assert.equal(memoryAt(kvs, 0), kvs[1]);
  assert.equal(memoryAt(kvs, 9), kvs[2]);
  assert.equal(memoryAt([], null), null);
});

test("a number is forgotten when none of its digits is held", () => {
  const pieces = ["sells", " 1", "2", "0", " loaves", " 35", " and", " 4", " 7"];
  assert.deepEqual(forgottenNumbers(pieces, [0, 0, 0, 0, 0, 0, 0, 15, 0]), ["120", "35", "7"]);
  assert.deepEqual(forgottenNumbers(pieces, [0, 0, 1, 0, 0, 0, 0, 15, 0]), ["35", "7"]);
  assert.deepEqual(forgottenNumbers(pieces, []), []);
  assert.deepEqual(forgottenNumbers(["5", " 5"], [0, 0]), ["5"]);
  assert.deepEqual(forgottenNumbers(["5", " 5"], [0, 3]), [], "the same number is still held elsewhere");
});

test("synthetic maps cover what was seen, and what is gone stays gone", () => {
  let before = [];
  for (const kv of synthetic({ steps: 8 }).filter((event) => event.type === "kv")) {
    const levels = rle.decode(kv.map);
    assert.equal(levels.length, kv.seen);
    before.forEach((level, i) => assert.ok(level > 0 || levels[i] === 0, `token ${i} came back`));
    before = levels;
  }
});

test("layers have maps of their own, and a missing one is no map", () => {
  const kv = { map: "f 7 0", layers: ["f 0 0", "f f 0"], seen: 3 };
  assert.equal(groupsOf(kv), 2);
  assert.equal(groupsOf({ map: "f" }), 0);
  assert.deepEqual(levelsOf(kv, 1), [15, 15, 0]);
  assert.deepEqual(levelsOf(kv), [15, 7, 0]);
  assert.deepEqual(levelsOf(kv, 5), []);
});

test("any head, half of them, all of them", () => {
  const levels = [0, 1, 7, 8, 14, 15];
  assert.deepEqual(heldBy(levels, "share"), levels);
  assert.deepEqual(heldBy(levels, "any"), [0, 15, 15, 15, 15, 15]);
  assert.deepEqual(heldBy(levels, "half"), [0, 0, 0, 15, 15, 15]);
  assert.deepEqual(heldBy(levels, "all"), [0, 0, 0, 0, 0, 15]);
});

test("a forgotten number names the step behind which it was gone first", () => {
  const pieces = [" 12", " and", " 7"];
  const kvs = [{ step: -1, map: "f3" }, { step: 0, map: "0 f2" }, { step: 1, map: "0 f 0" }];
  assert.deepEqual(forgottenSince(kvs, 0, pieces), []);
  assert.deepEqual(forgottenSince(kvs, 1, pieces), [["12", 0]]);
  assert.deepEqual(forgottenSince(kvs, 2, pieces), [["12", 0], ["7", 1]]);
});

test("the grid averages positions and never has more columns than there are", () => {
  assert.deepEqual(gridOf({ map: "f2 02", seen: 4, layers: ["f2 02", "02 f2"] }, 2), [[1, 0], [0, 1]]);
  assert.deepEqual(gridOf({ map: "f 0", seen: 2 }, 100), [[1, 0]]);
});

test("what a policy never drops is what it says of itself", () => {
  const config = { window: 8, sinks: 4, protect_sink: 2 };
  const of = (policy) => Object.values(alwaysKept({ ...config, policy }));
  assert.deepEqual([of("rkv"), of("streaming-llm"), of("knorm"), of("tova"), of("h2o")], [[0, 8], [4, 0], [2, 8], [0, 0], [0, 0]]);
  assert.deepEqual(Object.values(alwaysKept({})), [0, 0]);
});

test("forgotten numbers follow the layers and what counts as held", () => {
  const pieces = ["A", " 7", " 9"];
  const kvs = [{ step: -1, map: "f f f", layers: [] }, { step: 0, map: "f 8 f", layers: ["f 0 f", "f f f"] }, { step: 1, map: "f 4 e", layers: ["f 0 f", "f 7 d"] }];
  assert.deepEqual(forgottenSince(kvs, 2, pieces), []);
  assert.deepEqual(forgottenSince(kvs, 2, pieces, { group: 0 }), [["7", 0]]);
  assert.deepEqual(forgottenSince(kvs, 2, pieces, { group: 1, by: "half" }), [["7", 1]]);
  assert.deepEqual(forgottenSince(kvs, 2, pieces, { by: "all" }), [["7", 0], ["9", 1]]);
  assert.deepEqual(forgottenSince(kvs, 1, pieces, { group: 1, by: "all" }), []);
});

test("a cell of the grid says whose it is, who holds it, and since when fewer do", () => {
  const t = translator();
  const state = {
    header: { models: { base: { layers: 5 } } }, prompt: { pieces: ["A", " \u202e7"] }, steps: [{ commit: { pieces: ["\n\n"] } }],
    kvs: [{ step: -1, seen: 2, map: "f2", layers: [] }, { step: 0, seen: 3, map: "9 8 f", layers: ["f 0 f", "3 f f"] }, { step: 1, seen: 3, map: "8 8 f", layers: ["c 0 f", "3 f f"] }],
  };
  const said = (row, position) => sentence(state.kvs[2], state, { row, position }, t);
  assert.equal(said(0, 0), "Token 1, “A”, layers 1–3: about 80 % of the heads hold it; the first one dropped it after step 2.");
  assert.equal(said(0, 1), "Token 2, “\u2068\u202e7\u2069”, layers 1–3: no head holds it any more; the last one dropped it after step 1.");
  state.header.models.base.kv_heads = 2;
  assert.match(said(0, 0), /about 83 % of/, "5 of 6 heads");
  assert.match(said(1, 2), /^Token 3, “↵↵”, layers 4–5: every head holds it\.$/);
  assert.equal(said(0, 3), null);
  assert.match(sentence(state.kvs[0], state, { row: 0, position: 0 }, t), /all layers: every head/);
  assert.equal(droppedSince(state.kvs, 2, { group: 1, position: 1, most: 14 }), null);
});
