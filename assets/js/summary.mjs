// The line above a run (who plays, who judges) and the card that closes it.

import { el, put, setText } from "./dom.mjs";
import { END_REASONS, bytes, count, percent, plural, seconds } from "./format.mjs";
import { badge } from "./steps.mjs";

const METHOD_NAMES = {
  full: "Full KV",
  evicted: "Evicted",
  "evicted-stepwise": "Evicted, best of N",
  helper: "Helper alone",
  "kv-rescue": "KV-Rescue",
};

export function createHeader() {
  const root = el("section", "kvr-header");
  root.setAttribute("aria-label", "This run");
  const status = el("p", "kvr-status");
  const facts = el("div", "kvr-facts");
  const problem = el("p", "kvr-problem");
  problem.dir = "auto";
  put(root, status, problem, facts);
  let run = null;
  return {
    root,
    reset(message) {
      run = null;
      facts.replaceChildren();
      setText(problem, "");
      setText(status, message);
    },
    update(state) {
      if (state.header && state.header.run !== run) {
        run = state.header.run;
        setText(problem, state.header.problem);
        facts.replaceChildren(...factsOf(state.header));
      }
      setText(status, statusOf(state));
    },
  };
}

function factsOf(header) {
  const { config, models } = header;
  const evicting = ["evicted", "evicted-stepwise", "kv-rescue"].includes(config.method);
  const parts = [el("span", "kvr-fact", METHOD_NAMES[config.method] ?? config.method)];
  if (evicting) parts.push(el("span", "kvr-fact", `${config.policy}, budget ${count(config.budget)} + ${count(config.buffer)}`));
  for (const source of ["base", "helper"]) {
    if (models[source]) parts.push(put(el("span", "kvr-fact"), badge(source), el("span", "", ` ${models[source].id}`)));
  }
  parts.push(el("span", "kvr-fact", `judged by ${header.scorer}`));
  if (header.same_weights) parts.push(el("span", "kvr-fact kvr-note", "base and helper are the same weights: only their memory differs"));
  if (header.commit_by === "text") parts.push(el("span", "kvr-fact kvr-note", "different vocabularies: steps travel as text"));
  return parts;
}

function statusOf(state) {
  if (state.closing) return state.closing.type === "error" ? "failed" : `finished: ${END_REASONS[state.closing.reason] ?? state.closing.reason}`;
  const { status } = state;
  if (!status) return "starting";
  if (status.phase === "prefill") return `the ${status.source} reads the problem: ${status.done} of ${plural(status.total, "token")}`;
  if (status.phase === "score") return `step ${status.step + 1}: judging ${plural(status.total, "candidate")}`;
  return `step ${status.step + 1}: writing`;
}

export function createEndCard() {
  const root = el("section", "kvr-end");
  root.setAttribute("aria-label", "Result");
  root.hidden = true;
  let done = null;
  return {
    root,
    reset() {
      done = null;
      root.hidden = true;
      root.replaceChildren();
    },
    update(state) {
      if (!state.closing || done === state.closing) return;
      done = state.closing;
      root.hidden = false;
      root.classList.toggle("kvr-failed", done.type === "error");
      root.replaceChildren(headline(state), note(state), figures(state));
    },
  };
}

function headline(state) {
  const { closing } = state;
  const title = el("h3", "kvr-answer");
  if (closing.type === "error") return put(title, el("span", "", "✕ The run failed"));
  put(title, el("span", "", closing.answer === null ? "No boxed answer" : "Answer: "));
  if (closing.answer !== null) put(title, put(el("strong"), el("bdi", "", closing.answer)));
  return title;
}

function note({ closing }) {
  if (closing.type === "error") return el("p", "kvr-note", `${closing.message} The trace up to here is kept.`);
  return el("p", "kvr-note", `It ended after ${plural(closing.steps, "step")} because ${END_REASONS[closing.reason] ?? closing.reason}.`);
}

function figures({ closing }) {
  const rows = [];
  const all = (field) => Object.values(closing.totals).reduce((sum, one) => sum + one[field], 0);
  if (closing.totals.helper && closing.totals.base && closing.steps) {
    const share = closing.totals.helper.steps / closing.steps;
    rows.push(["written by", `base ${percent(1 - share)}, helper ${percent(share)} of the steps`]);
  }
  rows.push(["tokens", `${count(all("committed"))} committed, ${count(all("discarded"))} discarded, ${count(all("aborted"))} aborted`]);
  rows.push(["candidates", `${count(closing.aborted_candidates)} aborted, ${count(closing.flagged_candidates)} flagged`]);
  rows.push(["memory", `${percent(closing.mean_retention)} held on average; at most ${plural(closing.peak_resident, "token")}, ${bytes(closing.peak_kv_bytes)}`]);
  rows.push(["evictions", count(closing.evictions)]);
  rows.push(["time", `${seconds(closing.seconds)}: writing ${seconds(closing.propose_seconds)}, judging ${seconds(closing.score_seconds)}, evicting ${seconds(closing.evict_seconds)}`]);
  const list = el("dl", "kvr-figures");
  for (const [term, text] of rows) put(list, put(el("div"), el("dt", "", term), el("dd", "", text)));
  return list;
}
