// A finished trace, moved through by hand: where each step ends, and the bar that goes there. The viewer itself stays one and the same.

import { button, el, put, setText } from "./dom.mjs";
import { unpacked } from "./gzip.mjs";
import { TailParser } from "./parse.mjs";

const MOST_BYTES = 10 * 1024 * 1024;
const TICK_MS = 60;
const LONGEST_PAUSE_MS = 700;
/** A step is shown at least this long at its own speed: tiny models write faster than anybody reads. */
const LEAST_STEP_MS = 800;
const SPEEDS = [0.5, 1, 2, 4, 8];

/**
 * Where a trace can be stopped: after the prompt, after each step, at its end.
 * @param {object[]} events
 * @returns {{count: number, step: number|null, aborts: number, helper: boolean, evictions: number}[]} `count` events lie before the stop
 */
export function stopsOf(events) {
  const stops = [];
  let marks = { step: null, aborts: 0, helper: false, evictions: 0 };
  events.forEach((event, index) => {
    if (event.type === "step_begin") {
      stops.push({ count: index, ...marks });
      marks = { step: event.step, aborts: 0, helper: false, evictions: 0 };
    } else if (event.type === "abort") marks.aborts++;
    else if (event.type === "evict") marks.evictions++;
    else if (event.type === "commit") marks.helper = event.source === "helper";
  });
  if (events.length) stops.push({ count: events.length, ...marks });
  return stops;
}

/** How near to a step a hand has to come to be at it. */
const SNAP = 0.1;

/**
 * A place among the stops, and how many events lie before it. Whole numbers are the stops; between two of them lies what was written meanwhile.
 * @param {ReturnType<typeof stopsOf>} stops @param {number} position
 * @returns {{at: number, count: number}} `at`: the last stop passed
 */
export function placeOf(stops, position) {
  const inside = Math.max(0, Math.min(stops.length - 1, position));
  const near = Math.round(inside);
  if (Math.abs(inside - near) < SNAP) return { at: near, count: stops[near]?.count ?? 0 };
  const at = Math.floor(inside);
  return { at, count: stops[at].count + Math.round((inside - at) * (stops[at + 1].count - stops[at].count)) };
}

/**
 * The next place at which tokens were written or a step was committed, or the one before.
 * @param {object[]} events @param {number} count events that are shown @param {1|-1} way
 */
export function nudged(events, count, way) {
  const told = (index) => ["tokens", "commit", "abort", "end", "error"].includes(events[index - 1]?.type);
  let index = count + way;
  while (index > 0 && index < events.length && !told(index)) index += way;
  return Math.max(0, Math.min(events.length, index));
}

/** The events of a whole trace and what is wrong with it: a code for a sentence, or null. */
export function readWhole(text) {
  if (new Blob([text]).size > MOST_BYTES) return { events: [], wrong: "large" };
  const { events } = new TailParser().feed(text.endsWith("\n") ? text : `${text}\n`);
  if (events[0]?.type !== "header" || !events[0].config || typeof events[0].config !== "object") return { events, wrong: "none" };
  return { events, wrong: null };
}

/**
 * @param {{t: import("./i18n.mjs").Translator, onSeek: (count: number) => void, onOpen: (text: string, name: string) => boolean|void,
 *   share: HTMLElement, fork?: ((step: number) => void)|null}} options `share`: what can be taken away; `fork`: go on from a step (from 0)
 */
