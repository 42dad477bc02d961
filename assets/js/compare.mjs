// Several runs of one problem side by side: how they ended, what each wrote, what each still remembered, and where they part.

import { VERSION, table as csvTable } from "./csv.mjs";
import { button, el, glyph, put, setText } from "./dom.mjs";
import { createMemory, memoryLegend } from "./memory.mjs";
import { countsAt, firstDifference, merge } from "./merge.mjs";
import { createReplay } from "./replay.mjs";
import { createShare, fileName, pageAddress, settingsQuery } from "./share.mjs";
import { sparkline } from "./sparkline.mjs";
import { apply, isClosing, newState } from "./state.mjs";
import { createSteps } from "./steps.mjs";
import { statusOf } from "./summary.mjs";
import { aboutWords } from "./trace_view.mjs";
import { COLUMNS, figuresOf, verdictTable } from "./verdict_table.mjs";

/**
 * @param {{t: import("./i18n.mjs").Translator, api: string|null, onOpen: (text: string, name: string) => void, onRun: (lane: number) => void}} options
 *   `onRun`: a reader wants to see one of the runs alone
 */
export function createCompare({ t, api, onOpen, onRun }) {
  const root = el("div", "kvr-compare");
  const problem = el("p", "kvr-problem");
  problem.dir = "auto";
  problem.tabIndex = 0; // it scrolls
  const verdicts = el("div");
  const parting = el("p", "kvr-note kvr-parting");
  const share = createShare({ t, files: { trace: traces, table: tableCsv }, copies: { link } });
  const replay = createReplay({ t, onSeek: seek, onOpen, share: share.root });
  const switcher = el("div", "kvr-switcher");
  switcher.setAttribute("role", "group");
  switcher.setAttribute("aria-label", t("compare.switch"));
  const grid = el("div", "kvr-compare-grid");
  const legend = put(el("details", "kvr-more"), el("summary", "kvr-button", t("compare.legend")), memoryLegend(t));
  put(root, problem, replay.root, verdicts, parting, switcher, grid, legend);

  let about = null;
  /** @type {ReturnType<typeof createLane>[]} */
  let lanes = [];
  let line = merge([]);

  function add() {
    const index = lanes.length;
    const lane = createLane({ t, onSelect: select, onRun: () => onRun(index) });
    const pick = button("kvr-button", "", () => show(index));
    lane.pick = pick;
    lanes.push(lane);
    put(switcher, pick);
    put(grid, lane.root);
    grid.style.setProperty("--lanes", String(lanes.length));
    show(0);
    return lane;
  }

  // On a phone one lane is seen at a time.
  function show(index) {
    lanes.forEach((lane, i) => {
      lane.root.classList.toggle("kvr-current", i === index);
      lane.pick.setAttribute("aria-pressed", String(i === index));
    });
  }

  function select(step) {
    for (const lane of lanes) lane.select(step);
  }

  function seek(count) {
    countsAt(line.events, count, lanes.length).forEach((events, i) => lanes[i].seek(events));
    for (const lane of lanes) lane.select(null);
    mark();
  }

  const whole = () => lanes.map((lane) => lane.whole());

  function mark() {
    const at = lanes.length > 1 && lanes.every((lane) => lane.closed()) ? firstDifference(whole()) : null;
    setText(parting, at === null ? "" : t(at ? "compare.parting" : "compare.parting.first", { n: at, step: at + 1 }));
    if (at !== null) for (const lane of lanes) lane.tag(at);
  }

  function settle() {
    const states = whole();
    verdicts.replaceChildren(verdictTable(states, t));
    const longest = Math.max(1, ...states.map((state) => state.steps.length));
    lanes.forEach((lane, i) => lane.draw(states[i], longest));
    const closed = lanes.every((lane) => lane.closed());
    if (closed || about !== null) line = merge(lanes.map((lane) => lane.events()));
    replay.update(line.events, aboutWords(about, closed, t), closed || about !== null, line.stops);
    mark();
  }

  function traces() {
    const text = lanes.flatMap((lane) => lane.events()).map((event) => `${JSON.stringify(event)}\n`).join("");
    return [text, fileName("comparison", ".ndjson"), "application/x-ndjson"];
  }

  function tableCsv() {
    const rows = whole().map(figuresOf).map((row) => [VERSION, row.method, ...COLUMNS.map((name) => row[name])]);
    return [csvTable(["schema", "method", ...COLUMNS], rows), fileName("comparison", ".csv"), "text/csv;charset=utf-8"];
  }

  function link() {
    if (about?.id) return `${pageAddress(api)}?trace=${encodeURIComponent(about.id)}&compare=1&step=${(replay.step() ?? -1) + 1}`;
    // The first run's settings stand for all: what a method wants otherwise comes with the method.
    const headers = whole().map((state) => state.header);
    return `${pageAddress(api)}?${settingsQuery(headers[0], headers.map(({ config }) => String(config.method)))}`;
  }

  return {
    root,
    reset() {
      about = null;
      lanes = [];
      line = merge([]);
      for (const node of [switcher, grid, verdicts]) node.replaceChildren();
      setText(problem, "");
      setText(parting, "");
      share.reset();
      replay.reset();
    },
    /** @param {number} index which run @param {object[]} events more of it */
    append(index, events, told) {
      about = told;
      share.address(Boolean(api || about?.id));
      while (lanes.length <= index) add();
      lanes[index].append(events, about !== null);
      setText(problem, String(lanes[0].whole().header?.problem ?? ""));
      if (isClosing(events.at(-1)) || events.some((event) => event.type === "header")) settle();
    },
    lanes: () => lanes.length,
    /** Go to where every run has committed `step` (from 0). */
    goTo: replay.goTo,
    destroy: replay.destroy,
  };
}

