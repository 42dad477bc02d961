// Seven short cards over the page: each goes to a recorded run, points at something, asks what will happen, and then shows it.

import { button, el, put, setText } from "./dom.mjs";
import { rejectedOf } from "./state.mjs";

const LOW = 0.5;
const OPTIONS = [1, 2, 3];
/** Pixels below steps and memory, and the least that is left to them. */
const MARGIN = 24;
const LEAST = 120;

/**
 * @typedef {object} Lesson
 * @property {string} trace a recording
 * @property {(whole: object) => number} step where to go (from 0)
 * @property {string} spot what is pointed at
 * @property {string} shows what stands beside the steps, see the style sheet: problem, memory, charts and which of them
 * @property {number} right which answer (from 1)
 * @property {(whole: object, step: number) => Record<string, any>} values what the card's sentences quote from the run
 * @property {(whole: object, step: number) => number} [then] where to go once the question was answered, there with the other candidates open
 * @property {string} [later] what is pointed at on a phone once the question was answered, if something else
 * @property {(whole: object, step: number) => string} [about] whose sentence of the story is underlined in the memory
 */
const memoryAt = (whole, step) => whole.kvs.find((kv) => kv.step === step) ?? whole.kvs.at(-1);
const nameIn = (text) => /^\w+, (\w+)/.exec(text)?.[1] ?? null;
const saidAt = (whole, step) => whole.steps[step]?.commit?.text.trim() ?? "";
const firstOf = (whole, wanted) => whole.steps.findIndex((step) => step.commit && wanted(step));
const firstBad = (whole) => firstOf(whole, (step) => typeof step.commit.score === "number" && step.commit.score < LOW);
const firstHelper = (whole) => firstOf(whole, (step) => step.commit.source === "helper");
const abortedIn = (step) => [...step.candidates.values()].filter((one) => one.abort).length;
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
function judgedFarApart(whole) {
  const fit = whole.steps.filter((step) => step.commit?.source === "helper" && abortedIn(step));
  return fit.length ? fit.reduce((best, step) => (spread(step) > spread(best) ? step : best)).index : -1;
}

const next = (whole, step) => step + 1;
/** The first step after a bad one that the judge likes again. */
const backFrom = (whole, step) => whole.steps.findIndex((one) => one.index > step && one.commit?.score >= LOW);
const last = (whole) => whole.closing.steps - 1;
/** The sum that the helper got wrong, and how many steps in a row the judge did not like. */
function badSum(whole) {
  const bad = firstBad(whole);
  const after = whole.steps.slice(bad + 1).findIndex((step) => step.commit.score >= LOW);
  return { bad, after: after < 0 ? whole.steps.length - bad - 1 : after };
}

