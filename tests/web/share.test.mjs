import assert from "node:assert/strict";
import test from "node:test";

import { translator } from "../../assets/js/i18n.mjs";
import { fenced, summaryOf } from "../../assets/js/markdown.mjs";
import { curlCall, python, pythonCall, settingsQuery } from "../../assets/js/share.mjs";
import { apply, newState } from "../../assets/js/state.mjs";
import { HOSTILE, synthetic } from "./synthetic.mjs";

const header = { problem: "How 'many' \"eggs\"?\n한국어", model_set: "lab", config: { method: "full", policy: "rkv", budget: 64, n: 2, seed: 1, early_exit: true, tau_ent: 2.5, delimiter: "\n\n" } };

test("values are written as Python writes them", () => {
  assert.equal(python({ a: [true, false, null], b: "x\n\u2028" }), '{"a": [True, False, None], "b": "x\\n\\u2028"}');
});

test("the call names every argument of the endpoint", () => {
  const code = pythonCall(header, "http://here/");
  for (const part of ['Client("http://here/")', 'method="full"', "budget=64", '"early_exit": True', 'models="lab"', 'api_name="/solve"']) assert.ok(code.includes(part), part);
});

test("no quote of a problem ends the shell's", () => {
  const code = curlCall(header, "http://here/");
  assert.ok(code.includes("'http://here/gradio_api/call/solve'"));
  assert.ok(code.includes("How '\\''many'\\''"));
});

test("a link carries problem, models and settings", () => {
  const read = (query) => JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(query.replace("settings=", "").replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0))));
  const run = { models: "lab", problem: header.problem, reference: String(header.reference ?? ""), settings: header.config };
  assert.deepEqual(read(settingsQuery(header)), run);
  assert.deepEqual(read(settingsQuery(header, ["full", "reco"])), { ...run, methods: ["full", "reco"] });
});

test("a summary keeps hostile text in fences that it cannot close", () => {
  const state = synthetic({ steps: 3, text: `${HOSTILE}\n\`\`\`\`\n# not a heading` }).reduce(apply, newState());
  const text = summaryOf(state, translator());
  assert.match(text, /^\| 1 \| [BH]\d/m);
  assert.ok(fenced("a ```` b").startsWith("`````text\n"));
  const outside = text.replace(/^(`{3,})text\n[\s\S]*?\n\1\n/gm, "");
  assert.ok(!outside.includes("<script") && !outside.includes("# not a heading"), outside);
});

test("a summary tells the known answer and the verdict, where there are any", () => {
  const about = (reference, answer, correct) => {
    const state = synthetic({ steps: 2 }).reduce(apply, newState());
    state.header.reference = reference;
    Object.assign(state.closing, { answer, correct });
    return summaryOf(state, translator());
  };
  assert.match(about("``` # 80", "80", true), /Known answer:\n\n````text\n``` # 80\n````\n\n✓ The answer is right\./);
  assert.match(about("80", "79", false), /text\n79\n[\s\S]*text\n80\n[\s\S]*✕ The answer is wrong\./);
  assert.match(about("80", null, false), /No final answer[\s\S]*✕/);
  const unknown = about(undefined, "80", null);
  assert.ok(!unknown.includes("Known answer") && !unknown.includes("✓") && !unknown.includes("✕"));
});
