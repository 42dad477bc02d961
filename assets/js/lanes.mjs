// The race: one thin row per candidate of the step that is being written.

import { badge } from "./badge.mjs";
import { el, glyph, put, setText } from "./dom.mjs";
import { label } from "./format.mjs";
import { winnerOf } from "./state.mjs";
import { tail } from "./text.mjs";

const TAIL = 140;
const SHORTEST_TRACK = 24;

/** @param {{t: import("./i18n.mjs").Translator}} options */
export function createLanes({ t }) {
  const root = el("section", "kvr-lanes");
  root.setAttribute("aria-label", t("lanes.label"));
  const title = el("h2");
  const rows = el("div", "kvr-lane-rows");
  put(root, title, rows);
  root.hidden = true;
  let shown = -1;
  const lanes = new Map();

  function clear() {
    lanes.clear();
    rows.replaceChildren();
    shown = -1;
  }

  function laneOf(candidate) {
    const id = `${candidate.source}/${candidate.cand}`;
    if (!lanes.has(id)) {
      const lane = newLane(candidate, t);
      lanes.set(id, lane);
      // The base's lanes first, whoever reported first.
      rows.insertBefore(lane.node, [...rows.children].find((row) => row.dataset.order > lane.node.dataset.order) ?? null);
    }
    return lanes.get(id);
  }

  return {
    root,
    reset() {
      clear();
      root.hidden = true;
    },
    // A finished race stays until the next one begins: a strip that comes and goes would make the page jump.
    update(state) {
      const step = state.steps[state.steps.length - 1];
      root.hidden = !step || Boolean(state.closing && (step.commit || state.closing.reason !== "no_candidate"));
      if (root.hidden) return;
      if (step.index !== shown) clear();
      shown = step.index;
      setText(title, t("lanes.title", { step: step.index + 1, n: step.candidates.size }));
      const track = Math.max(SHORTEST_TRACK, ...[...step.candidates.values()].map((candidate) => candidate.tokens));
      for (const candidate of step.candidates.values()) fill(laneOf(candidate), candidate, step, track, t);
    },
  };
}

function newLane(candidate, t) {
  const node = el("div", "kvr-lane");
  node.dataset.order = `${candidate.source}${String(candidate.cand).padStart(3, "0")}`;
  const lane = { node, bar: glyph("", `kvr-track kvr-track-${candidate.source}`), tokens: el("span", "kvr-lane-tokens"), state: el("span", "kvr-lane-state"), text: el("bdi", "") };
  put(node, badge(candidate.source, t, candidate.cand), lane.bar, lane.tokens, lane.state, put(el("span", "kvr-lane-text"), lane.text));
  return lane;
}

function fill(lane, candidate, step, track, t) {
  lane.bar.style.setProperty("--share", String(candidate.tokens / track));
  setText(lane.tokens, t("tokens", { n: candidate.tokens }));
  setText(lane.state, stateWord(candidate, step, t));
  lane.node.classList.toggle("kvr-aborted", Boolean(candidate.abort));
  lane.node.classList.toggle("kvr-won", winnerOf(step) === candidate);
  setText(lane.text, tail(candidate.text, TAIL).replaceAll("\n", " ↵ "));
}

function stateWord(candidate, step, t) {
  if (candidate.abort) return `✕ ${t(`lanes.aborted.${candidate.abort.guard}`)}`;
  if (winnerOf(step) === candidate) return `✓ ${t("lanes.committed")}`;
  if (typeof candidate.score === "number") return t("steps.reward", { score: t.fixed(candidate.score) });
  if (candidate.finish === "stopped") return t("lanes.stopped");
  if (candidate.duplicateOf) return t("lanes.duplicate", { other: label(...candidate.duplicateOf) });
  if (candidate.empty) return t("lanes.empty");
  const flagged = candidate.flags.length ? `⚑ ${t("lanes.flagged")}, ` : "";
  return `${flagged}${t(candidate.finish ? "lanes.done" : "lanes.writing")}`;
}
