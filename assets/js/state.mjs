// Folds events into what the page shows. Pure: no DOM, no clock. A malformed event (traces can be edited) is counted and skipped.

/**
 * @typedef {object} Candidate
 * @property {"base"|"helper"} source
 * @property {number} cand
 * @property {string} text
 * @property {number} tokens
 * @property {number[]} ent entropy of each token, nats
 * @property {(number|null)[]} average moving average after each token; null until its window is full
 * @property {[number, number][]} gzip (tokens so far, ratio)
 * @property {number|null} entMax highest average so far
 * @property {number|null} gzipMin lowest ratio so far
 * @property {[number, number][]} marks (tokens so far, characters so far) after each batch
 * @property {string|null} finish
 * @property {object|null} abort
 * @property {object[]} flags
 * @property {number|null|undefined} score undefined until judged, null when the judge gave nothing
 * @property {["base"|"helper", number]|null} duplicateOf
 * @property {boolean} empty
 * @property {[number, string, string][]} suppressed (token number, would have been, was)
 */
/**
 * @typedef {{index: number, candidates: Map<string, Candidate>, commit: object|null, scorer: string|null, evictions: object[], penalty: number,
 *   band: string|null, retain: object|null, probes: object[]}} Step what ReCo decided after the step is kept with it
 */

const MOST_STEPS = 4096;
const MOST_CANDIDATES = 256;
const DEFAULT_WINDOW = 16;
const BANDS = ["low", "middle", "high"];

export function newState() {
  return {
    header: null,
    prompt: { tokens: 0, pieces: [] },
    status: null,
    /** @type {Step[]} */ steps: [],
    /** memory after the prompt (step -1) and after each commit */ kvs: [],
    evictions: 0,
    /** which run this one continues */ resumed: null,
    answer: null,
    closing: null,
    /** a recording that stops here, without an end */ cut: false,
    counts: { commits: 0, aborts: 0, flags: 0 },
    /** events that could not be read */ skipped: 0,
  };
}

const newStep = (index) => ({ index, candidates: new Map(), commit: null, scorer: null, evictions: [], penalty: 0, band: null, retain: null, probes: [] });
const key = (source, cand) => `${source}/${cand}`;
const number = (value, otherwise = 0) => (Number.isFinite(value) ? value : otherwise);

/** @param {object|undefined} event the last one that was read */
export const isClosing = (event) => event?.type === "end" || event?.type === "error";

const made = new WeakMap();
/** What an event says, made once: after going back it is the same object again, so that what was drawn for it is found. */
function once(event, make) {
  if (!made.has(event)) made.set(event, make());
  return made.get(event);
}

function need(condition) {
  if (!condition) throw new TypeError("malformed event");
}

const isIndex = (value, most) => Number.isInteger(value) && value >= 0 && value < most;
const isSource = (value) => value === "base" || value === "helper";

function stepOf(state, index) {
  need(isIndex(index, MOST_STEPS));
  while (state.steps.length <= index) state.steps.push(newStep(state.steps.length));
  return state.steps[index];
}

/** @returns {Candidate} */
function candidateOf(state, step, source, cand) {
  need(isSource(source) && isIndex(cand, MOST_CANDIDATES));
  const { candidates } = stepOf(state, step);
  const id = key(source, cand);
  if (!candidates.has(id)) {
    candidates.set(id, {
      source, cand, text: "", tokens: 0, ent: [], average: [], gzip: [], entMax: null, gzipMin: null, marks: [[0, 0]],
      finish: null, abort: null, flags: [], score: undefined, duplicateOf: null, empty: false, suppressed: [],
    });
  }
  return candidates.get(id);
}

function pushEntropy(candidate, value, window) {
  candidate.ent.push(number(value));
  const n = candidate.ent.length;
  if (n < window) return void candidate.average.push(null);
  // Summed anew for each token, as the guard does, so that the same token trips here and there.
  let sum = 0;
  for (let i = n - window; i < n; i++) sum += candidate.ent[i];
  candidate.average.push(sum / window);
  candidate.entMax = Math.max(candidate.entMax ?? 0, sum / window);
}

function pushGzip(candidate, [position, ratio]) {
  need(Number.isFinite(position) && Number.isFinite(ratio));
  candidate.gzip.push([position, ratio]);
  candidate.gzipMin = Math.min(candidate.gzipMin ?? Infinity, ratio);
}

function addRow(state, { step, source }, row) {
  const candidate = candidateOf(state, step, source, row.cand);
  need(typeof row.text === "string" && Array.isArray(row.ent));
  candidate.text += row.text;
  candidate.tokens = number(row.tokens);
  candidate.marks.push([candidate.tokens, candidate.text.length]);
  const window = number(state.header?.config.ent_window, DEFAULT_WINDOW);
  for (const value of row.ent) pushEntropy(candidate, value, window);
  for (const check of row.gzip ?? []) pushGzip(candidate, check);
  for (const [at, before, after] of row.suppressed ?? []) candidate.suppressed.push([number(at), String(before), String(after)]);
}

function verdictOf(event) {
  need(event.guard === "entropy" || event.guard === "gzip");
  return { guard: event.guard, position: number(event.position), value: number(event.value), threshold: number(event.threshold) };
}

