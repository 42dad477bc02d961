// The lines above a run (who plays, who judges) and the card that closes it.

import { badge } from "./badge.mjs";
import { el, explained, glyph, put, setText } from "./dom.mjs";

const EVICTING = ["evicted", "evicted-stepwise", "kv-rescue"];
const RECO = ["reco-uniform", "reco", "reco+rescue"];
const REASONS = ["answer", "early_exit", "eos", "max_tokens", "max_steps", "stopped", "deadline", "paused", "no_candidate"];
const PHASES = ["prefill", "propose", "score", "commit"];

/** @param {{t: import("./i18n.mjs").Translator}} options */
export function createHeader({ t }) {
  const root = el("section", "kvr-header");
  root.setAttribute("aria-label", t("header.label"));
  const status = el("p", "kvr-status");
  const facts = el("div", "kvr-facts");
  const problem = el("p", "kvr-problem");
  problem.dir = "auto";
  problem.tabIndex = 0; // it scrolls
  put(root, status, problem, facts);
  let shown = [null, null];
  return {
    root,
    reset(message) {
      shown = [null, null];
      facts.replaceChildren();
      setText(problem, "");
      setText(status, message);
    },
    update(state) {
      const { header, resumed } = state;
      setText(status, statusOf(state, t));
      if (!header || (header === shown[0] && resumed === shown[1])) return;
      shown = [header, resumed];
      setText(problem, String(header.problem));
      facts.replaceChildren(...factsOf(header, t));
      if (!resumed) return;
      const kind = resumed.exact === null ? "unknown" : resumed.exact ? "exact" : "approximate";
      put(facts, put(el("span", "kvr-fact kvr-strong"), el("bdi", "", t(`header.fork.${kind}`, { parent: resumed.parent, step: resumed.steps }))));
    },
  };
}

function factsOf(header, t) {
  const { config, models } = header;
  const fact = (text, className = "") => el("span", `kvr-fact ${className}`, text);
  const parts = [fact(t(`method.${config.method}`), "kvr-strong")];
  for (const source of ["base", "helper"]) {
    if (models[source]) parts.push(put(fact(), badge(source, t), el("bdi", "", String(models[source].id))));
  }
  if (EVICTING.includes(config.method)) parts.push(explained(fact(t("header.memory", { policy: config.policy, budget: config.budget, buffer: config.buffer })), t("term.policy")));
  if (RECO.includes(config.method)) parts.push(explained(fact(t("header.reco", { policy: config.policy, ratio: t.percent(config.retention_ratio), every: config.reco_every })), t("term.policy")));
  const words = Object.values(header.reflection ?? {}).map((word) => String(word).trim());
  if (words.length) parts.push(put(fact(t("header.reflection")), el("bdi", "", [...new Set(words)].join(", "))));
  parts.push(fact(t("header.judge", { scorer: header.scorer })));
  if (header.same_weights) parts.push(fact(t("header.same")));
  if (header.commit_by === "text") parts.push(fact(t("header.text")));
  return parts;
}

const reasonOf = (closing, t) => (REASONS.includes(closing.reason) ? t(`reason.${closing.reason}`) : String(closing.reason));

export function statusOf(state, t) {
  const { closing, status } = state;
  if (closing) return closing.type === "error" ? t("status.failed") : t("status.finished", { reason: reasonOf(closing, t) });
  if (state.cut) return t("status.cut");
  if (!status || !PHASES.includes(status.phase)) return t("status.starting");
  const source = status.source ? t(`source.${status.source}`) : "";
  return t(`status.${status.phase}`, { source, step: (status.step ?? 0) + 1, done: status.done ?? 0, total: status.total ?? 0, n: status.total ?? 0 });
}

/** @param {{t: import("./i18n.mjs").Translator}} options */
export function createEndCard({ t }) {
  const root = el("section", "kvr-end");
  root.setAttribute("aria-label", t("end.label"));
  root.hidden = true;
  let done = null;
  return {
    root,
    reset() {
      done = null;
      root.hidden = true;
      root.replaceChildren();
    },
    update({ closing, header }) {
      if (!closing || done === closing) return;
      done = closing;
      root.hidden = false;
      root.classList.toggle("kvr-failed", closing.type === "error");
      root.replaceChildren(headline(closing, header?.reference, t), note(closing, t), figures(closing, t));
    },
  };
}

function headline(closing, reference, t) {
  const title = el("h2", "kvr-answer");
  if (closing.type === "error") return put(title, glyph("✕", "kvr-cross"), el("span", "", t("end.failed")));
  if (closing.answer === null) put(title, el("span", "", t("end.noanswer")));
  else put(title, el("span", "", t("end.answer")), put(el("strong"), el("bdi", "", closing.answer)));
  if (typeof closing.correct !== "boolean") return title;
  const words = closing.correct ? t("end.right") : t("end.wrong", { reference: String(reference) });
  return put(title, put(el("span", "kvr-verdict"), glyph(closing.correct ? "✓ " : "✕ "), el("bdi", "", words)));
}

function note(closing, t) {
  if (closing.type === "error") return put(el("p", "kvr-note"), el("bdi", "", String(closing.message)), ` ${t("end.kept")}`);
  return el("p", "kvr-note", t("end.why", { n: closing.steps, reason: reasonOf(closing, t) }));
}

function figures(closing, t) {
  const { base, helper } = closing.totals;
  const sum = (field) => (base?.[field] ?? 0) + (helper?.[field] ?? 0);
  const rows = [];
  if (base && helper && closing.steps) {
    const share = helper.steps / closing.steps;
    rows.push(["share", { base: t.percent(1 - share), helper: t.percent(share) }]);
  }
  rows.push(["tokens", { committed: sum("committed"), discarded: sum("discarded"), aborted: sum("aborted") }]);
  rows.push(["candidates", { aborted: closing.aborted_candidates, flagged: closing.flagged_candidates }]);
  rows.push(["memory", { share: t.percent(closing.mean_retention), peak: closing.peak_resident, bytes: t.bytes(closing.peak_kv_bytes) }]);
  rows.push(["evictions", null, closing.evictions]);
  if (closing.probes || closing.suppressed) rows.push(["reco", { probes: closing.probes, suppressed: closing.suppressed }]);
  const times = { all: closing.seconds, propose: closing.propose_seconds, score: closing.score_seconds, evict: closing.evict_seconds };
  rows.push(["time", Object.fromEntries(Object.entries(times).map(([name, value]) => [name, t.seconds(value)]))]);
  const list = el("dl", "kvr-figures");
  for (const [name, values, count] of rows) {
    const text = values ? t(`end.${name}.text`, values) : t.number(count);
    put(list, put(el("div"), el("dt", "", t(`end.${name}`)), el("dd", "", text)));
  }
  return list;
}
