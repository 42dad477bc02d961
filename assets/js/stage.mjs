// The whole viewer: mount it anywhere, feed it a text of NDJSON, live or recorded. One run is shown as a run, several are compared.

import { createCompare } from "./compare.mjs";
import { button, el, put, setText } from "./dom.mjs";
import { translator } from "./i18n.mjs";
import { createLessons } from "./lessons.mjs";
import { TailParser } from "./parse.mjs";
import { isClosing } from "./state.mjs";
import { createRun } from "./trace_view.mjs";

export const MOST_RUNS = 4;
const MOST_PROBLEMS = 3;

/**
 * @typedef {object} View
 * @property {(ndjson: string) => void} update what runs now, as its NDJSON text so far; only what is new is read
 * @property {(ndjson: string, about: import("./trace_view.mjs").About, step?: number|null) => void} replay show a finished text, at its end or at a step (from 0)
 * @property {() => boolean} running something is being streamed
 * @property {(id: string, options?: {step?: number|null, compare?: boolean}) => Promise<boolean>} recorded show a recording; false when there is none
 * @property {(wanted: boolean) => void} project large and bold, for a projector
 * @property {(card: number) => void} lesson open a lesson (from 1)
 * @property {(thresholds: {tau_ent?: number, tau_cmp?: number, ent_window?: number}) => void} setThresholds drawn while nothing runs
 * @property {(message: string) => void} setIdle what to say before any run
 * @property {(wanted?: string) => string} look how the memory is drawn: "text" or "grid"
 * @property {() => void} destroy
 */

/**
 * @param {HTMLElement} root an element that this viewer owns from now on
 * @param {{loadPlotly: () => Promise<any>, emit?: (name: string, detail: object) => void, strings?: Record<string, string>|null, api?: string|null,
 *   forks?: boolean, recordings?: {list: () => Promise<object[]>, text: (file: string) => Promise<string>}|null}} options
 *   see `createRun` for `emit`, `api` and `forks`; `recordings`: the bundled traces, `list` as in examples/traces/index.json
 * @returns {View}
 */
export function mount(root, { loadPlotly, emit, strings = null, api = null, forks = false, recordings = null }) {
  const t = translator(strings);
  const parser = new TailParser();
  /** @type {object[][]} */
  let runs = [];
  let about = null;
  let alone = null;

  // What runs now is not replaced by a file.
  const onOpen = (text, name) => !running() && (replay(text, { name }), true);
  const one = createRun({ t, loadPlotly, emit, api, onOpen, forks });
  const many = createCompare({ t, api, onOpen, onRun: showAlone });
  const lessons = createLessons({ t, root, show: recorded, run: one });
  const problems = el("p", "kvr-problems");
  problems.hidden = true;
  const back = button("kvr-button", t("compare.back"), () => showAlone(null));
  const compare = button("kvr-button", t("compare.open"), () => recorded(about.id, { compare: !compared() }));
  const projector = button("kvr-button", t("page.projector"), () => project(projector.getAttribute("aria-pressed") !== "true"));
  projector.setAttribute("aria-pressed", "false");
  const bar = put(el("div", "kvr-bar-row"), recordings ? lessons.opener : null, compare, back, projector, keys(t), terms(t));
  root.classList.add("kvr");
  // The frame measures itself; what floats over it is outside.
  root.replaceChildren(put(el("div", "kvr-frame"), bar, problems, one.root, many.root), lessons.root);
  arrange();

  function compared() {
    return runs.length > 1 && alone === null;
  }

  function project(wanted) {
    root.classList.toggle("kvr-projector", wanted);
    projector.setAttribute("aria-pressed", String(wanted));
  }

  function arrange() {
    many.root.hidden = !compared();
    one.root.hidden = compared();
    back.hidden = alone === null;
    compare.hidden = !about?.compare || alone !== null;
    setText(compare, t(compared() ? "compare.close" : "compare.open"));
  }

  function clear() {
    [runs, about, alone] = [[], null, null];
    one.reset();
    many.reset();
  }

  function showAlone(index) {
    alone = index;
    if (index !== null) one.show(runs[index], aloneAbout());
    arrange();
    root.scrollIntoView({ block: "nearest" });
  }

  // A run of a comparison is no recording of its own: it has no address.
  const aloneAbout = () => (about ? { ...about, example: about.id, id: undefined } : null);

  function add(events) {
    const fresh = new Map();
    for (const event of events) {
      if (!runs.length || (event.type === "header" && event.seq === 0)) runs.push([]);
      const index = runs.length - 1;
      if (index >= MOST_RUNS) continue;
      runs[index].push(event);
      if (!fresh.has(index)) fresh.set(index, []);
      fresh.get(index).push(event);
    }
    if (runs.length > 1 && !many.lanes()) runs.slice(0, MOST_RUNS).forEach((all, index) => many.append(index, all, about));
    else if (runs.length > 1) for (const [index, more] of fresh) many.append(index, more, about);
    else if (events.length) one.append(events, about);
    if (alone !== null && fresh.has(alone)) one.append(fresh.get(alone), aloneAbout());
    arrange();
  }

  function read(ndjson) {
    const { events, restarted } = parser.feed(ndjson);
    if (restarted) clear();
    if (events.length) add(events);
    const told = parser.problems.slice(0, MOST_PROBLEMS).map(({ code, ...values }) => t(`problem.${code}`, values));
    if (runs.length > MOST_RUNS) told.push(t("problem.runs", { most: MOST_RUNS }));
    setText(problems, told.join("; "));
    problems.hidden = !told.length;
  }

  function replay(ndjson, told, step = null) {
    parser.reset();
    clear();
    about = told;
    read(ndjson);
    if (step !== null) (compared() ? many : one).goTo(step);
  }

  const running = () => runs.length > 0 && about === null && !isClosing(runs.at(-1).at(-1));

  // What runs now is never replaced by a recording.
  async function recorded(id, { step = null, compare: together = false } = {}) {
    const entry = (await recordings?.list())?.find((known) => known.id === id);
    if (!entry) return false;
    const text = await recordings.text(together && entry.compare ? entry.compare.file : entry.file);
    if (running()) return false;
    replay(text, together && entry.compare ? { ...entry, command: entry.compare.command } : entry, step);
    return true;
  }

  return {
    update: (ndjson) => read(ndjson ?? ""),
    replay,
    running,
    recorded,
    project,
    lesson: lessons.open,
    setThresholds: one.setThresholds,
    setIdle: one.setIdle,
    look: one.look,
    destroy() {
      one.destroy();
      many.destroy();
      lessons.destroy();
      root.replaceChildren();
    },
  };
}

function keys(t) {
  const list = el("dl", "kvr-keys");
  for (const name of ["range", "tokens", "play", "abort", "chart", "grid", "lessons", "presenter"]) put(list, put(el("div"), el("dt", "", t(`keys.${name}.keys`)), el("dd", "", t(`keys.${name}`))));
  return put(el("details", "kvr-more"), el("summary", "kvr-button", t("keys.title")), list);
}

const TERMS = ["committed", "flagged", "boxed", "reward", "head", "retention", "sink", "window", "policy", "entropy", "gzip", "reflection", "asked", "probe"];

/** The field's words in one place; most of them are explained where they stand too, to a pointer that rests on them. */
function terms(t) {
  const list = el("dl", "kvr-keys");
  for (const name of TERMS) put(list, put(el("div"), el("dt", "", t(`term.${name}.name`)), el("dd", "", t(`term.${name}`))));
  return put(el("details", "kvr-more"), el("summary", "kvr-button", t("term.title")), list);
}
