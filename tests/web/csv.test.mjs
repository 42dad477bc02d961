// Exported tables: stable columns, and cells that a spreadsheet can neither run nor break on.

import assert from "node:assert/strict";
import test from "node:test";
import { signalsCsv, stepsCsv } from "../../assets/js/csv.mjs";
import { apply, newState } from "../../assets/js/state.mjs";

function told(text) {
  const events = [
    { type: "header", run: "r1", config: { ent_window: 2 }, models: {} },
    { type: "step_begin", step: 0 },
    { type: "tokens", step: 0, source: "base", rows: [{ cand: 0, tokens: 2, text, ent: [0.5, 1.25], gzip: [[2, 0.75]] }] },
    { type: "tokens", step: 0, source: "helper", rows: [{ cand: 1, tokens: 1, text: "x", ent: [3] }] },
    { type: "abort", step: 0, source: "base", cand: 0, guard: "gzip", position: 2, value: 0.1, threshold: 0.3 },
    { type: "scores", step: 0, scorer: "rule", scores: [{ source: "helper", cand: 1, score: 0.9 }] },
    { type: "commit", step: 0, source: "helper", cand: 1, score: 0.9, text, tokens: 1, pieces: [text] },
    { type: "kv", step: 0, seen: 40, resident: 20, retention: 0.5, map: "" },
  ];
  return events.reduce(apply, newState());
}

test("one row a step", () => {
  assert.equal(
    stepsCsv(told("So 7.\n\n")),
    "schema,run,step,source,candidate,reward,tokens,candidates,aborted,resident,seen,retention,text\r\n1,r1,1,helper,2,0.9,1,2,1,20,40,0.5,So 7.\r\n",
  );
});

test("one row a token and signal", () => {
  assert.deepEqual(signalsCsv(told("So 7.")).trim().split("\r\n"), [
    "schema,run,step,source,candidate,committed,token,signal,value",
    "1,r1,1,base,1,0,1,entropy,0.5",
    "1,r1,1,base,1,0,2,entropy,1.25",
    "1,r1,1,base,1,0,2,gzip,0.75",
    "1,r1,1,helper,2,1,1,entropy,3",
    "1,r1,1,helper,2,1,1,reward,0.9",
  ]);
});

test("formulas become text, and quotes, commas and newlines stay in their cell", () => {
  for (const start of ["=", "+", "-", "@"]) assert.match(stepsCsv(told(`${start}cmd()`)), new RegExp(`,'\\${start}cmd\\(\\)\\r\\n$`));
  assert.ok(stepsCsv(told('a "b", c\nd')).endsWith(',"a ""b"", c\nd"\r\n'));
});

test("nothing committed, no rows", () => {
  assert.equal(stepsCsv(newState()).split("\r\n").length, 2);
  assert.equal(signalsCsv(newState()).split("\r\n").length, 2);
});
