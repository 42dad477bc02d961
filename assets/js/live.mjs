// One polite live region: at most a sentence every few seconds, never a stream of tokens.

import { el, setText } from "./dom.mjs";

const EVERY_MS = 3000;

/** @param {{t: import("./i18n.mjs").Translator}} options */
export function createLive({ t }) {
  const root = el("p", "kvr-sr");
  root.setAttribute("role", "status");
  root.setAttribute("aria-live", "polite");
  let told = { commits: 0, aborts: 0, closed: false };
  let last = -EVERY_MS;
  let timer = 0;

  function say(state) {
    timer = 0;
    const news = newsOf(state, told, t);
    if (!news) return;
    setText(root, news);
    told = { ...state.counts, closed: Boolean(state.closing) };
    last = performance.now();
  }

  return {
    root,
    reset() {
      clearTimeout(timer);
      timer = 0;
      told = { commits: 0, aborts: 0, closed: false };
      setText(root, "");
    },
    update(state) {
      const wait = last + EVERY_MS - performance.now();
      if (wait <= 0) say(state);
      else timer ||= setTimeout(() => say(state), wait);
    },
  };
}

/** What happened since the last announcement, or "". */
export function newsOf({ counts, closing }, told, t) {
  const parts = [];
  if (counts.commits > told.commits) parts.push(t("live.commits", { n: counts.commits - told.commits }));
  if (counts.aborts > told.aborts) parts.push(t("live.aborts", { n: counts.aborts - told.aborts }));
  if (closing && !told.closed) {
    if (closing.type === "error") parts.push(t("live.failed"));
    else parts.push(closing.answer === null ? t("live.finished") : t("live.finished.answer", { answer: closing.answer }));
  }
  return parts.join(", ");
}
