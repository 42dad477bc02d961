// The viewer of one run: mount it anywhere, feed it the run's NDJSON string, replayed or live.

import { createCharts } from "./charts.mjs";
import { button, el, put, setText } from "./dom.mjs";
import { translator } from "./i18n.mjs";
import { createLanes } from "./lanes.mjs";
import { createLive } from "./live.mjs";
import { createMemory } from "./memory.mjs";
import { TailParser } from "./parse.mjs";
import { createReplay } from "./replay.mjs";
import { createShare } from "./share.mjs";
import { apply, newState } from "./state.mjs";
import { createSteps } from "./steps.mjs";
import { createEndCard, createHeader } from "./summary.mjs";
import { createWhatIf } from "./whatif.mjs";

const MOST_PROBLEMS = 3;

/**
 * @typedef {object} View
 * @property {(ndjson: string) => void} update the run so far as its NDJSON string; only what is new is read
 * @property {(ndjson: string, about: {title?: string, command?: string, name?: string}, step?: number|null) => void} replay show a finished
 *   trace, at its end or where `step` (from 0) was committed
 * @property {() => boolean} running a run is being streamed
 * @property {(thresholds: {tau_ent?: number, tau_cmp?: number, ent_window?: number}) => void} setThresholds drawn while nothing runs
 * @property {(message: string) => void} setIdle what to say before any run
 * @property {() => void} destroy
 */

/**
 * @param {HTMLElement} root an element that this viewer owns from now on
 * @param {{loadPlotly: () => Promise<any>, emit?: (name: string, detail: object) => void, strings?: Record<string, string>|null}} options
 *   emits `select_step` with `{step}` (from 0; null when the choice is taken back);
 *   `api`: the address of the page whose endpoint runs things
 * @returns {View}
 */
