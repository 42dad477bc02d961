// SYNTHETIC event streams for tests and for working on the viewer. No model wrote any of this; nothing here is ever shown as a recording.

import { encode } from "../../assets/js/rle.mjs";

export const PROBLEM = "SYNTHETIC: A bakery sells 120 loaves on Monday and 35 more on Tuesday. Each loaf costs 4 dollars. It gives 18 loaves away. How much does it earn?";
const SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}.";

/** Text that must appear as it is, wherever a model's text appears. */
export const HOSTILE =
  "<img src=x onerror=\"window.hacked=1\"> ${1+1} {{7*7}} `x` \\frac{1}{2} \\underline{a} <script>window.hacked=2</script> \u202eturned\u202c \ud800 alone, 한국어 🎈 javascript:alert(1)";

const LINES = {
  base: ["On Monday the bakery sells 120 loaves, so we write that down first.", "On Tuesday it sells 120 + 35 = 155 loaves.", "Some loaves are given away, I think 80 of them.", "So the number of loaves that are paid for is 120 + 155 - 18 = 257."],
  helper: ["Monday: 120 loaves were sold.", "Tuesday: 120 + 35 = 155 loaves, so together 120 + 155 = 275.", "It gives 18 loaves away:\n275 - 18 = 257 loaves are paid for.", "Each costs 4 dollars, so it earns\n\\[ 257 \\times 4 = 1028 \\]"],
};
const LOOP = "so we write that down again and ";
const NOISE = ["loaf", " quartz", " the", " 7", " und", " blue", ")", " therefore", " Mon", "--", " gave", " of", " seven", "?", " lamp", " it"];

