// A run as a Markdown summary. Whatever a model or a visitor wrote stands in a code fence, where nothing is markup.

import { label } from "./format.mjs";
import { isolated } from "./text.mjs";

/** Text in a fence that it cannot close. */
export function fenced(text) {
  const longest = Math.max(2, ...(String(text).match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}text\n${text}\n${fence}\n`;
}

const cell = (text) => isolated(String(text)).replaceAll("|", "\\|").replace(/\s+/g, " ");

/** @param {ReturnType<import("./state.mjs").newState>} state @param {import("./i18n.mjs").Translator} t */
export function summaryOf(state, t) {
  const { header, closing } = state;
  const lines = [`# ${t("markdown.title", { run: String(header?.run ?? "").replace(/[^\w-]/g, "") })}`, ""];
  if (!header) return lines.join("\n");
  lines.push(fenced(header.problem), `${t(`method.${header.config.method}`)} · ${Object.entries(header.models).map(([part, model]) => `${cell(part)} \`${cell(model.id).replaceAll("`", "'")}\``).join(", ")}`, "");
  if (closing?.answer !== null && closing?.answer !== undefined) lines.push(t("end.answer").trim(), "", fenced(closing.answer));
  else if (closing?.type === "end") lines.push(t("end.noanswer"), "");
  if (typeof header.reference === "string" && header.reference) lines.push(t("markdown.reference"), "", fenced(header.reference));
  if (typeof closing?.correct === "boolean") lines.push(t(`markdown.${closing.correct ? "right" : "wrong"}`), "");
  if (!closing) lines.push(t("replay.cut"), "");
  if (closing) lines.push(t("markdown.end", { steps: closing.steps, aborted: closing.aborted_candidates, share: t.percent(closing.mean_retention), peak: closing.peak_resident, seconds: t.seconds(closing.seconds) }), "");
  lines.push(`| ${["step", "who", "reward", "tokens", "aborted", "held"].map((name) => t(`markdown.column.${name}`)).join(" | ")} |`, "|---|---|---|---|---|---|");
  const memory = new Map(state.kvs.map((kv) => [kv.step, kv]));
  const committed = state.steps.filter((step) => step.commit);
  for (const step of committed) {
    const { source, cand, score, tokens } = step.commit;
    const kv = memory.get(step.index);
    const aborted = [...step.candidates.values()].filter((one) => one.abort).length;
    lines.push(`| ${step.index + 1} | ${label(source, cand)} | ${typeof score === "number" ? t.fixed(score) : "–"} | ${tokens} | ${aborted} | ${kv ? `${kv.resident} / ${kv.seen}` : "–"} |`);
  }
  lines.push("", fenced(committed.map((step) => step.commit.text).join("").trim()), `## ${t("markdown.settings")}`, "", fenced(JSON.stringify(header.config, null, 2)));
  return lines.join("\n");
}
