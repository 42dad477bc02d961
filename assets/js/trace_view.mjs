// The viewer of one run: give it the run's events, live or from a trace.

import { createCharts } from "./charts.mjs";
import { button, el, put, setText } from "./dom.mjs";
import { createLanes } from "./lanes.mjs";
import { createLive } from "./live.mjs";
import { createMemory } from "./memory.mjs";
import { createReplay } from "./replay.mjs";
import { shareOfRun } from "./share.mjs";
import { apply, isClosing, newState } from "./state.mjs";
import { createSteps } from "./steps.mjs";
import { createEndCard, createHeader } from "./summary.mjs";
import { createWhatIf } from "./whatif.mjs";

/**
 * @typedef {object} RunView
 * @property {HTMLElement} root
 * @property {(events: object[], about: About) => void} append more of the run that is shown
 * @property {(events: object[], about: About, step?: number|null) => void} show a whole trace, at its end or where `step` (from 0) was committed
 * @property {(thresholds: {tau_ent?: number, tau_cmp?: number, ent_window?: number}) => void} setThresholds drawn while nothing runs
 * @property {(message: string) => void} setIdle what to say before any run
 * @property {(step: number|null) => void} select
 */
/** @typedef {{id?: string, title?: string, command?: string, name?: string}|null} About a recording, a file of the reader's (`name`), or null: live */

/**
 * @param {{t: import("./i18n.mjs").Translator, loadPlotly: () => Promise<any>, emit?: (name: string, detail: object) => void, api: string|null,
 *   onOpen: (text: string, name: string) => void, forks: boolean}} options
 *   emits `select_step` with `{step}` (from 0; null when the choice is taken back) and, with `forks`, `fork` with the steps to go on from;
 *   `api`: the address of the page whose endpoint runs things
 * @returns {RunView}
 */
