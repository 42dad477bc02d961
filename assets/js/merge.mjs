// Several runs of one problem on one time line: within a step they race, and each step begins when all have ended the one before.

import { stopsOf } from "./replay.mjs";

/**
 * @param {object[][]} runs the events of each run
 * @returns {{events: {lane: number, type: string, t_ms: number}[], stops: ReturnType<typeof stopsOf>}} `events`: one entry an event, in the order of the time
 *   line; `stops`: after the problem, after step 1 of every run, and so on, counted in entries
 */
export function merge(runs) {
  const cuts = runs.map(stopsOf);
  const most = Math.max(0, ...cuts.map((stops) => stops.length));
  const events = [];
  const stops = [];
  let clock = 0;
  for (let k = 0; k < most; k++) {
    const here = runs.flatMap((run, lane) => between(run, cuts[lane], k).map((event, i, all) => ({ lane, type: event.type, t_ms: clock + Math.max(0, timeOf(event) - timeOf(all[0])) })));
    here.sort((a, b) => a.t_ms - b.t_ms);
    events.push(...here);
    clock = here.at(-1)?.t_ms ?? clock;
    const marks = cuts.map((stop) => stop[k]).filter(Boolean);
    const sum = (field) => marks.reduce((total, mark) => total + mark[field], 0);
    stops.push({ count: events.length, step: k ? k - 1 : null, aborts: sum("aborts"), helper: marks.some((mark) => mark.helper), evictions: sum("evictions") });
  }
  return { events, stops };
}

const timeOf = (event) => (Number.isFinite(event.t_ms) ? event.t_ms : 0);
const between = (run, stops, k) => (k < stops.length ? run.slice(k ? stops[k - 1].count : 0, stops[k].count) : []);

/** How many events of each run lie before entry `count`. */
export function countsAt(events, count, lanes) {
  const counts = new Array(lanes).fill(0);
  for (let i = 0; i < count && i < events.length; i++) counts[events[i].lane]++;
  return counts;
}

/** The first step (from 0) in which the runs do not say the same; null while they do. @param {object[]} states */
export function firstDifference(states) {
  const said = states.map((state) => state.steps.filter((step) => step.commit).map((step) => step.commit.text.trim()));
  const most = Math.max(0, ...said.map((texts) => texts.length));
  for (let k = 0; k < most; k++) if (new Set(said.map((texts) => texts[k])).size > 1) return k;
  return null;
}
