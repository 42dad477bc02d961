// A run in one small picture: reward and retention over the steps, on an axis that all lanes share.

import { el, put } from "./dom.mjs";

const [WIDTH, HEIGHT, EDGE] = [300, 54, 4];

function svg(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** Points of both lines, values 0 to 1 at steps from 0. @param {object} state */
export function linesOf(state) {
  const reward = state.steps.flatMap((step) => (typeof step.commit?.score === "number" ? [[step.index, step.commit.score]] : []));
  const retention = state.kvs.filter((kv) => kv.step >= 0).map((kv) => [kv.step, kv.retention]);
  return { reward, retention };
}

/** @param {object} state @param {number} longest steps of the longest run @param {import("./i18n.mjs").Translator} t */
export function sparkline(state, longest, t) {
  const lines = linesOf(state);
  const node = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", preserveAspectRatio: "none" });
  const x = (step) => EDGE + ((WIDTH - 2 * EDGE) * step) / Math.max(1, longest - 1);
  const y = (value) => HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * Math.max(0, Math.min(1, value));
  for (const [name, points] of Object.entries(lines)) {
    const at = points.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`);
    node.append(svg("polyline", { class: `kvr-spark-${name}`, points: at.join(" "), "vector-effect": "non-scaling-stroke" }));
  }
  const values = (points) => points.map(([, value]) => value);
  const least = (points) => t.percent(points.length ? Math.min(...values(points)) : 0);
  node.setAttribute("aria-label", t("compare.spark", { reward: t.fixed(lines.reward.length ? Math.min(...values(lines.reward)) : 0), retention: least(lines.retention) }));
  const key = (name) => put(el("span", "kvr-legend-item"), el("span", `kvr-spark-key kvr-spark-key-${name}`), el("span", "", t(`charts.${name}`)));
  return put(el("div"), node, put(el("div", "kvr-legend"), key("reward"), key("retention")));
}
