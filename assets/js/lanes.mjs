// The race: one thin row per candidate of the step that is being written.

import { badge } from "./steps.mjs";
import { el, put, setText } from "./dom.mjs";
import { plural } from "./format.mjs";

const TAIL = 160;

export function createLanes() {
  const root = el("section", "kvr-lanes");
  root.setAttribute("aria-label", "Candidates being written");
  const title = el("h3");
  const rows = el("div", "kvr-lane-rows");
  put(root, title, rows);
  root.hidden = true;
  let shown = -1;
  const lanes = new Map();

  function lane(candidate) {
    const id = `${candidate.source}/${candidate.cand}`;
    if (!lanes.has(id)) {
      const node = el("div", "kvr-lane");
      const made = { node, tokens: el("span", "kvr-lane-tokens"), state: el("span", "kvr-lane-state"), text: el("span", "kvr-lane-text") };
      made.text.dir = "auto";
      put(node, badge(candidate.source, candidate.cand), made.tokens, made.state, made.text);
      lanes.set(id, made);
      // The base's lanes first, whoever reported first.
      const later = [...rows.children].find((row) => row.dataset.order > order(candidate));
      node.dataset.order = order(candidate);
      rows.insertBefore(node, later ?? null);
    }
    return lanes.get(id);
  }

  return {
    root,
    reset() {
      lanes.clear();
      rows.replaceChildren();
      shown = -1;
      root.hidden = true;
    },
    update(state) {
      const step = state.steps[state.steps.length - 1];
      root.hidden = !step || Boolean(step.commit) || Boolean(state.closing && state.closing.reason !== "no_candidate");
      if (root.hidden) return;
      if (step.index !== shown) {
        this.reset();
        shown = step.index;
        root.hidden = false;
      }
      setText(title, `Step ${step.index + 1}: ${plural(step.candidates.size, "candidate")} in the race`);
      for (const candidate of step.candidates.values()) fill(lane(candidate), candidate, step);
    },
  };
}

const order = (candidate) => `${candidate.source}${String(candidate.cand).padStart(3, "0")}`;

function fill(made, candidate, step) {
  setText(made.tokens, plural(candidate.tokens, "token"));
  setText(made.state, stateWord(candidate, step));
  made.node.classList.toggle("kvr-aborted", Boolean(candidate.abort));
  setText(made.text, candidate.text.slice(-TAIL).replaceAll("\n", " ↵ "));
}

function stateWord(candidate, step) {
  if (candidate.abort) return `✕ aborted (${candidate.abort.guard === "gzip" ? "loop" : "entropy"})`;
  if (typeof candidate.score === "number") return `reward ${candidate.score.toFixed(2)}`;
  if (candidate.finish === "stopped") return "stopped";
  const flagged = candidate.flags.length ? "⚑ flagged, " : "";
  if (candidate.finish) return `${flagged}${step.scorer ? "not scored" : "done"}`;
  return `${flagged}writing`;
}
