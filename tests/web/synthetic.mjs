// SYNTHETIC event streams for tests of the viewer. Nothing here was written by a model, and nothing here is ever shown as a recording.

/** @param {{steps?: number, run?: string, tokens?: number, problem?: string, text?: string}} options */
export function synthetic({ steps = 5, run = "synthetic0", tokens = 24, problem = "Synthetic: what is 3 + 4?", text = "" } = {}) {
  const events = [];
  let seq = 0;
  const add = (type, fields) => events.push({ seq: seq++, t_ms: seq * 20, run, type, ...fields });
  const info = { id: "synthetic-model", architecture: "llama", parameters: 1, layers: 2, kv_heads: 2, query_heads: 4, head_dim: 8, vocab: 9, dtype: "float32", device: "cpu", note: "" };
  const config = {
    method: "kv-rescue", policy: "rkv", budget: 64, buffer: 32, n: 2, ent_window: 16, cmp_window: 64, tau_ent: 2.5, tau_cmp: 0.3, seed: 1,
  };
  add("header", { schema_version: 1, app_version: "0", problem, config, models: { base: info, helper: info }, same_weights: true, scorer: "synthetic judge", commit_by: "ids", assumptions: [], environment: {} });
  const pieces = Array.from({ length: 80 }, (_, i) => (i % 9 === 4 ? ` ${i}` : i % 20 === 19 ? "\n" : ` word${i}`));
  add("prompt", { source: "base", tokens: pieces.length, pieces });
  add("status", { phase: "prefill", source: "base", step: null, done: 80, total: 80 });
  let seen = pieces.length;
  const kv = (step) => {
    const resident = Math.min(seen, 64 + ((step ?? 0) % 3) * 10);
    const lost = seen - resident;
    const map = lost > 0 ? `f4 0${(lost - 0).toString(36)} 7a f${(resident - 14).toString(36)}`.replace("01 ", "0 ") : `f${seen.toString(36)}`;
    add("kv", { step, seen, resident, peak: 96, budget: 64, bytes: resident * 100, retention: resident / seen, map });
  };
  kv(null);
  for (let step = 0; step < steps; step++) {
    add("step_begin", { step });
    const lengths = { base: [tokens, tokens], helper: [tokens, tokens] };
    for (let at = 0; at < tokens; at += 4) {
      for (const source of ["base", "helper"]) {
        const rows = [0, 1].map((cand) => ({
          cand, tokens: at + 4, text: text || ` synthetic ${source} ${cand} ${at}`,
          ent: Array.from({ length: 4 }, (_, i) => Number((0.4 + 0.3 * Math.sin(step + at + i + cand)).toFixed(3))),
          gzip: at + 4 === 16 ? [[16, Number((0.7 + 0.05 * Math.cos(step)).toFixed(3))]] : [],
        }));
        add("tokens", { step, source, rows });
      }
    }
    if (step % 2 === 0) add("abort", { step, source: "base", cand: 1, guard: step % 4 ? "gzip" : "entropy", position: 20, value: step % 4 ? 0.18 : 3.1, threshold: step % 4 ? 0.3 : 2.5 });
    else add("flag", { step, source: "helper", cand: 1, guard: "entropy", position: 20, value: 2.8, threshold: 2.5 });
    for (const source of ["base", "helper"]) {
      for (const cand of [0, 1]) {
        const aborted = source === "base" && cand === 1 && step % 2 === 0;
        const twin = source === "base" && cand === 1 && step % 2 === 1;
        add("candidate", { step, source, cand, tokens: lengths[source][cand], finish: aborted ? "aborted" : "delimiter", duplicate_of: twin ? ["base", 0] : null, empty: false });
      }
    }
    const score = (source, cand, value) => ({ source, cand, score: value, detail: {} });
    const scores = [score("base", 0, 0.5 + 0.1 * Math.sin(step)), score("helper", 0, 0.55 + 0.2 * Math.cos(step)), score("helper", 1, 0.3)];
    if (step % 2 === 1) scores.splice(1, 0, score("base", 1, scores[0].score));
    add("scores", { step, scorer: "synthetic", scores, seconds: 0.1 });
    const source = scores[0].score >= scores.find((one) => one.source === "helper").score ? "base" : "helper";
    const written = Array.from({ length: tokens }, (_, i) => ` step${step}token${i}`);
    add("evict", { step, during: "commit", policy: "rkv", rows: 1, before: 96, after: 64, seen, seconds: 0.01 });
    add("commit", { step, source, cand: 0, score: scores.find((one) => one.source === source).score, text: text || `Synthetic step ${step + 1}, written by the ${source}: 3 + ${step} = ${step + 3}.\n\n`, tokens, pieces: written, ended: "delimiter" });
    seen += tokens;
    kv(step);
  }
  add("answer", { step: steps - 1, source: "base", text: "7" });
  const total = (committed) => ({ generated: 2 * steps * tokens, committed, discarded: 2 * steps * tokens - committed, aborted: 0, steps });
  add("end", {
    answer: "7", steps, totals: { base: { ...total(0), steps: 0 }, helper: total(steps * tokens) }, aborted_candidates: 3, flagged_candidates: 2, evictions: steps,
    peak_resident: 96, peak_kv_bytes: 4423680, mean_retention: 0.5, seconds: 12.3, propose_seconds: 10, score_seconds: 2, evict_seconds: 0.1, reason: "answer",
  });
  return events;
}
