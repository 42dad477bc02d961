// Seven short cards over the page: each goes to a recorded run, points at something, asks what will happen, and then shows it.

import { button, el, put, setText } from "./dom.mjs";
import { rejectedOf } from "./state.mjs";

const LOW = 0.5;
const OPTIONS = [1, 2, 3];

/**
 * @typedef {object} Lesson
 * @property {string} trace a recording
 * @property {(whole: object) => number|null} step where to go (from 0; null: after the problem; undefined: the end)
 * @property {string} spot what is pointed at
 * @property {number} right which answer (from 1)
 * @property {(whole: object, step: number|null) => Record<string, any>} values what the card's sentences quote from the run
 * @property {boolean} [others] open the candidates that were not chosen
 * @property {(whole: object, step: number) => number} [then] where to go once the question was answered, there with the other candidates open
 * @property {(whole: object, step: number) => string} [about] whose sentence of the story is underlined in the memory
 */
const memoryAt = (whole, step) => whole.kvs.find((kv) => kv.step === step) ?? whole.kvs.at(-1);
const nameIn = (text) => /^\w+, (\w+)/.exec(text)?.[1] ?? null;
const saidAt = (whole, step) => whole.steps[step]?.commit?.text.trim() ?? "";
const firstOf = (whole, wanted) => whole.steps.findIndex((step) => step.commit && wanted(step));
const firstBad = (whole) => firstOf(whole, (step) => typeof step.commit.score === "number" && step.commit.score < LOW);
const firstHelper = (whole) => firstOf(whole, (step) => step.commit.source === "helper");
const abortedIn = (step) => [...step.candidates.values()].filter((one) => one.abort).length;
const END = undefined;
/** The story's sentence about somebody. */
const toldOf = (whole, name) => whole.header.problem.split(/(?<=\.)\s+/).find((sentence) => sentence.split(/[\s,.]+/).includes(name)) ?? "";
/** A chosen candidate's score, and the worst of those that were judged. */
function worstOf(step) {
  const judged = rejectedOf(step).filter((one) => Number.isFinite(one.score));
  return judged.reduce((worst, one) => (worst && worst.score <= one.score ? worst : one), null);
}

/** How far the chosen candidate's score lies above the worst of the others'. */
function spread(step) {
  const worst = worstOf(step);
  return worst ? step.commit.score - worst.score : 0;
}

/** The helper's step that was judged with the largest difference, among those with an abort. */
function refereed(whole) {
  const fit = whole.steps.filter((step) => step.commit?.source === "helper" && abortedIn(step));
  return fit.length ? fit.reduce((best, step) => (spread(step) > spread(best) ? step : best)).index : -1;
}

