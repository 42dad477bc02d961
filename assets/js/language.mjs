// The reader's language, and the links that switch it.

import { el, put } from "./dom.mjs";

export const LANGUAGES = { en: "English", ko: "한국어" };

/** What the address asks for (?lang=ko), else the browser's, else English. @returns {keyof typeof LANGUAGES} */
export function languageOf(query = location.search, browser = navigator.language) {
  const wanted = [new URLSearchParams(query).get("lang"), String(browser).split("-")[0]];
  return wanted.find((one) => Object.hasOwn(LANGUAGES, one ?? "")) ?? "en";
}

/** The same address in another language. */
export function inLanguage(language, query = location.search) {
  const asked = new URLSearchParams(query);
  asked.set("lang", language);
  return `?${asked}`;
}

/** English · 한국어: the page's own is marked, the other is a plain link. */
export function languages(now = languageOf()) {
  const node = el("nav", "kvr-languages");
  node.setAttribute("aria-label", "Language, 언어");
  for (const [language, name] of Object.entries(LANGUAGES)) {
    const one = el(language === now ? "span" : "a", "", name);
    one.lang = language;
    if (language === now) one.setAttribute("aria-current", "true");
    else Object.assign(one, { href: inLanguage(language), hreflang: language });
    put(node, one);
  }
  return node;
}