export function createRun({ t, loadPlotly, emit, api, onOpen, forks }) {
  const root = el("div", "kvr-run");
  const focus = { selected: null, hovered: null };
  let state = newState();
  /** Everything that was read, and how much of it is shown: the scrubber moves the second. @type {object[]} */
  let all = [];
  let shown = 0;
  let about = null;
  let cut = false;
  let idle = t("idle");

  const share = shareOfRun({ t, run: taken, picture: (whole) => parts.charts.picture(whole), api });
  const parts = {
    header: createHeader({ t }),
    end: createEndCard({ t }),
    lanes: createLanes({ t }),
    steps: createSteps({ t, onSelect: toggle, onHover: hover, onJump: jump }),
    charts: createCharts({ t, loadPlotly, onSelect: toggle, onHover: hover }),
    memory: createMemory({ t }),
    whatif: createWhatIf({ t }),
    live: createLive({ t }),
    replay: createReplay({ t, onSeek: seek, onOpen, share: share.root, fork: forks ? fork : null }),
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

  // The steps that a continuation begins with, and the memory that it should find there.
  function fork(step) {
    const { header, steps, kvs } = all.reduce(apply, newState());
    const kept = steps.slice(0, step + 1).map(({ commit }) => ({ source: commit.source, cand: commit.cand, score: commit.score, text: commit.text, ids: commit.ids ?? [] }));
    const map = kvs.findLast((kv) => kv.step === step)?.map ?? null;
    const { problem, reference, model_set: models, run } = header;
    emit?.("fork", { problem, reference: reference ?? "", models: models ?? "", opening: { run, steps: kept, map } });
  }

  // To the beginning, with what was drawn for the steps: they find it again when they are shown.
  function rewind() {
    state = newState();
    shown = 0;
    focus.selected = focus.hovered = null;
    parts.steps.mark(null, null);
    parts.charts.mark(null, null);
    for (const part of [parts.end, parts.lanes, parts.charts, parts.live]) part.reset();
  }

  // Nothing is shown any more, but what was read stays.
  function clear() {
    rewind();
    for (const part of [parts.steps, parts.memory, parts.whatif]) part.reset();
    parts.header.reset(idle);
    parts.charts.update(state);
    parts.memory.update(state, null);
  }

  function showUpTo(count) {
    const fresh = all.slice(shown, count);
    shown = count;
    if (!fresh.length) return;
    for (const event of fresh) apply(state, event);
    state.cut = cut && shown === all.length;
    if (fresh.some((event) => event.type === "header") && state.header) parts.charts.setThresholds(state.header.config);
    for (const part of [parts.header, parts.lanes, parts.steps, parts.end, parts.charts, parts.whatif, parts.live]) part.update(state);
    parts.memory.update(state, focus.hovered ?? focus.selected);
    page.tell(state.skipped ? t("problem.skipped", { n: state.skipped }) : "");
  }

  function seek(count) {
    if (!count) return clear();
    if (count < shown) rewind();
    showUpTo(count);
  }

  function append(events, told) {
    about = told;
    for (const event of events) all.push(event);
    cut = about !== null && !all.some(isClosing);
    showUpTo(all.length);
    // Without a page that can run things, only recordings have an address.
    share.address(Boolean(api || about?.id));
    const closed = about === null ? isClosing(all.at(-1)) : !cut;
    parts.replay.update(all, aboutWords(about, closed, t), closed || about !== null);
  }

  function reset() {
    [all, about] = [[], null];
    page.tell("");
    share.reset();
    parts.replay.reset();
    clear();
  }

  // The whole run, wherever the slider stands.
  function taken() {
    const text = all.map((event) => `${JSON.stringify(event)}\n`).join("");
    return { state: all.reduce(apply, newState()), text, recorded: about?.id ?? null, step: parts.replay.step(), look: parts.memory.look() };
  }

  return {
    root,
    append,
    reset,
    show(events, told, step = null) {
      reset();
      append(events, told);
      if (step !== null) parts.replay.goTo(step);
    },
    goTo: parts.replay.goTo,
    /** Where the run can be stopped, and where it stands; `slide` goes to one of these places. */
    stops: parts.replay.stops,
    slide: parts.replay.slide,
    point: parts.memory.point,
    /** The steps follow the slider, and so does the memory. */
    follow() {
      if (focus.selected !== null) select(null);
      parts.steps.follow();
    },
    open: parts.steps.open,
    look: parts.memory.look,
    select,
    state: () => state,
    whole: () => all.reduce(apply, newState()),
    setThresholds(thresholds) {
      if (!state.header || state.closing) parts.charts.setThresholds(thresholds);
    },
    setIdle(message) {
      idle = String(message);
      if (!state.header) parts.header.reset(idle);
    },
    unfold: page.unfold,
    destroy() {
      parts.charts.destroy();
      parts.live.reset();
      parts.replay.destroy();
    },
  };
}

// A recording's title in the reader's language, if there is one.
function titleOf({ id, example = id, title }, t) {
  const key = `example.${example}.title`;
  const said = t(key);
  return said === key ? title : said;
}

/** What is shown and where it comes from, in words. @param {About} about */
export function aboutWords(about, closed, t) {
  const cut = about && !closed ? ` ${t("replay.cut")}` : "";
  if (about?.command) return t("replay.recorded", { title: titleOf(about, t), command: about.command }) + cut;
  if (about?.name) return t("replay.opened", { name: about.name }) + cut;
  return closed ? t("replay.this") : t("replay.live");
}

// Made once. On a phone the steps come first and the signals are folded; a wide page ignores the fold (see the style sheet).
function layout(root, parts, t) {
  const signals = put(el("div", "kvr-signals kvr-folded"), parts.memory.root, parts.charts.root, parts.whatif.root);
  const fold = button("kvr-fold", t("page.fold"), () => open(signals.classList.contains("kvr-folded")));
  const open = (wanted) => {
    signals.classList.toggle("kvr-folded", !wanted);
    fold.setAttribute("aria-expanded", String(wanted));
  };
  open(false);
  const problems = el("p", "kvr-problems");
  problems.hidden = true;
  const tell = (words) => {
    setText(problems, words);
    problems.hidden = !words;
  };
  const story = put(el("div", "kvr-story"), parts.end.root, parts.lanes.root, parts.steps.root);
  put(root, parts.header.root, problems, parts.replay.root, put(el("div", "kvr-columns"), story, put(el("div", "kvr-side"), fold, signals)), parts.live.root);
  return { tell, unfold: () => open(true) };
}