/** @type {Lesson[]} */
export const LESSONS = [
  {
    trace: "lab-full",
    step: () => 2,
    spot: ".kvr-memory",
    right: 2,
    values: (whole, step) => ({ step: step + 1, seen: memoryAt(whole, step).seen, final: whole.kvs.at(-1).seen }),
  },
  {
    trace: "lab-forgets",
    step: (whole) => firstBad(whole) - 1,
    about: (whole, step) => nameIn(saidAt(whole, step + 1)),
    spot: ".kvr-memory",
    right: 3,
    then: (whole, step) => step + 1,
    values(whole, step) {
      const { resident, seen } = memoryAt(whole, step);
      const name = nameIn(saidAt(whole, step + 1));
      const { budget, buffer } = whole.header.config;
      return { resident, seen, budget, buffer, at: step + 1, step: step + 2, next: saidAt(whole, step + 1), name, told: toldOf(whole, name) };
    },
  },
  {
    trace: "lab-derails",
    step: firstBad,
    then: (whole) => whole.closing.steps - 1,
    spot: ".kvr-steps",
    right: 2,
    values: (whole, step) => ({ bad: step + 1, wrong: saidAt(whole, step), told: toldOf(whole, nameIn(saidAt(whole, step))), steps: whole.closing.steps, last: saidAt(whole, whole.closing.steps - 1) }),
  },
  {
    trace: "lab-helper",
    step: () => END,
    spot: ".kvr-steps",
    right: 1,
    values: (whole) => ({ step: firstBad(whole) + 1, bad: saidAt(whole, firstBad(whole)) }),
  },
  {
    trace: "lab-easy",
    step: (whole) => firstHelper(whole) - 1,
    about: (whole, step) => nameIn(saidAt(whole, step + 1)),
    then: (whole, step) => step + 1,
    spot: ".kvr-memory",
    right: 3,
    values(whole) {
      const { base, helper } = whole.closing.totals;
      return { step: firstHelper(whole) + 1, said: saidAt(whole, firstHelper(whole)), name: nameIn(saidAt(whole, firstHelper(whole))), base: base.steps, helper: helper.steps, answer: whole.closing.answer };
    },
  },
  {
    trace: "lab-rescue",
    step: refereed,
    spot: ".kvr-steps",
    right: 2,
    others: true,
    values(whole, step) {
      const best = whole.steps[step].commit.score;
      const worst = worstOf(whole.steps[step]);
      return { step: step + 1, best: best.toFixed(2), good: saidAt(whole, step), worst: worst.score.toFixed(2), bad: worst.text.trim(), n: abortedIn(whole.steps[step]) };
    },
  },
  {
    trace: "lab-reco",
    step: () => END,
    spot: ".kvr-steps",
    right: 1,
    values(whole) {
      const probes = whole.steps.flatMap((step) => step.probes);
      const { answer, suppressed, mean_retention: kept } = whole.closing;
      const [first, last] = [probes[0], probes.at(-1)].map((probe) => probe.perplexity.toFixed(2));
      return { probes: probes.length, every: whole.header.config.reco_every, guess: probes[0].answer, first, last, limit: probes[0].threshold, answer, suppressed, kept: Math.round(100 * kept) };
    },
  },
];

/**
 * @param {{t: import("./i18n.mjs").Translator, root: HTMLElement, run: import("./trace_view.mjs").RunView,
 *   show: (id: string) => Promise<boolean>}} options `root`: the viewer's; `show`: brings a recording into `run`
 */
