// One candidate that was not chosen: who, how good, why not, and what it had written.

import { badge } from "./badge.mjs";
import { button, el, explained, glyph, put } from "./dom.mjs";
import { clip } from "./text.mjs";
import { trippedRange, verdictText, whyNot } from "./verdicts.mjs";

const CUT = 600;

/**
 * @param {import("./state.mjs").Candidate} candidate
 * @param {{winner: object|null, config: object, t: import("./i18n.mjs").Translator, onJump: (guard: "entropy"|"gzip") => void}} context
 */
export function candidateCard(candidate, { winner, config, t, onJump }) {
  const node = el("div", `kvr-candidate${candidate.abort ? " kvr-aborted" : ""}${candidate.duplicateOf ? " kvr-twin" : ""}`);
  const reason = put(el("span", "kvr-reason"), candidate.abort ? glyph("✕", "kvr-cross") : null, el("span", "", whyNot(candidate, winner, t)));
  const score = typeof candidate.score === "number" ? el("span", "", t("steps.reward", { score: t.fixed(candidate.score) })) : null;
  const unused = el("span", "kvr-muted kvr-unused", t("steps.unused", { n: candidate.tokens }));
  put(node, put(el("div", "kvr-card-head"), badge(candidate.source, t, candidate.cand), score, reason, unused));
  for (const flag of candidate.flags) put(node, flagNote(flag, t));
  const verdict = candidate.abort ?? candidate.flags[0] ?? null;
  put(node, textOf(candidate, verdict, config, t));
  if (verdict) put(node, explanation(verdict, config, t, onJump));
  return node;
}

/** A guard tripped and the candidate was left alone: another word and another glyph than for an abort. */
export function flagNote(flag, t) {
  return explained(put(el("p", "kvr-flag"), glyph("⚑"), el("span", "", verdictText(flag, t, "why.flag"))), t("term.flagged"));
}

function explanation(verdict, config, t, onJump) {
  const n = Number(verdict.guard === "entropy" ? config.ent_window : config.cmp_window) || 0;
  const words = el("span", "kvr-muted", t(`steps.underline.${verdict.guard}`, { n }));
  return put(el("p", "kvr-explain"), words, button("kvr-link", t("steps.chart"), () => onJump(verdict.guard)));
}

function textOf(candidate, verdict, config, t) {
  const [from, to] = verdict ? trippedRange(candidate, verdict, config) : [0, 0];
  return longText(candidate.text.trimEnd(), t, {
    most: CUT,
    className: "kvr-text kvr-text-small",
    draw(node, shown) {
      node.replaceChildren(shown.slice(0, from), el("span", verdict ? `kvr-tripped-${verdict.guard}` : "", shown.slice(from, to)), shown.slice(to));
    },
  });
}

/** Text that is cut, with a button that shows all of it. */
export function longText(text, t, { most, className, draw = (node, shown) => (node.textContent = shown) }) {
  const node = el("p", className);
  node.dir = "auto";
  const shown = clip(text, most);
  if (shown.length === text.length) {
    draw(node, text);
    return node;
  }
  draw(node, `${shown}…`);
  const more = button("kvr-link", t("steps.all", { n: text.length }), () => {
    draw(node, text);
    more.remove();
    node.tabIndex = -1;
    node.focus({ preventScroll: true });
  });
  return put(el("div"), node, more);
}