/** @type {Lesson[]} */
export const LESSONS = [
  {
    trace: "lab-full",
    step: () => 2,
    spot: ".kvr-memory",
    shows: "memory",
    right: 2,
    values: (whole, step) => ({ step: step + 1, seen: memoryAt(whole, step).seen, final: whole.kvs.at(-1).seen }),
  },
  {
    trace: "lab-forgets",
    step: (whole) => firstBad(whole) - 1,
    about: (whole, step) => nameIn(saidAt(whole, step + 1)),
    spot: ".kvr-memory",
    shows: "memory",
    right: 3,
    then: next,
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
    about: (whole, step) => nameIn(saidAt(whole, step)),
    then: last,
    spot: ".kvr-steps",
    shows: "problem memory charts reward",
    right: 2,
    values: (whole, step) => ({ bad: step + 1, wrong: saidAt(whole, step), told: toldOf(whole, nameIn(saidAt(whole, step))), steps: whole.closing.steps, last: saidAt(whole, last(whole)) }),
  },
  {
    trace: "lab-helper",
    step: (whole) => firstBad(whole) - 1,
    then: next,
    spot: ".kvr-steps",
    shows: "problem charts reward",
    right: 1,
    values(whole) {
      const { bad, after } = badSum(whole);
      return { step: bad + 1, bad: saidAt(whole, bad), n: after };
    },
  },
  {
    trace: "lab-easy",
    step: (whole) => firstHelper(whole) - 1,
    about: (whole, step) => nameIn(saidAt(whole, step + 1)),
    then: next,
    spot: ".kvr-memory",
    later: ".kvr-steps",
    shows: "memory",
    right: 3,
    values(whole) {
      const { base, helper } = whole.closing.totals;
      return { step: firstHelper(whole) + 1, said: saidAt(whole, firstHelper(whole)), name: nameIn(saidAt(whole, firstHelper(whole))), base: base.steps, helper: helper.steps, answer: whole.closing.answer };
    },
  },
  {
    trace: "lab-rescue",
    step: (whole) => judgedFarApart(whole) - 1,
    then: next,
    spot: ".kvr-steps",
    shows: "problem charts reward entropy",
    right: 2,
    values(whole, step) {
      const judged = whole.steps[step + 1];
      const worst = worstOf(judged);
      return { step: step + 2, best: judged.commit.score.toFixed(2), good: saidAt(whole, step + 1), worst: worst.score.toFixed(2), bad: worst.text.trim(), n: abortedIn(judged) };
    },
  },
  {
    trace: "lab-reco",
    // Before the first step that leads nowhere: what becomes of the memory is what the question is about.
    step: (whole) => firstBad(whole) - 1,
    then: (whole, step) => backFrom(whole, step + 1),
    spot: ".kvr-steps",
    shows: "problem charts reward retention",
    right: 1,
    values(whole, step) {
      const probes = whole.steps.flatMap((step) => step.probes);
      const bad = step + 1;
      const back = backFrom(whole, bad);
      const asked = whole.steps.slice(bad, back).flatMap((one) => (one.retain ? [one.retain.asked] : []));
      const percent = (share) => Math.round(100 * share);
      return {
        step: bad + 1,
        stray: saidAt(whole, bad),
        low: whole.steps[bad].commit.score.toFixed(2),
        usual: percent(whole.header.config.retention_ratio),
        more: percent(Math.max(...asked)),
        back: back + 1,
        found: saidAt(whole, back),
        suppressed: whole.closing.suppressed,
        guess: probes[0].answer,
        first: probes[0].perplexity.toFixed(2),
        limit: probes[0].threshold,
        answer: whole.closing.answer,
        last: probes.at(-1).perplexity.toFixed(2),
      };
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
  const text = el("p", "kvr-lesson-text");
  const question = el("p", "kvr-strong");
  const options = el("div", "kvr-options");
  const reveal = el("p", "kvr-reveal");
  reveal.setAttribute("role", "status");
  const before = button("kvr-button", t("lessons.before"), () => open(at - 1));
  const after = button("kvr-button kvr-primary", t("lessons.after"), () => (at < LESSONS.length ? open(at + 1) : close()));
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
    run.follow();
    stand();
    openOthers();
  });
  const slider = put(el("div", "kvr-replay-row kvr-lesson-slider"), put(el("div", "kvr-rail"), range), standing);
  const foot = put(el("div", "kvr-replay-row kvr-lesson-foot"), before, slider, after, presenter);
  put(root, put(el("div", "kvr-section-head"), place, title, away), text, question, options, reveal, foot);

  let at = 0;
  let presenting = false;
  let values = {};
  let spot = null;
  /** The step (from 0) whose other candidates are open, if any; and where the lesson goes on. */
  let goal = null;
  let onward = null;
  const narrow = matchMedia("(max-width: 1099px)"); // the card lies at the bottom then
  const sized = new ResizeObserver(fit);
  sized.observe(root);
  addEventListener("resize", fit);
  document.addEventListener("keydown", keyed);

  async function open(index) {
    if (index === LESSONS.length) return finish();
    if (!LESSONS[index]) return;
    at = index;
    root.hidden = false;
    viewer.classList.add("kvr-teaching");
    opener.setAttribute("aria-expanded", "true");
    const lesson = LESSONS[at];
    point(null);
    const shown = await show(lesson.trace);
    if (at !== index || root.hidden) return; // another card was opened meanwhile
    if (!shown) return tell("", "", t("lessons.busy"));
    const whole = run.whole();
    const step = lesson.step(whole);
    run.look("text");
    run.goTo(step);
    values = lesson.values(whole, step);
    goal = null;
    onward = lesson.then?.(whole, step) ?? null;
    ask();
    stand();
    run.unfold();
    viewer.dataset.kvrShows = lesson.shows;
    run.point(lesson.about?.(whole, step) ?? null, true);
    point(lesson.spot);
  }

  function ask() {
    const key = (name) => t(`lesson.${at + 1}.${name}`, values);
    tell(key("title"), key("text"), "");
    setText(place, t("lessons.place", { at: at + 1, most: LESSONS.length }));
    setText(question, key("question"));
    options.replaceChildren(...OPTIONS.map((number) => button("kvr-button", key(`option.${number}`), () => answer(number))));
    before.disabled = at === 0;
    setText(after, t(at === LESSONS.length - 1 ? "lessons.end" : "lessons.after"));
    slider.hidden = false;
    title.focus({ preventScroll: true });
  }

  function stand() {
    const { at: now, most } = run.stops();
    range.max = String(most);
    range.value = String(now);
    const words = now ? t("replay.at.step", { step: now, most }) : t("replay.at.problem");
    setText(standing, words);
    range.setAttribute("aria-valuetext", words);
    fit();
  }

  function tell(heading, words, told) {
    for (const [node, said] of [[title, heading], [text, words], [question, ""], [reveal, told]]) setText(node, said);
    options.replaceChildren();
    root.classList.remove("kvr-answered");
  }

  function answer(number) {
    const { right, later } = LESSONS[at];
    [...options.children].forEach((node, i) => {
      node.classList.toggle("kvr-right", i + 1 === right);
      node.setAttribute("aria-pressed", String(i + 1 === number));
    });
    const verdict = number === null ? "" : `${t(number === right ? "lessons.right" : "lessons.wrong")} `;
    setText(reveal, verdict + t(`lesson.${at + 1}.reveal`, values));
    root.classList.add("kvr-answered");
    if (onward !== null) {
      run.goTo(onward);
      stand();
      [goal, onward] = [onward, null];
    }
    if (narrow.matches) point(later ?? LESSONS[at].spot);
    openOthers();
    reveal.scrollIntoView({ block: "nearest" });
  }

  function point(selector) {
    spot?.classList.remove("kvr-spot");
    spot = selector ? run.root.querySelector(selector) : null;
    if (!spot) return;
    spot.classList.add("kvr-spot");
    fit();
    anchor().scrollIntoView({ block: "start" });
  }

  /** What stands at the top of the view: the problem, where the steps need it and nothing beside them shows it. */
  function anchor() {
    const [problem, columns] = [".kvr-problem", ".kvr-columns"].map((part) => run.root.querySelector(part));
    const shows = (part) => viewer.dataset.kvrShows?.split(" ").includes(part);
    if (narrow.matches) return spot.matches(".kvr-steps") && shows("problem") && !root.classList.contains("kvr-answered") ? problem : spot;
    return shows("problem") && !shows("memory") ? problem : columns;
  }

  // Steps and memory end where the view does, or the card on a phone: their size does not depend on the place of the slider.
  function fit() {
    if (!spot || root.hidden) return;
    const room = (narrow.matches ? root.getBoundingClientRect().top : innerHeight) - MARGIN;
    const top = anchor().getBoundingClientRect().top;
    for (const [name, part, column] of [["list", ".kvr-list", null], ["text", ".kvr-memory-text", ".kvr-signals"]]) {
      const box = run.root.querySelector(part).getBoundingClientRect();
      const below = column ? run.root.querySelector(column).getBoundingClientRect().bottom - box.bottom : 0;
      // What is not in view together with the rest is looked at by itself.
      const alone = box.top < top || box.top - top > room;
      const taken = alone ? LEAST : box.top - top + below;
      viewer.style.setProperty(`--kvr-${name}`, `${Math.max(LEAST, Math.floor(room - taken))}px`);
    }
  }

  function openOthers() {
    if (goal !== null && run.stops().at === goal + 1) run.open(goal);
  }

  function present(wanted) {
    presenting = wanted;
    presenter.setAttribute("aria-pressed", String(wanted));
    viewer.classList.toggle("kvr-large", wanted);
  }

  function leave() {
    point(null);
    run.point(null);
    delete viewer.dataset.kvrShows;
  }

  // After the last card: what was learned, and the whole run again.
  function finish() {
    at = LESSONS.length;
    leave();
    tell(t("lessons.done.title"), t("lessons.done"), "");
    setText(place, "");
    setText(after, t("lessons.close"));
    slider.hidden = true;
    viewer.scrollIntoView({ block: "start" });
    title.focus({ preventScroll: true });
  }

  function close() {
    root.hidden = true;
    leave();
    present(false);
    viewer.classList.remove("kvr-teaching");
    opener.setAttribute("aria-expanded", "false");
    viewer.scrollIntoView({ block: "start" });
    opener.focus({ preventScroll: true });
  }

  // Clickers send Page Down and Page Up. Single letters count in presenter mode only, and never while somebody types.
  function keyed(event) {
    if (root.hidden || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input:not([type=range]), textarea, select, [contenteditable]")) return;
    const reveals = () => LESSONS[at] && answer(null);
    const letters = { n: () => open(at + 1), p: () => open(at - 1), r: reveals, l: () => viewer.classList.toggle("kvr-large") };
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
    destroy() {
      sized.disconnect();
      removeEventListener("resize", fit);
      document.removeEventListener("keydown", keyed);
    },
  };
}
