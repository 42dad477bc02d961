// The trajectory as cards: one committed step each, with the candidates that lost and why.

import { badge } from "./badge.mjs";
import { candidateCard, flagNote, longText } from "./candidate.mjs";
import { button, el, expander, explained, glyph, put, setText } from "./dom.mjs";
import { rejectedOf, winnerOf } from "./state.mjs";

const MOST_CARDS = 200;
const PAGE = 100;
const CUT = 6000;
const NEAR_END = 40;
/** Steps that ReCo may still add a decision to. */
const TAIL = 3;

/**
 * @param {{onSelect: (step: number) => void, onHover: (step: number|null) => void, onJump: (step: number, guard: string) => void,
 *   t: import("./i18n.mjs").Translator}} options
 */
export function createSteps(options) {
  const { t } = options;
  const root = el("section", "kvr-steps");
  root.setAttribute("aria-label", t("steps.label"));
  const list = el("ol", "kvr-list");
  list.tabIndex = 0;
  list.setAttribute("aria-label", t("steps.label"));
  list.dataset.empty = t("steps.none");
  const earlier = button("kvr-link", "", () => slide(-PAGE));
  const later = button("kvr-link", "", () => slide(PAGE));
  const pill = button("kvr-pill", t("steps.new"), follow);
  pill.hidden = true;
  put(root, el("h2", "", t("steps.title")), earlier, put(el("div", "kvr-scroller"), list, pill), later);

  /** Cards of the steps that are shown, in order. @type {HTMLElement[]} */
  let cards = [];
  /** Every card by its commit, made once: what a reader opened stays open, also behind the place that is shown. @type {Map<object, HTMLElement>} */
  let made = new Map();
  let [first, last] = [0, 0];
  let following = true;
  /** The cards that are marked. @type {{selected: HTMLElement|null, hovered: HTMLElement|null}} */
  let marked = { selected: null, hovered: null };
  let answered = { answer: null, node: null };
  /** Where the list is about to be scrolled: to a card, to its end (null), or nowhere. @type {HTMLElement|null|undefined} */
  let target;
  tidy();

  list.addEventListener("scroll", () => {
    if (target !== undefined) return;
    following = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END;
    if (following && last === cards.length) pill.hidden = true;
  });

  function follow() {
    show(Math.max(0, cards.length - MOST_CARDS), cards.length);
    following = true;
    pill.hidden = true;
    scrollTo(null);
  }

  // Only once before the page is drawn: any earlier, everything would be laid out for it twice.
  function scrollTo(card) {
    if (target === undefined)
      requestAnimationFrame(() => {
        list.scrollTop = target ? offset(target) : list.scrollHeight;
        target = undefined;
      });
    target = card;
  }

  // Only a window of the list is in the page; the rest stays in `cards`. What stays in the window is not touched.
  function show(from, to) {
    const wanted = cards.slice(from, to);
    const kept = new Set(wanted);
    for (const card of [...list.children]) if (!kept.has(card)) card.remove();
    let next = list.firstChild;
    for (const card of wanted) {
      if (card === next) next = card.nextSibling;
      else list.insertBefore(card, next);
    }
    [first, last] = [from, to];
    tidy();
  }

  function slide(by) {
    const anchor = cards[by < 0 ? first : last - 1];
    const from = Math.max(0, Math.min(cards.length - MOST_CARDS, first + by));
    show(from, Math.min(cards.length, from + MOST_CARDS));
    following = false;
    scrollTo(anchor);
  }

  function tidy() {
    earlier.hidden = first === 0;
    later.hidden = last === cards.length;
    if (first) setText(earlier, t("steps.earlier", { n: Math.min(PAGE, first) }));
    if (!later.hidden) setText(later, t("steps.later", { n: Math.min(PAGE, cards.length - last) }));
  }

  const offset = (card) => list.scrollTop + card.getBoundingClientRect().top - list.getBoundingClientRect().top - 4;

  function cardOf(step, state) {
    if (!made.has(step.commit)) made.set(step.commit, stepCard(step, state, options));
    return made.get(step.commit);
  }

  function fit(state) {
    const before = cards.length;
    const open = state.steps.findIndex((step) => !step.commit);
    cards = (open < 0 ? state.steps : state.steps.slice(0, open)).map((step) => cardOf(step, state));
    for (const step of state.steps.slice(Math.max(0, Math.min(before, cards.length) - TAIL), cards.length)) noteControl(cards[step.index], step, t);
    if (cards.length === before) return;
    if (following || cards.length < before) follow();
    else {
      // A reader is elsewhere: add below, take nothing away above, unless the window is full.
      if (last === before) show(first, Math.min(cards.length, Math.max(last, first + MOST_CARDS)));
      tidy();
      pill.hidden = false;
    }
  }

  function noteAnswer(answer) {
    if (answered.answer === answer) return;
    answered.node?.remove();
    const card = answer && cards[answer.step];
    answered = { answer: card ? answer : null, node: card ? put(el("span", "kvr-answer-mark"), t("steps.answer"), el("bdi", "", answer.text)) : null };
    if (card) put(card.querySelector(".kvr-card-head"), answered.node);
  }

  return {
    root,
    reset() {
      cards = [];
      made = new Map();
      [first, last] = [0, 0];
      list.replaceChildren();
      pill.hidden = true;
      following = true;
      answered = { answer: null, node: null };
      marked = { selected: null, hovered: null };
      tidy();
    },
    update(state) {
      fit(state);
      noteAnswer(state.answer);
    },
    mark(selected, hovered) {
      for (const [name, step] of Object.entries({ selected, hovered })) {
        const card = cards[step] ?? null;
        if (marked[name] === card) continue;
        marked[name]?.classList.remove(`kvr-${name}`);
        card?.classList.add(`kvr-${name}`);
        if (name === "selected") {
          marked.selected?.removeAttribute("aria-current");
          card?.setAttribute("aria-current", "step");
        }
        marked[name] = card;
      }
    },
    /** Go to the newest step, and stay with it. */
    follow,
    /** Show what was not chosen in a step, from its head on; nothing is selected by that. */
    open(step) {
      const opener = cards[step]?.querySelector(".kvr-expand");
      if (opener?.getAttribute("aria-expanded") === "false") opener.click();
      if (cards[step]) scrollTo(cards[step]);
    },
    /** Write a few words on a card's head, once. */
    tag(step, words) {
      const head = cards[step]?.querySelector(".kvr-card-head");
      if (head && !head.querySelector(".kvr-tag")) put(head, el("span", "kvr-tag", words));
    },
    /** Scroll a card into view, inside the list only: the page stays where it is. */
    show(step) {
      if (!cards[step]) return;
      if (step < first || step >= last) {
        const from = Math.max(0, Math.min(cards.length - MOST_CARDS, step - PAGE));
        show(from, Math.min(cards.length, from + MOST_CARDS));
      }
      following = false;
      scrollTo(cards[step]);
    },
  };
}

