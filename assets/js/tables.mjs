// A chart as a table, for readers who prefer numbers to lines.

import { el, put } from "./dom.mjs";

const MOST_ROWS = 500;

/** The points of one chart in reading order. @returns {import("./series.mjs").Point[]} */
export function rowsOf(kind, data) {
  if (!data) return [];
  if (kind === "retention") return [...data.held, ...data.asked].sort((a, b) => a.x - b.x);
  // A committed reward is also one of the marks; a trip is also on its candidate's line.
  const lists = kind === "reward" ? [data.base, data.helper, data.aborted] : [data.committed, data.base, data.helper];
  const rows = lists.flat().filter((point) => point.y !== null);
  return rows.sort((a, b) => a.x - b.x).slice(-MOST_ROWS);
}

/** Replace the content of `node` by the table of a chart. */
export function fillTable(node, kind, data, axis, t) {
  const rows = rowsOf(kind, data?.[kind]);
  if (!rows.length) return node.replaceChildren(el("p", "kvr-note", t("charts.nothing")));
  const head = put(el("tr"), ...[`charts.column.${axis}`, "charts.column.value", "charts.column.which"].map((key) => header(t(key))));
  const body = rows.map((row) => {
    const unscored = kind === "reward" && row.text && row.y === 0 && data.reward.aborted.includes(row);
    return put(el("tr"), el("td", "", t.number(row.x)), el("td", "", unscored ? "–" : t.fixed(row.y, 3)), el("td", "", row.text));
  });
  return node.replaceChildren(put(el("table"), put(el("thead"), head), put(el("tbody"), ...body)));
}

function header(text) {
  const node = el("th", "", text);
  node.scope = "col";
  return node;
}
