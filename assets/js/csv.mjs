// A run as tables for a spreadsheet: one row a step, or one a token and signal. Columns keep their order; the first names the version.

import { winnerOf } from "./state.mjs";

export const VERSION = 1;
const STEPS = ["schema", "run", "step", "source", "candidate", "reward", "tokens", "candidates", "aborted", "resident", "seen", "retention", "text"];
const SIGNALS = ["schema", "run", "step", "source", "candidate", "committed", "token", "signal", "value"];

// A spreadsheet would run a cell that begins like a formula; a quote mark in front makes it text.
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = String(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {string[]} columns @param {any[][]} rows */
export const table = (columns, rows) => [columns, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");

/** @param {ReturnType<import("./state.mjs").newState>} state */
export function stepsCsv(state) {
  const memory = new Map(state.kvs.map((kv) => [kv.step, kv]));
  const run = state.header?.run ?? "";
  const rows = state.steps.filter((step) => step.commit).map((step) => {
    const { source, cand, score, tokens, text } = step.commit;
    const all = [...step.candidates.values()];
    const kv = memory.get(step.index);
    const aborted = all.filter((one) => one.abort).length;
    return [VERSION, run, step.index + 1, source, cand + 1, score, tokens, all.length, aborted, kv?.resident, kv?.seen, kv?.retention, text.trim()];
  });
  return table(STEPS, rows);
}

/** Every token's entropy (nats) and every gzip check of every candidate. */
export function signalsCsv(state) {
  const run = state.header?.run ?? "";
  const rows = [];
  for (const step of state.steps) {
    const winner = winnerOf(step);
    for (const one of step.candidates.values()) {
      const about = [VERSION, run, step.index + 1, one.source, one.cand + 1, one === winner ? 1 : 0];
      one.ent.forEach((value, index) => rows.push([...about, index + 1, "entropy", value]));
      for (const [token, ratio] of one.gzip) rows.push([...about, token, "gzip", ratio]);
      if (typeof one.score === "number") rows.push([...about, one.tokens, "reward", one.score]);
    }
  }
  return table(SIGNALS, rows);
}

/** Hand a text or a blob to the browser as a file. */
export function save(text, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