function stepCard(step, state, options) {
  const { t, onSelect, onHover } = options;
  const { commit } = step;
  const item = el("li");
  const card = el("article", `kvr-card kvr-from-${commit.source}`);
  const head = el("div", "kvr-card-head");
  put(head, heading(step, t, onSelect), badge(commit.source, t, commit.cand), reward(commit.score, step.scorer ?? state.header?.scorer, t));
  put(head, el("span", "kvr-muted kvr-count", t("tokens", { n: commit.tokens })));
  if (step.penalty) put(head, explained(el("span", "kvr-muted", t("reco.penalty", { penalty: step.penalty })), t("term.reflection")));
  put(card, head, ...(winnerOf(step)?.flags ?? []).map((flag) => flagNote(flag, t)));
  put(card, suppressedText(step, t) ?? longText(commit.text.trimEnd(), t, { most: CUT, className: "kvr-text" }), others(step, state, options));
  put(item, card);
  noteControl(item, step, t);
  item.addEventListener("pointerenter", (event) => event.pointerType !== "touch" && onHover(step.index));
  item.addEventListener("pointerleave", () => onHover(null));
  return item;
}

// The step's text with a mark on every token that the penalty changed; null when there is none, or tokens and text do not match.
function suppressedText(step, t) {
  const { pieces, text, tokens } = step.commit;
  const marks = new Map((winnerOf(step)?.suppressed ?? []).map(([at, before]) => [at - 1, before]));
  if (!marks.size || pieces.length !== tokens || text.length > CUT) return null;
  const node = el("p", "kvr-text");
  node.dir = "auto";
  const last = pieces.findLastIndex((piece) => piece.trim());
  pieces.slice(0, last + 1).forEach((piece, index) => {
    const words = marks.has(index) ? t("reco.suppressed", { before: JSON.stringify(marks.get(index)) }) : "";
    put(node, el(words ? "mark" : "span", words ? "kvr-suppressed" : "", index === last ? piece.trimEnd() : piece));
    if (words) put(node, el("small", "kvr-muted", ` (${words})`));
  });
  return node;
}