export function createLessons({ t, root: viewer, run, show }) {
  const root = el("aside", "kvr-lessons");
  root.setAttribute("aria-label", t("lessons.label"));
  root.hidden = true;
  const opener = button("kvr-button kvr-primary", t("lessons.open"), () => (root.hidden ? open(0) : close()));
  const place = el("span", "kvr-muted");
  const title = el("h2");
  title.tabIndex = -1;
  const text = el("p");
  const question = el("p", "kvr-strong");
  const options = el("div", "kvr-options");
  const reveal = el("p", "kvr-reveal");
  reveal.setAttribute("role", "status");
  const before = button("kvr-button", t("lessons.before"), () => open(at - 1));
  const after = button("kvr-button kvr-primary", t("lessons.after"), () => (at === LESSONS.length - 1 ? close() : open(at + 1)));
  const presenter = button("kvr-toggle", t("lessons.presenter"), () => present(!presenting));
  presenter.setAttribute("aria-pressed", "false");
  const away = button("kvr-toggle", t("lessons.close"), close);
  // The card's own slider: the page's may be out of sight.
  const range = el("input", "kvr-range");
  Object.assign(range, { type: "range", min: "0", step: "1" });
  range.setAttribute("aria-label", t("lessons.slider"));
  const standing = el("span", "kvr-muted");
  range.addEventListener("input", () => {
    run.slide(Number(range.value));
    stand();
    if (goal !== null) openOthers(goal);
  });
  const foot = put(el("div", "kvr-replay-row"), before, after, presenter);
  put(root, put(el("div", "kvr-section-head"), place, away), title, text, put(el("div", "kvr-replay-row"), put(el("div", "kvr-rail"), range), standing), question, options, reveal, foot);

  let at = 0;
  let presenting = false;
  let values = {};
  let spot = null;
  /** The step (from 0) whose other candidates are open, if any; and where the lesson goes on. */
  let goal = null;
  let next = null;
  document.addEventListener("keydown", keyed);

  async function open(index) {
    if (!LESSONS[index]) return;
    at = index;
    root.hidden = false;
    viewer.classList.add("kvr-teaching");
    opener.setAttribute("aria-expanded", "true");
    const lesson = LESSONS[at];
    point(null);
    const shown = await show(lesson.trace);
    if (at !== index || root.hidden) return; // another card was opened meanwhile
    if (!shown) return tell(t("lessons.busy"));
    const whole = run.whole();
    const step = lesson.step(whole);
    if (step !== END) run.goTo(step);
    values = lesson.values(whole, step ?? null);
    goal = lesson.others ? step : null;
    next = lesson.then?.(whole, step) ?? null;
    ask();
    stand();
    run.unfold();
    run.point(lesson.about?.(whole, step) ?? null);
    point(lesson.spot);
    if (lesson.others) openOthers(step);
  }

  function ask() {
    const key = (name) => t(`lesson.${at + 1}.${name}`, values);
    setText(place, t("lessons.place", { at: at + 1, most: LESSONS.length }));
    for (const [node, name] of [[title, "title"], [text, "text"], [question, "question"]]) setText(node, key(name));
    setText(reveal, "");
    options.replaceChildren(...OPTIONS.map((number) => button("kvr-button", key(`option.${number}`), () => answer(number))));
    before.disabled = at === 0;
    setText(after, t(at === LESSONS.length - 1 ? "lessons.end" : "lessons.after"));
    title.focus({ preventScroll: true });
  }

  function stand() {
    const { at: now, most } = run.stops();
    range.max = String(most);
    range.value = String(now);
    const words = now ? t("replay.at.step", { step: now, most }) : t("replay.at.problem");
    setText(standing, words);
    range.setAttribute("aria-valuetext", words);
  }

  function tell(words) {
    for (const node of [title, text, question]) setText(node, "");
    options.replaceChildren();
    setText(reveal, words);
  }

  function answer(number) {
    const { right } = LESSONS[at];
    [...options.children].forEach((node, i) => {
      node.classList.toggle("kvr-right", i + 1 === right);
      node.setAttribute("aria-pressed", String(i + 1 === number));
    });
    const verdict = number === null ? "" : `${t(number === right ? "lessons.right" : "lessons.wrong")} `;
    setText(reveal, verdict + t(`lesson.${at + 1}.reveal`, values));
    if (next !== null) {
      run.goTo(next);
      stand();
      goal = next;
      next = null;
      openOthers(goal);
    }
    reveal.scrollIntoView({ block: "nearest" });
  }

  function point(selector) {
    spot?.classList.remove("kvr-spot");
    // Where the memory is the point, it stands beside the steps, without the charts.
    viewer.classList.toggle("kvr-only-memory", selector === ".kvr-memory");
    viewer.classList.toggle("kvr-only-charts", selector === ".kvr-steps");
    spot = selector ? run.root.querySelector(selector) : null;
    if (!spot) return;
    spot.classList.add("kvr-spot");
    spot.scrollIntoView({ block: spot.clientHeight > innerHeight ? "start" : "center" });
  }

  function openOthers(step) {
    if (run.stops().at !== step + 1) return;
    const openers = run.root.querySelectorAll(".kvr-card .kvr-expand");
    const last = openers[openers.length - 1];
    if (last?.getAttribute("aria-expanded") === "false") last.click();
    run.select(step);
  }

  function present(wanted) {
    presenting = wanted;
    presenter.setAttribute("aria-pressed", String(wanted));
    viewer.classList.toggle("kvr-large", wanted);
  }

  function close() {
    root.hidden = true;
    point(null);
    run.point(null);
    present(false);
    viewer.classList.remove("kvr-teaching");
    opener.setAttribute("aria-expanded", "false");
    opener.focus({ preventScroll: true });
  }

  // Clickers send Page Down and Page Up. Single letters count in presenter mode only, and never while somebody types.
  function keyed(event) {
    if (root.hidden || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input:not([type=range]), textarea, select, [contenteditable]")) return;
    const letters = { n: () => open(at + 1), p: () => open(at - 1), r: () => answer(null), l: () => viewer.classList.toggle("kvr-large") };
    const keys = { PageDown: () => open(at + 1), PageUp: () => open(at - 1), Escape: close, ...(presenting ? letters : {}) };
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  opener.setAttribute("aria-expanded", "false");
  return {
    root,
    opener,
    /** @param {number} card from 1 */
    open: (card) => open(card - 1),
    destroy: () => document.removeEventListener("keydown", keyed),
  };
}