const TOTALS = ["generated", "committed", "discarded", "aborted", "steps"];
const CLOSING = [
  "steps", "aborted_candidates", "flagged_candidates", "evictions", "peak_resident", "peak_kv_bytes", "mean_retention",
  "seconds", "propose_seconds", "score_seconds", "evict_seconds", "probes", "suppressed",
];

function close(state, event) {
  const totals = {};
  for (const source of ["base", "helper"]) {
    const given = event.totals?.[source];
    if (given) totals[source] = Object.fromEntries(TOTALS.map((field) => [field, number(given[field])]));
  }
  const figures = Object.fromEntries(CLOSING.map((field) => [field, number(event[field])]));
  const answer = typeof event.answer === "string" ? event.answer : null;
  state.closing = { type: event.type, reason: event.reason, message: event.message, answer, correct: typeof event.correct === "boolean" ? event.correct : null, totals, ...figures };
  state.status = null;
}

const HANDLERS = {
  header(state, event) {
    need(event.config && typeof event.config === "object");
    state.header = once(event, () => ({ ...event, models: event.models ?? {} }));
  },
  prompt(state, event) {
    need(Array.isArray(event.pieces));
    if (event.pieces.length) state.prompt = once(event, () => ({ tokens: number(event.tokens), pieces: event.pieces.map(String) }));
  },
  status(state, event) {
    state.status = event;
  },
  step_begin(state, event) {
    const step = stepOf(state, event.step);
    step.penalty = number(event.penalty);
    step.band = BANDS.includes(event.band) ? event.band : null;
    state.status = { phase: "propose", step: event.step };
  },
  tokens(state, event) {
    for (const row of event.rows) addRow(state, event, row);
  },
  abort(state, event) {
    candidateOf(state, event.step, event.source, event.cand).abort = verdictOf(event);
    state.counts.aborts++;
  },
  flag(state, event) {
    candidateOf(state, event.step, event.source, event.cand).flags.push(verdictOf(event));
    state.counts.flags++;
  },
  candidate(state, event) {
    const candidate = candidateOf(state, event.step, event.source, event.cand);
    candidate.finish = event.finish;
    candidate.tokens = number(event.tokens);
    candidate.duplicateOf = Array.isArray(event.duplicate_of) ? event.duplicate_of : null;
    candidate.empty = Boolean(event.empty);
  },
  scores(state, event) {
    stepOf(state, event.step).scorer = String(event.scorer);
    for (const row of event.scores) candidateOf(state, event.step, row.source, row.cand).score = Number.isFinite(row.score) ? row.score : null;
  },
  evict(state, event) {
    state.evictions++;
    if (event.step !== null) stepOf(state, event.step).evictions.push(event);
  },
  commit(state, event) {
    need(isSource(event.source) && isIndex(event.cand, MOST_CANDIDATES) && typeof event.text === "string" && Array.isArray(event.pieces));
    stepOf(state, event.step).commit = once(event, () => ({ ...event, tokens: number(event.tokens), pieces: event.pieces.map(String) }));
    state.counts.commits++;
    state.status = { phase: "commit", step: event.step };
  },
  kv(state, event) {
    need(typeof event.map === "string" && Number.isFinite(event.seen) && Number.isFinite(event.resident));
    need(event.step === null || isIndex(event.step, MOST_STEPS));
    need(event.layers === undefined || (Array.isArray(event.layers) && event.layers.every((map) => typeof map === "string")));
    state.kvs.push(once(event, () => ({ ...event, step: event.step ?? -1, retention: number(event.retention) })));
  },
  resumed(state, event) {
    state.resumed = once(event, () => ({ parent: String(event.parent), steps: number(event.steps), exact: typeof event.exact === "boolean" ? event.exact : null }));
  },
  retain(state, event) {
    need(["asked", "length", "target", "before", "after"].every((field) => Number.isFinite(event[field])));
    stepOf(state, event.step).retain = event;
  },
  probe(state, event) {
    const perplexity = Number.isFinite(event.perplexity) ? event.perplexity : null;
    const answer = typeof event.answer === "string" ? event.answer : null;
    stepOf(state, event.step).probes.push({ ...event, perplexity, answer, threshold: number(event.threshold), accepted: event.accepted === true });
  },
  answer(state, event) {
    need(isIndex(event.step, MOST_STEPS));
    state.answer = once(event, () => ({ step: event.step, source: event.source, text: String(event.text) }));
  },
  end: close,
  error: close,
};

/** Apply one event in place. Unknown types are ignored, so that older pages read newer traces. */
export function apply(state, event) {
  if (!Object.hasOwn(HANDLERS, event.type)) return state;
  try {
    HANDLERS[event.type](state, event);
  } catch {
    state.skipped++;
  }
  return state;
}

/** The committed candidate of a step, or null. @param {Step} step @returns {Candidate|null} */
export function winnerOf(step) {
  return step.commit ? (step.candidates.get(key(step.commit.source, step.commit.cand)) ?? null) : null;
}

/** Candidates that were not chosen: best score first, then those without. @param {Step} step @returns {Candidate[]} */
export function rejectedOf(step) {
  const winner = winnerOf(step);
  const rank = (candidate) => (typeof candidate.score === "number" ? candidate.score : -1);
  return [...step.candidates.values()]
    .filter((candidate) => candidate !== winner)
    .sort((a, b) => rank(b) - rank(a) || a.source.localeCompare(b.source) || a.cand - b.cand);
}
