// What the four charts plot, computed from the state. Pure.

import { decode } from "./rle.mjs";
import { winnerOf } from "./state.mjs";

export const MOST_POINTS = 300;

/** Keep the extremes of each bucket: at most `most` points, x strictly rising. @param {[number, number][]} points */
export function bucket(points, most = MOST_POINTS) {
  if (points.length <= most) return points;
  const buckets = Math.floor(most / 2);
  const kept = [];
  for (let i = 0; i < buckets; i++) {
    const part = points.slice(Math.floor((i * points.length) / buckets), Math.floor(((i + 1) * points.length) / buckets));
    const low = part.reduce((a, b) => (b[1] < a[1] ? b : a));
    const high = part.reduce((a, b) => (b[1] > a[1] ? b : a));
    kept.push(...(low === high ? [low] : low[0] < high[0] ? [low, high] : [high, low]));
  }
  return kept;
}

const last = (list) => list[list.length - 1];
const extreme = (values, pick) => (values.length ? values.reduce((a, b) => pick(a, b)) : null);

/** x of a step: its number (from 1), or the committed tokens up to its end. */
export function positions(state, axis) {
  let tokens = 0;
  return state.steps.map((step, index) => {
    tokens += step.commit?.tokens ?? 0;
    return axis === "token" ? tokens : index + 1;
  });
}

/** Points of every chart. Each point is {x, y, step, text}. */
export function series(state, axis) {
  const at = positions(state, axis);
  const marks = { base: [], helper: [], aborted: [], committed: [] };
  const entropy = { base: [], helper: [], committed: [] };
  const gzip = { base: [], helper: [], committed: [] };
  state.steps.forEach((step, index) => {
    const winner = winnerOf(step);
    const from = axis === "token" ? at[index] - (step.commit?.tokens ?? 0) : 0;
    for (const candidate of step.candidates.values()) {
      addReward(marks, candidate, candidate === winner, at[index], index);
      const who = candidate === winner ? "committed" : candidate.source;
      if (axis === "token" && candidate === winner) addCurves(entropy.committed, gzip.committed, candidate, from, index);
      else addStepValues(entropy[who], gzip[who], candidate, at[index], index);
    }
  });
  return { marks, entropy, gzip, retention: retention(state, at) };
}

const name = (candidate) => `${candidate.source === "base" ? "B" : "H"}${candidate.cand + 1}`;

function addReward(marks, candidate, won, x, step) {
  const text = name(candidate);
  if (candidate.abort) marks.aborted.push({ x, y: 0, step, text: `${text} aborted` });
  else if (typeof candidate.score === "number") {
    marks[candidate.source].push({ x, y: candidate.score, step, text: won ? `${text}, committed` : text });
    if (won) marks.committed.push({ x, y: candidate.score, step, text: `${text}, committed` });
  }
}

function addStepValues(entropy, gzip, candidate, x, step) {
  const high = extreme(candidate.average.filter((value) => value !== null), Math.max);
  const low = extreme(candidate.gzip.map(([, ratio]) => ratio), Math.min);
  if (high !== null) entropy.push({ x, y: high, step, text: name(candidate) });
  if (low !== null) gzip.push({ x, y: low, step, text: name(candidate) });
}

function addCurves(entropy, gzip, candidate, from, step) {
  const text = name(candidate);
  const points = candidate.average.map((y, i) => [from + i + 1, y]).filter(([, y]) => y !== null);
  for (const [x, y] of points) entropy.push({ x, y, step, text });
  for (const [position, y] of candidate.gzip) gzip.push({ x: from + position, y, step, text });
}

function retention(state, at) {
  return state.kvs.map((kv) => ({
    x: kv.step < 0 ? 0 : at[kv.step],
    y: kv.retention,
    step: kv.step,
    text: `${kv.resident} of ${kv.seen} tokens`,
  }));
}

/** One sentence per chart, for people who cannot see it. */
export function summaries(state, thresholds) {
  const committed = state.steps.filter((step) => step.commit);
  const scores = committed.map((step) => step.commit.score).filter((score) => typeof score === "number");
  const kv = last(state.kvs);
  const highest = extreme(allAverages(state), Math.max);
  const lowest = extreme(allRatios(state), Math.min);
  const { aborts } = state.counts;
  return {
    reward: scores.length
      ? `Reward of ${scores.length} committed steps: between ${Math.min(...scores).toFixed(2)} and ${Math.max(...scores).toFixed(2)}; ${aborts} candidates aborted.`
      : "No step has been scored yet.",
    retention: kv ? `${kv.resident} of ${kv.seen} tokens are held (${Math.round(100 * kv.retention)} %).` : "Nothing has been read yet.",
    entropy: highest === null ? "Not judged yet." : `Highest average entropy ${highest.toFixed(2)} nats; threshold ${thresholds.tau_ent}.`,
    gzip: lowest === null ? "Not judged yet." : `Lowest gzip ratio ${lowest.toFixed(2)}; threshold ${thresholds.tau_cmp}.`,
  };
}

const candidates = (state) => state.steps.flatMap((step) => [...step.candidates.values()]);
const allAverages = (state) => candidates(state).flatMap((candidate) => candidate.average.filter((value) => value !== null));
const allRatios = (state) => candidates(state).flatMap((candidate) => candidate.gzip.map(([, ratio]) => ratio));

/** Levels of a memory event, decoded once. */
export function levelsOf(kv) {
  if (!kv.levels) kv.levels = decode(kv.map);
  return kv.levels;
}
