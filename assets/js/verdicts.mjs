// Why a candidate is not in the trajectory, and where in its text a guard tripped. Pure.

import { label } from "./format.mjs";
import { bytesBefore, safeCut } from "./text.mjs";

/** @typedef {import("./state.mjs").Candidate} Candidate */

/** A guard's verdict as a sentence: "aborted: entropy at token 41 (3.10 > 2.5 nats)". @param {"why"|"why.flag"} kind */
export function verdictText(verdict, t, kind = "why") {
  return t(`${kind}.${verdict.guard}`, { position: verdict.position, value: t.fixed(verdict.value), threshold: verdict.threshold });
}

/** Why a candidate was not chosen, in words. @param {Candidate} candidate @param {Candidate|null} winner */
export function whyNot(candidate, winner, t) {
  if (candidate.abort) return verdictText(candidate.abort, t);
  if (candidate.finish === "stopped") return t("why.stopped");
  if (candidate.finish === null) return t("why.unfinished");
  if (candidate.duplicateOf) return t("why.duplicate", { other: label(...candidate.duplicateOf) });
  if (candidate.empty) return t("why.empty");
  if (candidate.score === null) return t("why.noscore");
  if (candidate.score === undefined) return t("why.unscored");
  return winner && candidate.score === winner.score ? t("why.equal") : t("why.lower");
}

/**
 * Start and end, in characters, of the text a guard judged when it tripped: the last `ent_window` tokens or `cmp_window` bytes.
 * Exact to one `tokens` batch, and generous: whole batches that hold part of the window count.
 * @returns {[number, number]}
 */
export function trippedRange(candidate, verdict, config) {
  const end = endOf(candidate, verdict.position);
  if (verdict.guard === "gzip") return [bytesBefore(candidate.text, end, Number(config.cmp_window) || 256), end];
  return [startOf(candidate, verdict.position - (Number(config.ent_window) || 16)), end];
}

function endOf({ marks, text }, tokens) {
  const found = marks.find(([seen]) => seen >= tokens);
  return safeCut(text, found ? found[1] : text.length);
}

function startOf({ marks, text }, tokens) {
  let start = 0;
  for (const [seen, offset] of marks) {
    if (seen > tokens) break;
    start = offset;
  }
  return safeCut(text, start);
}
