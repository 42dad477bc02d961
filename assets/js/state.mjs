// Folds events into what the page shows. Pure: no DOM, no clock.

/** @typedef {{source: string, cand: number, text: string, tokens: number, ent: number[], average: (number|null)[], gzip: [number, number][],
 *   marks: [number, number][], finish: string|null, abort: object|null, flags: object[], score: number|null|undefined, detail: object,
 *   duplicateOf: [string, number]|null, empty: boolean}} Candidate */

export function newState() {
  return {
    header: null,
    prompt: { tokens: 0, pieces: [] },
    status: null,
    /** @type {Step[]} */ steps: [],
    /** memory after the prompt (step -1) and after each commit */ kvs: [],
    evictions: 0,
    answer: null,
    closing: null,
    counts: { commits: 0, aborts: 0, flags: 0 },
  };
}

const newStep = (index) => ({ index, candidates: new Map(), commit: null, scorer: null, evictions: [] });
const key = (source, cand) => `${source}/${cand}`;

function stepOf(state, index) {
  while (state.steps.length <= index) state.steps.push(newStep(state.steps.length));
  return state.steps[index];
}

/** @returns {Candidate} */
function candidateOf(state, event) {
  const step = stepOf(state, event.step);
  const id = key(event.source, event.cand);
  if (!step.candidates.has(id)) {
    step.candidates.set(id, {
      source: event.source, cand: event.cand, text: "", tokens: 0, ent: [], average: [], gzip: [], marks: [[0, 0]],
      finish: null, abort: null, flags: [], score: undefined, detail: {}, duplicateOf: null, empty: false,
    });
  }
  return step.candidates.get(id);
}

/** Moving average of the last `window` entropies; null until the window is full. */
function pushEntropy(candidate, value, window) {
  candidate.ent.push(value);
  const n = candidate.ent.length;
  if (n < window) return candidate.average.push(null);
  let sum = 0;
  for (let i = n - window; i < n; i++) sum += candidate.ent[i];
  return candidate.average.push(sum / window);
}

const HANDLERS = {
  header(state, event) {
    state.header = event;
  },
  prompt(state, event) {
    if (event.pieces.length) state.prompt = { tokens: event.tokens, pieces: event.pieces };
  },
  status(state, event) {
    state.status = event;
  },
  step_begin(state, event) {
    stepOf(state, event.step);
    state.status = { phase: "propose", step: event.step };
  },
  tokens(state, event) {
    const window = state.header?.config.ent_window ?? 16;
    for (const row of event.rows) {
      const candidate = candidateOf(state, { ...event, cand: row.cand });
      candidate.text += row.text;
      candidate.tokens = row.tokens;
      candidate.marks.push([row.tokens, candidate.text.length]);
      for (const value of row.ent) pushEntropy(candidate, value, window);
      candidate.gzip.push(...row.gzip);
    }
  },
  abort(state, event) {
    candidateOf(state, event).abort = event;
    state.counts.aborts++;
  },
  flag(state, event) {
    candidateOf(state, event).flags.push(event);
    state.counts.flags++;
  },
  candidate(state, event) {
    const candidate = candidateOf(state, event);
    candidate.finish = event.finish;
    candidate.tokens = event.tokens;
    candidate.duplicateOf = event.duplicate_of;
    candidate.empty = event.empty;
  },
  scores(state, event) {
    stepOf(state, event.step).scorer = event.scorer;
    for (const row of event.scores) {
      const candidate = candidateOf(state, { ...row, step: event.step });
      candidate.score = row.score;
      candidate.detail = row.detail;
    }
  },
  evict(state, event) {
    state.evictions++;
    if (event.step !== null) stepOf(state, event.step).evictions.push(event);
  },
  commit(state, event) {
    stepOf(state, event.step).commit = event;
    state.counts.commits++;
  },
  kv(state, event) {
    state.kvs.push({ ...event, step: event.step ?? -1 });
  },
  answer(state, event) {
    state.answer = event;
  },
  end(state, event) {
    state.closing = event;
    state.status = null;
  },
  error(state, event) {
    state.closing = event;
    state.status = null;
  },
};

/** Apply one event in place. Unknown types are ignored, so that older pages read newer traces. */
export function apply(state, event) {
  HANDLERS[event.type]?.(state, event);
  return state;
}

/** The committed candidate of a step, or null. @returns {Candidate|null} */
export function winnerOf(step) {
  return step.commit ? (step.candidates.get(key(step.commit.source, step.commit.cand)) ?? null) : null;
}

/** Candidates that were not chosen: best score first, then those without. @returns {Candidate[]} */
export function rejectedOf(step) {
  const winner = winnerOf(step);
  const rank = (candidate) => (typeof candidate.score === "number" ? candidate.score : -1);
  return [...step.candidates.values()].filter((candidate) => candidate !== winner).sort((a, b) => rank(b) - rank(a) || a.cand - b.cand);
}

/** Start and end of the text in which a guard's window tripped, in characters (exact to one `tokens` batch). */
export function trippedRange(candidate, verdict, config) {
  const end = offsetAt(candidate.marks, verdict.position, candidate.text.length);
  if (verdict.guard === "entropy") return [offsetAt(candidate.marks, verdict.position - config.ent_window, 0), end];
  return [Math.max(0, end - config.cmp_window), end];
}

function offsetAt(marks, tokens, otherwise) {
  for (const [seen, offset] of marks) if (seen >= tokens) return offset;
  return otherwise;
}

/** Why a candidate is not in the trajectory, in words. */
export function whyNot(candidate, label) {
  const { abort } = candidate;
  if (abort?.guard === "entropy") return `aborted: entropy at token ${abort.position} (${abort.value.toFixed(2)} > ${abort.threshold} nats)`;
  if (abort) return `aborted: loop, gzip ratio at token ${abort.position} (${abort.value.toFixed(2)} < ${abort.threshold})`;
  if (candidate.finish === "stopped") return "cut off by the stop";
  if (candidate.finish === null) return "unfinished";
  if (candidate.duplicateOf) return `same text as ${label(...candidate.duplicateOf)}`;
  if (candidate.empty) return "empty";
  if (candidate.score === null) return "no score";
  return candidate.score === undefined ? "not scored" : "lower score";
}
