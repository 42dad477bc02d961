// What the four charts plot, computed from the state. Pure. A point with y null is a gap between two candidates' lines.

import { label } from "./format.mjs";
import { winnerOf } from "./state.mjs";

export const MOST_POINTS = 300;

/** @typedef {{x: number, y: number|null, step: number, text: string}} Point */

/** Keep the extremes of each bucket: at most `most` points, in their order. @template {{y: number}} P @param {P[]} points @returns {P[]} */
export function bucket(points, most = MOST_POINTS) {
  if (points.length <= most) return points;
  const buckets = Math.max(1, Math.floor(most / 2));
  const kept = [];
  for (let i = 0; i < buckets; i++) {
    const from = Math.floor((i * points.length) / buckets);
    const to = Math.floor(((i + 1) * points.length) / buckets);
    let low = from;
    let high = from;
    for (let k = from + 1; k < to; k++) {
      if (points[k].y < points[low].y) low = k;
      if (points[k].y > points[high].y) high = k;
    }
    kept.push(points[Math.min(low, high)]);
    if (low !== high) kept.push(points[Math.max(low, high)]);
  }
  return kept;
}

/** Many short lines as one list with gaps, at most `most` entries. @param {Point[][]} lines @returns {Point[]} */
export function joined(lines, most = MOST_POINTS) {
  const share = Math.floor(most / Math.max(1, lines.length)) - 1;
  // Too many lines for two points each: one trend of extremes says more than a few whole lines.
  if (share < 2) return bucket(lines.flat(), most);
  return lines.flatMap((line) => [...bucket(line, share), { ...line[line.length - 1], y: null }]);
}

/** x of each step: its number (from 1), or the committed tokens up to its end. */
export function positions(state, axis) {
  let tokens = 0;
  return state.steps.map((step, index) => {
    tokens += step.commit?.tokens ?? 0;
    return axis === "token" ? tokens : index + 1;
  });
}

/** Points of every chart. @param {"step"|"token"} axis @param {import("./i18n.mjs").Translator} t */
export function series(state, axis, t) {
  const at = positions(state, axis);
  const reward = { base: [], helper: [], aborted: [], committed: [] };
  const entropy = { base: [], helper: [], aborted: [], committed: [] };
  const gzip = { base: [], helper: [], aborted: [], committed: [] };
  state.steps.forEach((step, index) => {
    const winner = winnerOf(step);
    const begin = at[index] - (step.commit?.tokens ?? 0);
    for (const candidate of step.candidates.values()) {
      const point = pointOf(candidate, candidate === winner, index, t);
      addReward(reward, candidate, candidate === winner, point(at[index]));
      const who = candidate === winner ? "committed" : candidate.source;
      const [high, low] = axis === "token" ? curves(candidate, (x) => point(begin + x)) : peaks(candidate, point(at[index]));
      if (high.length) entropy[who].push(high);
      if (low.length) gzip[who].push(low);
      addTrip(candidate, { entropy, gzip }, (position) => point(axis === "token" ? begin + position : at[index]));
    }
  });
  return { reward: thin(reward), retention: { held: retention(state, at, t), asked: asked(state, at, t) }, entropy: thin(entropy, axis), gzip: thin(gzip, axis) };
}

function pointOf(candidate, won, index, t) {
  const state = candidate.abort ? ".aborted" : won ? ".committed" : "";
  const text = t(`charts.point${state}`, { step: index + 1, who: label(candidate.source, candidate.cand) });
  return (x) => ({ x, step: index, text });
}

function addReward(reward, candidate, won, point) {
  if (candidate.abort) reward.aborted.push({ ...point, y: 0 });
  else if (typeof candidate.score === "number") {
    reward[candidate.source].push({ ...point, y: candidate.score });
    if (won) reward.committed.push({ ...point, y: candidate.score });
  }
}

// With steps on the x axis a candidate is one point: the value that came closest to tripping, or the cross where it tripped.
function peaks(candidate, point) {
  const one = (guard, y) => (y === null || candidate.abort?.guard === guard ? [] : [{ ...point, y }]);
  return [one("entropy", candidate.entMax), one("gzip", candidate.gzipMin)];
}

function curves(candidate, at) {
  const high = [];
  candidate.average.forEach((y, i) => y !== null && high.push({ ...at(i + 1), y }));
  return [high, candidate.gzip.map(([position, y]) => ({ ...at(position), y }))];
}

function addTrip({ abort }, charts, at) {
  if (abort) charts[abort.guard].aborted.push({ ...at(abort.position), y: abort.value });
}

function thin(groups, axis) {
  const lists = {};
  for (const [name, items] of Object.entries(groups)) {
    const lines = items.length && Array.isArray(items[0]);
    lists[name] = !lines ? bucket(items) : axis === "token" && name !== "committed" ? joined(items) : bucket(items.flat());
  }
  return lists;
}

function retention(state, at, t) {
  const points = state.kvs.map((kv) => {
    const words = t(kv.step < 0 ? "charts.point.prompt" : "charts.point.held", { step: kv.step + 1, resident: kv.resident, seen: kv.seen });
    return { x: kv.step < 0 ? 0 : (at[kv.step] ?? 0), y: kv.retention, held: kv.resident, step: kv.step, text: words };
  });
  return bucket(points);
}

/** What ReCo asked to keep, where it decided. */
function asked(state, at, t) {
  const decided = state.steps.filter((step) => step.retain);
  return bucket(decided.map(({ index, retain }) => ({ x: at[index], y: retain.asked, step: index, text: t("charts.point.asked", { step: index + 1, target: retain.target }) })));
}

const last = (list) => list[list.length - 1];
const extreme = (values, pick) => values.reduce((a, b) => (b === null ? a : a === null ? b : pick(a, b)), null);
const everyone = (state) => state.steps.flatMap((step) => [...step.candidates.values()]);

/** One sentence per chart, for people who cannot see it. @returns {Record<string, string>} */
export function summaries(state, thresholds, t) {
  const kv = last(state.kvs);
  const all = everyone(state);
  const highest = extreme(all.map((candidate) => candidate.entMax), Math.max);
  const lowest = extreme(all.map((candidate) => candidate.gzipMin), Math.min);
  return {
    reward: rewardSummary(state, t),
    retention: kv ? t("charts.summary.retention", { resident: kv.resident, seen: kv.seen, share: t.percent(kv.retention) }) : t("charts.summary.retention.none"),
    entropy: highest === null ? t("charts.summary.none") : t("charts.summary.entropy", { value: t.fixed(highest), threshold: thresholds.tau_ent }),
    gzip: lowest === null ? t("charts.summary.none") : t("charts.summary.gzip", { value: t.fixed(lowest), threshold: thresholds.tau_cmp }),
  };
}

function rewardSummary(state, t) {
  const judged = state.steps.filter((step) => typeof step.commit?.score === "number");
  if (!judged.length) return t("charts.summary.reward.none");
  const scores = judged.map((step) => step.commit.score);
  const low = Math.min(...scores);
  const dip = t("charts.summary.dip", { step: judged[scores.indexOf(low)].index + 1 });
  const range = t("charts.summary.reward", { n: scores.length, low: t.fixed(low), high: t.fixed(Math.max(...scores)) });
  return [range, dip, t("charts.summary.aborts", { n: state.counts.aborts })].join(" ");
}
