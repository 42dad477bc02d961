import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { formats, label } from "../../assets/js/format.mjs";
import { translator } from "../../assets/js/i18n.mjs";
import { newsOf } from "../../assets/js/live.mjs";

const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
const holes = (text) => [...text.matchAll(/\{\w+\}/g)].map(([hole]) => hole).sort();

test("numbers read well", () => {
  const format = formats();
  assert.equal(format.bytes(512), "512 B");
  assert.equal(format.bytes(4423680), "4.2 MB");
  assert.equal(format.percent(0.214), "21 %");
  assert.equal(format.number(1234), "1,234");
  assert.equal(format.number(0.3), "0.3");
  assert.equal(format.fixed(NaN), "–");
  assert.equal(format.fixed(3.1), "3.10");
  assert.equal(format.seconds(2), "2.0 s");
  assert.equal(format.seconds(42.3), "42 s");
  assert.equal(label("helper", 0), "H1");
});

test("sentences are filled once and plural forms are chosen", () => {
  const t = translator();
  assert.equal(t("tokens", { n: 1 }), "1 token");
  assert.equal(t("tokens", { n: 1234 }), "1,234 tokens");
  assert.equal(t("header.judge", { scorer: "{n} {scorer} $& $1" }), "judged by {n} {scorer} $& $1");
  assert.equal(t("no.such.key"), "no.such.key");
  assert.equal(translator({ locale: "not a locale!" }).locale, "en");
  assert.equal(translator({ idle: "Los." })("idle"), "Los.");
});

test("text that turns the direction is isolated in a sentence", () => {
  const t = translator();
  assert.equal(t("status.finished", { reason: "\u202eturned" }), "finished: \u2068\u202eturned\u2069");
  assert.equal(t("status.finished", { reason: "out\u2069\u202e of ours" }), "finished: \u2068out\u202e of ours\u2069");
  assert.equal(t("live.finished.answer", { answer: "שלום" }), "finished, answer \u2068שלום\u2069");
  assert.equal(t("status.finished", { reason: "한국어 é" }), "finished: 한국어 é");
  assert.equal(t("method.\u202ex"), "\u2068method.\u202ex\u2069");
});

test("every sentence the modules ask for exists", () => {
  const english = read("../../assets/i18n/en.json");
  const known = new Set(Object.keys(english).map((key) => key.replace(/\.(one|other)$/, "")));
  const folder = new URL("../../assets/js/", import.meta.url);
  for (const name of readdirSync(folder)) {
    const source = readFileSync(new URL(name, folder), "utf8");
    for (const [, key] of source.matchAll(/\bt\("([\w.-]+)"/g)) assert.ok(known.has(key), `${name}: ${key}`);
  }
});

test("announcements are summed up", () => {
  const t = translator();
  const told = { commits: 1, aborts: 0, closed: false };
  assert.equal(newsOf({ counts: { commits: 4, aborts: 2 }, closing: null }, told, t), "3 steps committed, 2 candidates aborted");
  assert.equal(newsOf({ counts: { commits: 1, aborts: 0 }, closing: null }, told, t), "");
  assert.equal(newsOf({ counts: { commits: 1, aborts: 0 }, closing: { type: "end", answer: "7" } }, told, t), "finished, answer 7");
});

test("every language has every sentence, with the same holes", () => {
  const english = read("../../assets/i18n/en.json");
  for (const language of ["ko"]) {
    const table = read(`../../assets/i18n/${language}.json`);
    const needed = Object.keys(english).filter((key) => !key.endsWith(".one"));
    assert.deepEqual(needed.filter((key) => !(key in table)), [], `missing in ${language}`);
    assert.deepEqual(Object.keys(table).filter((key) => !(key in english)), [], `unknown in ${language}`);
    for (const key of needed) assert.deepEqual(holes(table[key]), holes(english[key]), key);
    assert.equal(table.locale, language);
  }
  const t = translator(read("../../assets/i18n/ko.json"));
  assert.equal(t("tokens", { n: 1 }), "토큰 1개");
});