export function mount(root, { loadPlotly, emit, strings = null, api = null }) {
  const t = translator(strings);
  const parser = new TailParser();
  const focus = { selected: null, hovered: null };
  let state = newState();
  /** Everything that was read, and how much of it is shown: the scrubber moves the second. @type {object[]} */
  let all = [];
  let shown = 0;
  let about = null;
  let idle = t("idle");

  const share = createShare({ t, run: taken, picture: () => parts.charts.picture(), api });
  const parts = {
    header: createHeader({ t }),
    end: createEndCard({ t }),
    lanes: createLanes({ t }),
    steps: createSteps({ t, onSelect: toggle, onHover: hover, onJump: jump }),
    charts: createCharts({ t, loadPlotly, onSelect: toggle, onHover: hover }),
    memory: createMemory({ t }),
    whatif: createWhatIf({ t }),
    live: createLive({ t }),
    replay: createReplay({ t, onSeek: seek, onOpen: (text, name) => replay(text, { name }), share: share.root }),
  };
  const page = layout(root, parts, t);
  parts.header.reset(idle);
  parts.replay.reset();
  parts.memory.update(state, null);

  function select(step) {
    focus.selected = step;
    focus.hovered = null; // a pointer at rest must not hide what was chosen
    if (step !== null) parts.steps.show(step);
    refocus();
    emit?.("select_step", { step });
  }

  function toggle(step) {
    select(focus.selected === step ? null : step);
  }

  function hover(step) {
    if (focus.hovered === step) return;
    focus.hovered = step;
    refocus();
  }

  function jump(step, guard) {
    page.unfold();
    if (focus.selected !== step) {
      focus.selected = step;
      refocus();
      emit?.("select_step", { step });
    }
    parts.charts.reveal(guard);
  }

  function refocus() {
    parts.steps.mark(focus.selected, focus.hovered);
    parts.charts.mark(focus.selected, focus.hovered);
    parts.memory.update(state, focus.hovered ?? focus.selected);
  }

  function reset() {
    [all, about] = [[], null];
    share.reset();
    parts.replay.reset();
    rewind();
  }

  // Nothing is shown any more, but what was read stays.
  function rewind() {
    state = newState();
    shown = 0;
    focus.selected = focus.hovered = null;
    for (const part of [parts.end, parts.lanes, parts.steps, parts.charts, parts.memory, parts.whatif, parts.live]) part.reset();
    parts.header.reset(idle);
    parts.charts.update(state);
    parts.memory.update(state, null);
    refocus();
  }

  function tellProblems() {
    const told = parser.problems.slice(0, MOST_PROBLEMS).map(({ code, ...values }) => t(`problem.${code}`, values));
    if (state.skipped) told.push(t("problem.skipped", { n: state.skipped }));
    setText(page.problems, told.join("; "));
    page.problems.hidden = !told.length;
  }

  function showUpTo(count) {
    const fresh = all.slice(shown, count);
    shown = count;
    if (!fresh.length) return;
    for (const event of fresh) apply(state, event);
    if (fresh.some((event) => event.type === "header") && state.header) parts.charts.setThresholds(state.header.config);
    for (const part of [parts.header, parts.lanes, parts.steps, parts.end, parts.charts, parts.whatif, parts.live]) part.update(state);
    parts.memory.update(state, focus.hovered ?? focus.selected);
  }

  function seek(count) {
    if (count < shown) rewind();
    showUpTo(count);
  }

  function read(ndjson) {
    const { events, restarted } = parser.feed(ndjson);
    if (restarted) reset();
    for (const event of events) all.push(event);
    if (events.length) showUpTo(all.length);
    if (restarted || parser.problems.length || events.length) tellProblems();
    return events.length > 0;
  }

  function replay(ndjson, told, step = null) {
    parser.reset();
    reset();
    read(ndjson);
    about = told;
    parts.replay.update(all, aboutWords());
    if (step !== null) parts.replay.goTo(step);
  }

  // The whole run, wherever the slider stands.
  const whole = () => all.reduce(apply, newState());
  function taken() {
    return { state: whole(), text: all.map((event) => `${JSON.stringify(event)}\n`).join(""), recorded: about?.id ?? null, step: parts.replay.step() };
  }

  function aboutWords() {
    if (about?.command) return t("replay.recorded", { title: about.title, command: about.command });
    if (about?.name) return t("replay.opened", { name: about.name });
    return state.closing ? t("replay.this") : t("replay.live");
  }

  return {
    update(ndjson) {
      if (read(ndjson ?? "")) parts.replay.update(all, aboutWords());
    },
    replay,
    running: () => all.length > 0 && !["end", "error"].includes(all[all.length - 1].type),
    setThresholds(thresholds) {
      if (!state.header || state.closing) parts.charts.setThresholds(thresholds);
    },
    setIdle(message) {
      idle = String(message);
      if (!state.header) parts.header.reset(idle);
    },
    destroy() {
      parts.charts.destroy();
      parts.live.reset();
      parts.replay.destroy();
      root.replaceChildren();
    },
  };
}

// Made once. On a phone the steps come first and the signals are folded; a wide page ignores the fold (see the style sheet).
function layout(root, parts, t) {
  const signals = put(el("div", "kvr-signals kvr-folded"), parts.charts.root, parts.whatif.root, parts.memory.root);
  const fold = button("kvr-fold", t("page.fold"), () => open(signals.classList.contains("kvr-folded")));
  const open = (wanted) => {
    signals.classList.toggle("kvr-folded", !wanted);
    fold.setAttribute("aria-expanded", String(wanted));
  };
  open(false);
  const problems = el("p", "kvr-problems");
  problems.hidden = true;
  const story = put(el("div", "kvr-story"), parts.end.root, parts.lanes.root, parts.steps.root);
  root.classList.add("kvr");
  root.replaceChildren(parts.header.root, problems, parts.replay.root, put(el("div", "kvr-columns"), story, put(el("div", "kvr-side"), fold, signals)), parts.live.root);
  return { problems, unfold: () => open(true) };
}
