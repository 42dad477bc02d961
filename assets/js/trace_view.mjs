// The viewer of one run: mount it anywhere, feed it the run's NDJSON string, replayed or live.

import { createCharts } from "./charts.mjs";
import { el, put, setText } from "./dom.mjs";
import { plural } from "./format.mjs";
import { createLanes } from "./lanes.mjs";
import { createMemory } from "./memory.mjs";
import { TailParser } from "./parse.mjs";
import { apply, newState } from "./state.mjs";
import { createSteps } from "./steps.mjs";
import { createEndCard, createHeader } from "./summary.mjs";

const ANNOUNCE_MS = 3000;

/**
 * @param {HTMLElement} root an empty element that this viewer owns from now on
 * @param {{loadPlotly: () => Promise<any>, emit?: (name: string, detail: object) => void}} options
 */
export function mount(root, options) {
  const parser = new TailParser();
  const focus = { selected: null, hovered: null };
  let state = newState();
  let idle = "Choose a problem and press Run.";

  const select = (step) => {
    focus.selected = focus.selected === step ? null : step;
    focus.hovered = null; // a pointer at rest must not hide what was chosen
    if (focus.selected !== null) parts.steps.show(step);
    refocus();
    options.emit?.("select_step", { step: focus.selected });
  };
  const hover = (step) => {
    focus.hovered = step;
    refocus();
  };
  const parts = {
    header: createHeader(),
    end: createEndCard(),
    lanes: createLanes(),
    steps: createSteps({ onSelect: select, onHover: hover }),
    charts: createCharts({ loadPlotly: options.loadPlotly, onSelect: select, onHover: hover }),
    memory: createMemory(),
  };
  const live = announcer();
  const problems = el("p", "kvr-problems");
  problems.hidden = true;
  build(root, parts, live.node, problems);
  parts.header.reset(idle);
  parts.memory.update(state, null);

  function refocus() {
    parts.steps.mark(focus.selected, focus.hovered);
    parts.charts.mark(focus.selected, focus.hovered);
    parts.memory.update(state, focus.hovered ?? focus.selected);
  }

  function reset() {
    state = newState();
    focus.selected = focus.hovered = null;
    for (const part of [parts.end, parts.lanes, parts.steps, parts.memory]) part.reset();
    parts.header.reset(idle);
    parts.charts.update(state);
  }

  return {
    /** The run so far, as its NDJSON string; only what is new is read. */
    update(ndjson) {
      const { events, restarted } = parser.feed(ndjson ?? "");
      if (restarted) reset();
      if (!events.length) return;
      for (const event of events) apply(state, event);
      if (events[0].type === "header") parts.charts.setThresholds(events[0].config);
      parts.header.update(state);
      parts.lanes.update(state);
      parts.steps.update(state);
      parts.end.update(state);
      parts.charts.update(state);
      parts.memory.update(state, focus.hovered ?? focus.selected);
      live.tell(state);
      setText(problems, parser.problems.slice(0, 3).join("; "));
      problems.hidden = !parser.problems.length;
    },
    /** Thresholds as the sliders stand now, drawn while nothing runs. */
    setThresholds(thresholds) {
      if (!state.header || state.closing) parts.charts.setThresholds(thresholds);
    },
    setIdle(message) {
      idle = message;
      if (!state.header) parts.header.reset(idle);
    },
    destroy() {
      parts.charts.destroy();
      root.replaceChildren();
    },
  };
}

function build(root, parts, live, problems) {
  root.classList.add("kvr");
  const signals = el("div", "kvr-signals");
  put(signals, parts.charts.root, parts.memory.root);
  const fold = el("button", "kvr-fold", "Signals and memory");
  fold.type = "button";
  // On a phone the steps come first; the wide layout ignores the fold.
  const narrow = root.getBoundingClientRect().width < 860;
  signals.classList.toggle("kvr-folded", narrow);
  fold.setAttribute("aria-expanded", String(!narrow));
  fold.addEventListener("click", () => {
    const folded = signals.classList.toggle("kvr-folded");
    fold.setAttribute("aria-expanded", String(!folded));
  });
  const story = put(el("div", "kvr-story"), parts.end.root, parts.lanes.root, parts.steps.root);
  root.replaceChildren(parts.header.root, problems, put(el("div", "kvr-columns"), story, put(el("div", "kvr-side"), fold, signals)), live);
}

/** One polite live region: at most a sentence every few seconds, never a stream of tokens. */
function announcer() {
  const node = el("p", "kvr-sr");
  node.setAttribute("role", "status");
  node.setAttribute("aria-live", "polite");
  let told = { commits: 0, aborts: 0 };
  let last = 0;
  return {
    node,
    tell(state) {
      const now = performance.now();
      const { commits, aborts } = state.counts;
      if (commits < told.commits) told = { commits: 0, aborts: 0 };
      if (!state.closing && now - last < ANNOUNCE_MS) return;
      const news = [
        commits > told.commits ? `${plural(commits - told.commits, "step")} committed` : "",
        aborts > told.aborts ? `${plural(aborts - told.aborts, "candidate")} aborted` : "",
        state.closing ? (state.closing.answer ? `finished, answer ${state.closing.answer}` : "finished") : "",
      ].filter(Boolean);
      if (!news.length) return;
      setText(node, news.join(", "));
      told = { commits, aborts };
      last = now;
    },
  };
}