// What ReCo decided after the step: it comes after the card was made.
function noteControl(item, step, t) {
  const wanted = controlNotes(step, t);
  let box = item.querySelector(".kvr-control");
  if ((box?.childElementCount ?? 0) === wanted.length) return;
  if (!wanted.length) return box.remove();
  if (!box) {
    box = el("div", "kvr-control");
    put(item.querySelector("article") ?? item, box);
  }
  box.replaceChildren(...wanted.map(([words, className, about]) => explained(put(el("p", `kvr-note ${className}`), el("bdi", "", words)), t(about))));
}

function controlNotes({ probes, retain }, t) {
  const notes = probes.map(({ answer, perplexity, threshold, accepted }) => {
    const kind = accepted ? "yes" : answer === null || perplexity === null ? "none" : "no";
    return [t(`reco.probe.${kind}`, { answer, value: t.fixed(perplexity ?? 0, 3), threshold }), accepted ? "kvr-probe kvr-strong" : "kvr-probe", "term.probe"];
  });
  if (retain) {
    const { asked, length, before, after, reason } = retain;
    const why = ["reward", "flat", "uniform"].includes(reason) ? t(`reco.reason.${reason}`) : String(reason);
    notes.push([t("reco.keep", { asked: t.percent(asked), length, before, after, reason: why }), "", "term.asked"]);
  }
  return notes;
}

// The heading says everything in words; what the eye sees beside it is the same as badge and bar.
function heading(step, t, onSelect) {
  const { source, score } = step.commit;
  const open = button("kvr-step-title", t("steps.name", { step: step.index + 1 }), () => onSelect(step.index));
  open.title = t("steps.show");
  const spoken = typeof score === "number" ? t("steps.reward", { score: t.fixed(score) }) : t("steps.unjudged");
  return put(el("h3", "kvr-step-head"), open, el("span", "kvr-sr", t("steps.heading", { source: t(`source.${source}`), score: spoken })));
}

function reward(score, scorer, t) {
  if (typeof score !== "number") return el("span", "kvr-muted", t("steps.unjudged"));
  const node = el("span", "kvr-reward");
  node.title = t("steps.judge", { scorer });
  const bar = glyph("", "kvr-bar");
  bar.style.setProperty("--share", String(Math.max(0, Math.min(1, score))));
  return put(node, el("span", "", t("steps.reward", { score: t.fixed(score) })), bar);
}

function others(step, state, { t, onJump }) {
  const rejected = rejectedOf(step);
  if (!rejected.length) return null;
  const aborted = rejected.filter((candidate) => candidate.abort).length;
  const words = t("steps.others", { n: rejected.length }) + (aborted ? t("steps.aborted", { n: aborted }) : "");
  const opener = button("kvr-expand", words);
  const panel = el("div", "kvr-rejected");
  const context = { winner: winnerOf(step), config: state.header?.config ?? {}, t, onJump: (guard) => onJump(step.index, guard) };
  expander(opener, panel, () => {
    if (!panel.childElementCount) put(panel, ...rejected.map((candidate) => candidateCard(candidate, context)));
  });
  return put(el("div", "kvr-others"), opener, panel);
}