function createLane({ t, onSelect, onRun }) {
  const root = el("article", "kvr-compare-lane");
  const title = el("h2");
  const facts = el("p", "kvr-note");
  const answer = el("p", "kvr-strong");
  const steps = createSteps({ t, onSelect, onHover: () => {}, onJump: onRun });
  const memory = createMemory({ t });
  const curve = el("div", "kvr-spark");
  const alone = button("kvr-link", t("compare.alone"), onRun);
  put(root, put(el("div", "kvr-section-head"), title, alone), facts, answer, curve, memory.root, steps.root);
  let all = [];
  let shown = 0;
  let state = newState();
  let full = null;
  let cut = false;
  let selected = null;

  function showUpTo(count) {
    if (count < shown) [state, shown] = [newState(), 0];
    for (const event of all.slice(shown, count)) apply(state, event);
    shown = count;
    state.cut = cut && shown === all.length;
    steps.update(state);
    memory.update(state, selected);
    tell();
  }

  function tell() {
    const { header, closing } = state;
    setText(title, header ? t(`method.${header.config.method}`) : "");
    setText(facts, header ? statusOf(state, t) : "");
    answer.replaceChildren(...(closing ? result(closing, t) : []));
    root.setAttribute("aria-label", title.textContent);
    // Regions of a kind are told apart by their run.
    for (const [part, label] of [[steps.root, "steps.label"], [memory.root, "memory.label"]]) part.setAttribute("aria-label", `${title.textContent}: ${t(label)}`);
  }

  return {
    root,
    pick: null,
    append(events, recorded) {
      for (const event of events) all.push(event);
      full = null;
      cut = recorded && !isClosing(all.at(-1));
      showUpTo(all.length);
      setText(this.pick, title.textContent);
    },
    seek: showUpTo,
    select(step) {
      selected = step;
      steps.mark(step, null);
      if (step !== null) steps.show(step);
      memory.update(state, step);
    },
    tag: (step) => steps.tag(step, t("compare.tag")),
    draw: (wholeState, longest) => curve.replaceChildren(sparkline(wholeState, longest, t)),
    events: () => all,
    closed: () => isClosing(all.at(-1)),
    whole: () => (full ??= all.reduce(apply, newState())),
  };
}

function result({ answer, correct, type }, t) {
  if (type === "error") return [glyph("✕ ", "kvr-cross"), el("span", "", t("end.failed"))];
  const words = answer === null ? [el("span", "", t("end.noanswer"))] : [el("span", "", t("end.answer")), el("bdi", "", String(answer))];
  if (typeof correct === "boolean") words.push(el("span", "", ` ${correct ? "✓" : "✕"} ${t(correct ? "compare.yes" : "compare.no")}`));
  return words;
}