export function createReplay({ t, onSeek, onOpen, share, fork = null }) {
  const root = el("section", "kvr-replay");
  root.setAttribute("aria-label", t("replay.label"));
  const what = el("p", "kvr-replay-what");
  const play = button("kvr-button kvr-play", t("replay.play"), () => (playing ? pause() : start()));
  const before = button("kvr-button", t("replay.before"), () => jump(-1));
  const after = button("kvr-button", t("replay.after"), () => jump(1));
  const range = el("input", "kvr-range");
  Object.assign(range, { type: "range", min: "0", step: "any" });
  range.setAttribute("aria-label", t("replay.range"));
  const ticks = el("div", "kvr-ticks");
  ticks.setAttribute("aria-hidden", "true");
  const place = el("span", "kvr-place");
  const speed = el("select", "kvr-speed");
  speed.setAttribute("aria-label", t("replay.speed"));
  for (const one of SPEEDS) {
    const option = el("option", "", `${one}×`);
    option.value = String(one);
    option.selected = one === 1;
    put(speed, option);
  }
  const file = el("input", "kvr-sr");
  Object.assign(file, { type: "file", accept: ".ndjson,.jsonl,.json,.txt,.gz" });
  file.tabIndex = -1;
  file.setAttribute("aria-label", t("replay.open"));
  const open = button("kvr-button", t("replay.open"), () => file.click());
  const wrong = el("p", "kvr-problems");
  wrong.setAttribute("role", "alert");
  wrong.hidden = true;
  const forks = fork ? button("kvr-button kvr-fork", t("replay.fork"), () => fork(stops[at].step)) : null;
  if (forks) forks.title = t("replay.fork.about");
  const controls = put(el("div", "kvr-replay-row"), play, before, put(el("div", "kvr-rail"), range, ticks), after, speed, place);
  put(root, put(el("div", "kvr-replay-row"), what, forks, open, file), wrong, controls, share);

  let events = [];
  let stops = [];
  let at = 0;
  let playing = 0;
  let clock = 0;
  let shown = 0;
  range.addEventListener("input", () => {
    pause();
    go(Number(range.value));
  });
  range.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    pause();
    if (event.shiftKey) show(nudged(events, shown, way));
    else go(way > 0 ? at + 1 : within() ? at : at - 1);
  });
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { "[": () => jump(-1), "]": () => jump(1), " ": event.target === range ? () => (playing ? pause() : start()) : null }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    file.value = "";
    if (!chosen) return;
    const text = await unpacked(chosen, MOST_BYTES).catch(() => undefined);
    if (!text && text !== "") return complain(text === null ? "large" : "torn");
    const found = readWhole(text);
    if (found.wrong) return complain(found.wrong);
    complain(onOpen(text.endsWith("\n") ? text : `${text}\n`, chosen.name) === false ? "busy" : null);
  });
  hide(true);

  function hide(hidden) {
    for (const node of [controls, share, forks]) if (node) node.hidden = hidden;
  }

  function complain(code) {
    wrong.hidden = !code;
    setText(wrong, code ? t(`replay.wrong.${code}`) : "");
  }

  function go(position) {
    ({ at, count: shown } = placeOf(stops, position));
    tell();
    onSeek(shown);
  }

  function show(count) {
    shown = count;
    at = Math.max(0, stops.findLastIndex((stop) => stop.count <= count));
    tell();
    onSeek(shown);
  }

  // In the middle of a step, the last stop being passed.
  const within = () => at < stops.length - 1 && shown > stops[at].count;

  function tell() {
    const stop = stops[at];
    const step = stop?.step;
    range.value = String(within() ? at + (shown - stop.count) / (stops[at + 1].count - stop.count) : at);
    const most = stops.length - 1;
    const words = within()
      ? t("replay.at.within", { step: stops[at + 1].step + 1, most })
      : !stop || step === null
        ? t("replay.at.problem")
        : t("replay.at.step", { step: step + 1, most });
    setText(place, words);
    // Behind an answer nothing is left to write.
    if (forks) forks.disabled = !Number.isInteger(step) || events.slice(0, stop.count).some((event) => event.type === "answer");
    range.setAttribute("aria-valuetext", words);
  }

  // The next step in which a base candidate was aborted, or the one before.
  function jump(way) {
    pause();
    for (let index = at + way; index >= 0 && index < stops.length; index += way) if (stops[index].aborts) return go(index);
    return go(way > 0 ? stops.length - 1 : 0);
  }

  // As it was written: the trace's own times, long pauses cut short.
  function start() {
    if (!stops.length) return;
    if (at === stops.length - 1) go(0);
    clock = events[Math.min(shown, events.length - 1)].t_ms ?? 0;
    playing = setInterval(tick, TICK_MS);
    setText(play, t("replay.pause"));
  }

  function tick() {
    const [from_ms, to_ms] = [at, at + 1].map((index) => events[Math.max(0, (stops[index]?.count ?? 0) - 1)]?.t_ms ?? 0);
    const pace = at < stops.length - 1 ? Math.min(1, Math.max(1, to_ms - from_ms) / LEAST_STEP_MS) : 1;
    clock += TICK_MS * Number(speed.value) * pace;
    const next = events[shown]?.t_ms ?? 0;
    if (next - clock > LONGEST_PAUSE_MS) clock = next - LONGEST_PAUSE_MS;
    const from = shown;
    while (shown < events.length && (events[shown].t_ms ?? 0) <= clock) shown++;
    while (at < stops.length - 1 && stops[at + 1].count <= shown) at++;
    if (shown !== from) {
      tell();
      onSeek(shown);
    }
    if (shown >= events.length) pause();
  }

  function pause() {
    clearInterval(playing);
    playing = 0;
    setText(play, t("replay.play"));
  }

  function drawTicks() {
    ticks.replaceChildren();
    stops.forEach((stop, index) => {
      const kind = stop.aborts ? "abort" : stop.helper ? "helper" : stop.evictions ? "evict" : "";
      if (!kind) return;
      const tick = el("i", `kvr-tick kvr-tick-${kind}`);
      tick.style.setProperty("--at", String(stops.length > 1 ? index / (stops.length - 1) : 0));
      put(ticks, tick);
    });
  }

  return {
    root,
    reset() {
      pause();
      [events, stops, at, shown] = [[], [], 0, 0];
      hide(true);
      complain(null);
      setText(what, t("replay.none"));
    },
    /**
     * @param {object[]} all the events of the trace; `about`: what it is, in words
     * @param {boolean} closed nothing more will come @param {ReturnType<typeof stopsOf>} [made] where to stop, if not after each step
     */
    update(all, about, closed, made) {
      setText(what, about);
      hide(!closed);
      if (!closed) return;
      events = all;
      stops = made ?? stopsOf(all);
      range.max = String(stops.length - 1);
      at = stops.length - 1;
      shown = all.length;
      drawTicks();
      tell();
    },
    /** Go to where `step` (from 0) was committed; before the first with -1. */
    goTo(step) {
      const index = step < 0 ? 0 : stops.findIndex((stop) => stop.step === step);
      if (index >= 0) go(index);
    },
    stops: () => ({ at, most: Math.max(0, stops.length - 1) }),
    slide(index) {
      pause();
      go(index);
    },
    /** The step (from 0) that is shown last; null after the problem. */
    step: () => stops[at]?.step ?? null,
    destroy: pause,
  };
}
