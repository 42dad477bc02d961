// How several runs of one problem ended, side by side. The best figure of a column is bold and says so.

import { el, glyph, put } from "./dom.mjs";

const LEAST = ["tokens", "unused", "kept", "peak", "seconds"];
export const COLUMNS = ["answer", "right", "steps", ...LEAST];

/** A run's figures; null where there are none yet. @param {object} state */
export function figuresOf({ closing, header }) {
  const empty = Object.fromEntries(COLUMNS.map((name) => [name, null]));
  const method = String(header?.config?.method ?? "");
  if (!closing) return { method, ...empty };
  const sum = (field) => Object.values(closing.totals).reduce((total, one) => total + (one?.[field] ?? 0), 0);
  return {
    method,
    answer: closing.answer,
    right: typeof closing.correct === "boolean" ? closing.correct : null,
    steps: closing.steps,
    tokens: sum("committed"),
    unused: sum("discarded") + sum("aborted"),
    kept: closing.mean_retention,
    peak: closing.peak_resident,
    seconds: closing.seconds,
  };
}

/** Rows that have the least of a column, when not all have; a run that ended wrong wins nothing. @returns {Set<number>} */
export function leastOf(rows, column) {
  const values = rows.map((row) => (row.right === false ? null : row[column]));
  const known = values.filter((value) => Number.isFinite(value));
  if (known.length < 2 || new Set(known).size < 2) return new Set();
  const least = Math.min(...known);
  return new Set(values.flatMap((value, i) => (value === least ? [i] : [])));
}

const WRITTEN = { tokens: "number", unused: "number", steps: "number", peak: "number", kept: "percent", seconds: "seconds" };

/** @param {object[]} states @param {import("./i18n.mjs").Translator} t */
export function verdictTable(states, t) {
  const rows = states.map(figuresOf);
  const least = Object.fromEntries(LEAST.map((column) => [column, leastOf(rows, column)]));
  const head = put(el("tr"), ...["method", ...COLUMNS].map((name) => header(t(`compare.${name}`), "col")));
  const body = rows.map((row, i) => put(el("tr"), header(t(`method.${row.method}`), "row"), ...COLUMNS.map((name) => cell(row, name, least[name]?.has(i), t))));
  const table = put(el("table"), put(el("thead"), head), put(el("tbody"), ...body));
  const frame = put(el("div", "kvr-table kvr-verdicts"), table);
  frame.tabIndex = 0;
  frame.setAttribute("role", "region");
  frame.setAttribute("aria-label", t("compare.table"));
  return frame;
}

function header(words, scope) {
  const node = el("th", "", words);
  node.scope = scope;
  return node;
}

function cell(row, name, best, t) {
  const value = row[name];
  if (name === "right") return value === null ? el("td", "", "–") : put(el("td", "kvr-strong"), glyph(value ? "✓ " : "✕ "), el("span", "", t(value ? "compare.yes" : "compare.no")));
  if (value === null) return el("td", "", "–");
  if (name === "answer") return put(el("td"), el("bdi", "", String(value)));
  const words = t[WRITTEN[name]](value);
  return best ? put(el("td"), el("strong", "", words), el("span", "kvr-muted", ` ${t("compare.least")}`)) : el("td", "", words);
}