/** Small reproducible random numbers in [0, 1). */
export function random(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Words, single digits and line breaks as tokens, the way common tokenizers cut. */
export const tokenize = (text) => text.match(/\n+|\s?\d|\s?[^\s\d]{1,8}|\s/gu) ?? [];

const round = (value) => Number(value.toPrecision(3));

/**
 * @param {{steps?: number, n?: number, run?: string, problem?: string, text?: string, seed?: number, budget?: number|null, batch?: number,
 *   close?: "answer"|"error"|"stopped"|null, repeat?: number}} options
 *   `text` replaces what every candidate writes; `batch` is tokens per `tokens` event; `close` null leaves the stream open;
 *   `repeat` makes steps longer
 */
export function synthetic({
  steps = 6, n = 2, run = "synthetic0", problem = PROBLEM, text = "", seed = 1, budget = 64, batch = 4, close = "answer", repeat = 1,
} = {}) {
  const events = [];
  const next = random(seed);
  const add = (type, fields) => events.push({ seq: events.length, t_ms: events.length * 40, run, type, ...fields });
  const info = (id) => ({ id, architecture: "llama", parameters: 1, layers: 4, kv_heads: 2, query_heads: 4, head_dim: 8, vocab: 9, dtype: "float32", device: "cpu", note: "" });
  const config = {
    method: budget === null ? "full" : "kv-rescue", policy: "rkv", budget: budget ?? 64, buffer: 32, n, ent_window: 16, cmp_window: 96, cmp_stride: 16, tau_ent: 2.5, tau_cmp: 0.3, seed,
  };
  const models = { base: info("synthetic-model"), helper: info("synthetic-model") };
  add("header", { schema_version: 1, app_version: "0", problem, config, models, same_weights: true, scorer: "a synthetic judge", commit_by: "ids", assumptions: [], environment: {} });
  const pieces = tokenize(`system\n${SYSTEM}\nuser\n${problem}\nassistant\n`);
  add("prompt", { source: "base", tokens: pieces.length, pieces });
  for (const done of [Math.floor(pieces.length / 2), pieces.length]) add("status", { phase: "prefill", source: "base", step: null, done, total: pieces.length });
  const totals = { base: blank(), helper: blank() };
  const memory = { seen: pieces.length, evictions: 0, kept: [], retention: [] };
  addMemory(null);
  const count = { aborted: 0, flagged: 0 };
  for (let step = 0; step < steps; step++) addStep(step);
  if (close) finish();
  return events;

  function addMemory(step) {
    const { seen } = memory;
    const resident = budget === null ? seen : Math.min(seen, budget);
    const share = resident / seen;
    memory.retention.push(share);
    add("kv", { step, seen, resident, peak: budget === null ? seen : Math.min(seen, budget + 32), budget, bytes: resident * 4608, retention: share, map: encode(levels(seen, resident)) });
  }

  // Sinks and the newest tokens stay everywhere, the rest thins out and what is gone stays gone.
  function levels(seen, resident) {
    if (budget === null || resident === seen) return Array(seen).fill(15);
    const pressure = 1 - resident / seen;
    return Array.from({ length: seen }, (_, i) => {
      if (i < 4 || i >= seen - 16) return 15;
      const strength = Math.abs(Math.sin(i * 12.9898) * 43758.5453) % 1;
      const age = 1 - i / seen;
      const left = strength - pressure * (0.65 + 0.5 * age);
      return left <= 0 ? 0 : Math.min(15, Math.max(1, Math.round(left * 30)));
    });
  }

  function addStep(step) {
    add("step_begin", { step });
    const all = [];
    for (const source of ["base", "helper"]) for (let cand = 0; cand < n; cand++) all.push(plan(step, source, cand));
    const longest = Math.max(...all.map((one) => one.pieces.length));
    for (let at = 0; at < longest; at += batch) {
      for (const source of ["base", "helper"]) {
        const live = all.filter((one) => one.source === source && at < one.pieces.length);
        if (live.length) add("tokens", { step, source, rows: live.map((one) => row(one, at)) });
      }
    }
    for (const one of all) close1(step, one);
    const judged = all.filter((one) => !one.trip && !one.twin);
    add("scores", { step, scorer: "a synthetic judge", scores: judged.map(({ source, cand, score }) => ({ source, cand, score, detail: {} })), seconds: 0.1 });
    const winner = judged.reduce((best, one) => (one.score > best.score ? one : best));
    add("evict", { step, during: "commit", policy: "rkv", rows: 1, before: 96, after: 64, seen: memory.seen, seconds: 0.01 });
    memory.evictions++;
    add("commit", { step, source: winner.source, cand: winner.cand, score: winner.score, text: winner.pieces.join(""), tokens: winner.pieces.length, pieces: winner.pieces, ended: "delimiter" });
    for (const one of all) {
      const total = totals[one.source];
      total.generated += one.pieces.length;
      total[one === winner ? "committed" : one.trip ? "aborted" : "discarded"] += one.pieces.length;
    }
    totals[winner.source].steps++;
    memory.seen += winner.pieces.length;
    addMemory(step);
  }

  function plan(step, source, cand) {
    const trip = source === "base" && cand === n - 1 && step % 2 === 0 ? (step % 4 ? "gzip" : "entropy") : null;
    const flag = source === "helper" && cand === n - 1 && step % 3 === 1;
    const twin = source === "base" && cand === n - 1 && n > 1 && step % 2 === 1 ? ["base", 0] : null;
    const said = text || LINES[source][step % 4];
    const whole = trip === "gzip" ? said + LOOP.repeat(9) : trip === "entropy" ? said + Array.from({ length: 30 }, () => NOISE[Math.floor(next() * NOISE.length)]).join("") : `${said} `.repeat(repeat).trimEnd() + "\n\n";
    const rescue = source === "helper" ? 0.12 * (step % 3) : 0.2 - 0.05 * (step % 4);
    return { source, cand, trip, flag, twin, pieces: tokenize(whole), score: round(Math.min(0.98, 0.52 + rescue + 0.25 * (next() - 0.5) - 0.08 * cand)), noise: trip === "entropy" };
  }

  function row(one, at) {
    const part = one.pieces.slice(at, at + batch);
    const tokens = at + part.length;
    const before = one.noise && at > 12 ? 2.9 : one.flag && at > 8 ? 2.2 : 0.5;
    const gzip = Math.floor(tokens / 16) > Math.floor(at / 16) && tokens >= 16 ? [[tokens, round(one.trip === "gzip" && at > 20 ? Math.max(0.17, 0.8 - at / 110) : 0.72 + 0.4 * (next() - 0.5))]] : [];
    return { cand: one.cand, tokens, text: part.join(""), ent: part.map(() => round(Math.max(0, before + (next() - 0.5)))), gzip };
  }

  function close1(step, one) {
    const verdict = { step, source: one.source, cand: one.cand, position: one.pieces.length };
    if (one.trip) {
      add("abort", { ...verdict, guard: one.trip, value: one.trip === "gzip" ? 0.18 : 2.73, threshold: one.trip === "gzip" ? 0.3 : 2.5 });
      count.aborted++;
    }
    if (one.flag) {
      add("flag", { ...verdict, guard: "entropy", value: 2.61, threshold: 2.5 });
      count.flagged++;
    }
    add("candidate", { step, source: one.source, cand: one.cand, tokens: one.pieces.length, finish: one.trip ? "aborted" : "delimiter", duplicate_of: one.twin, empty: false });
  }

  function finish() {
    if (close === "answer") add("answer", { step: steps - 1, source: "helper", text: "1028" });
    const closing = {
      answer: close === "answer" ? "1028" : null, steps, totals, aborted_candidates: count.aborted, flagged_candidates: count.flagged, evictions: memory.evictions, peak_resident: 96,
      peak_kv_bytes: 4423680, mean_retention: round(memory.retention.reduce((sum, one) => sum + one, 0) / memory.retention.length), seconds: 42.3, propose_seconds: 36.1, score_seconds: 5.2, evict_seconds: 0.4,
    };
    if (close === "error") add("error", { ...closing, code: "engine", message: "The run failed inside the engine (Synthetic)." });
    else add("end", { ...closing, reason: close });
  }
}

const blank = () => ({ generated: 0, committed: 0, discarded: 0, aborted: 0, steps: 0 });
