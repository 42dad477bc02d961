import assert from "node:assert/strict";
import test from "node:test";

import { inLanguage, languageOf } from "../../assets/js/language.mjs";

test("the address decides, then the browser, then English", () => {
  assert.equal(languageOf("?lang=ko", "en-US"), "ko");
  assert.equal(languageOf("?lang=en", "ko-KR"), "en");
  assert.equal(languageOf("?lang=fr", "ko"), "ko");
  assert.equal(languageOf("?lang=toString", "fr"), "en");
  assert.equal(languageOf("", ""), "en");
});

test("another language keeps the rest of the address", () => {
  assert.equal(inLanguage("ko", "?trace=a%26b&lang=en&step=2"), "?trace=a%26b&lang=ko&step=2");
  assert.equal(inLanguage("en", ""), "?lang=en");
});
