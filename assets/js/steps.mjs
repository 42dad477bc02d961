// The trajectory as cards: one committed step each, with the candidates that lost and why.

import { el, expander, put, setText } from "./dom.mjs";
import { SOURCES, count, fixed, label, plural } from "./format.mjs";
import { rejectedOf, trippedRange, whyNot, winnerOf } from "./state.mjs";

const CUT = 600;
const MOST_CARDS = 200;

/** A source as glyph and word. */
export function badge(source, cand) {
  const { mark, name, letter } = SOURCES[source];
  const node = el("span", `kvr-badge kvr-${source}`);
  put(node, el("span", "kvr-mark", mark), el("span", "", cand === undefined ? name : `${letter}${cand + 1} ${name}`));
  node.firstChild.setAttribute("aria-hidden", "true");
  return node;
}

/** @param {{onSelect: (step: number) => void, onHover: (step: number|null) => void}} options */
export function createSteps(options) {
  const root = el("section", "kvr-steps");
  root.setAttribute("aria-label", "Reasoning steps");
  const list = el("ol", "kvr-list");
  list.tabIndex = 0;
  const pill = el("button", "kvr-pill", "new steps below");
  pill.type = "button";
  pill.hidden = true;
  const hidden = el("p", "kvr-note");
  hidden.hidden = true;
  put(root, el("h3", "", "Steps"), hidden, list, pill);
  const cards = [];
  let following = true;
  list.addEventListener("scroll", () => {
    following = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    if (following) pill.hidden = true;
  });
  pill.addEventListener("click", () => {
    following = true;
    pill.hidden = true;
    list.scrollTop = list.scrollHeight;
  });

  function add(state, index) {
    const step = state.steps[index];
    const card = stepCard(step, state, options);
    cards.push(card);
    put(list, card);
    while (list.childElementCount > MOST_CARDS) list.firstElementChild.remove();
    hidden.hidden = cards.length <= MOST_CARDS;
    if (!hidden.hidden) setText(hidden, `The first ${count(cards.length - MOST_CARDS)} steps are not listed; they stay in the charts and the trace.`);
  }

  return {
    root,
    reset() {
      cards.length = 0;
      list.replaceChildren();
      pill.hidden = true;
      following = true;
    },
    update(state) {
      let added = false;
      while (cards.length < state.steps.length && state.steps[cards.length].commit) {
        add(state, cards.length);
        added = true;
      }
      if (!added) return;
      if (following) list.scrollTop = list.scrollHeight;
      else pill.hidden = false;
    },
    mark(selected, hovered) {
      cards.forEach((card, i) => {
        card.classList.toggle("kvr-selected", i === selected);
        card.classList.toggle("kvr-hovered", i === hovered);
        if (i === selected) card.setAttribute("aria-current", "step");
        else card.removeAttribute("aria-current");
      });
    },
    show(step) {
      const card = cards[step];
      if (!card?.isConnected) return;
      following = false;
      list.scrollTop = card.offsetTop - list.offsetTop - 8;
    },
  };
}

function stepCard(step, state, options) {
  const { commit } = step;
  const winner = winnerOf(step);
  const item = el("li");
  const card = el("article", `kvr-card kvr-from-${commit.source}`);
  const score = typeof commit.score === "number" ? `reward ${fixed(commit.score)}` : "not judged";
  card.setAttribute("aria-label", `Step ${step.index + 1}, ${SOURCES[commit.source].name}, ${score}, committed`);
  const head = el("div", "kvr-card-head");
  const title = el("button", "kvr-step-title", `Step ${step.index + 1}`);
  title.type = "button";
  title.title = "show this step in the charts and the memory";
  title.addEventListener("click", () => options.onSelect(step.index));
  put(head, title, badge(commit.source, commit.cand), rewardBar(commit.score, step.scorer), el("span", "kvr-muted", plural(commit.tokens, "token")));
  if (winner?.flags.length) put(head, flagNote(winner));
  const text = el("p", "kvr-text", commit.text.trimEnd());
  text.dir = "auto";
  put(card, head, text, rejectedPart(step, state));
  item.addEventListener("pointerenter", () => options.onHover(step.index));
  item.addEventListener("pointerleave", () => options.onHover(null));
  return put(item, card);
}

function rewardBar(score, scorer) {
  if (typeof score !== "number") return el("span", "kvr-muted", "not judged");
  const node = el("span", "kvr-reward");
  node.title = `judged by: ${scorer}`;
  const bar = el("span", "kvr-bar");
  bar.style.setProperty("--share", String(Math.max(0, Math.min(1, score))));
  return put(node, el("span", "", `reward ${fixed(score)}`), bar);
}

function flagNote(candidate) {
  const node = el("span", "kvr-flag", "⚑ flagged");
  node.title = candidate.flags.map((flag) => `${flag.guard} ${flag.value.toFixed(2)} at token ${flag.position}, threshold ${flag.threshold}`).join("; ");
  return node;
}

function rejectedPart(step, state) {
  const rejected = rejectedOf(step);
  if (!rejected.length) return null;
  const aborted = rejected.filter((candidate) => candidate.abort).length;
  const words = `${plural(rejected.length, "other candidate")}${aborted ? `, ${aborted} aborted` : ""}`;
  const button = el("button", "kvr-expand", `+ ${words}`);
  button.type = "button";
  const panel = el("div", "kvr-rejected");
  expander(button, panel, () => {
    if (!panel.childElementCount) put(panel, ...rejected.map((candidate) => rejectedCard(candidate, state)));
  });
  return put(el("div", "kvr-others"), button, panel);
}

function rejectedCard(candidate, state) {
  const node = el("div", `kvr-candidate ${candidate.abort ? "kvr-aborted" : ""}`);
  const head = el("div", "kvr-card-head");
  const reason = el("span", "kvr-reason", `${candidate.abort ? "✕ " : ""}${whyNot(candidate, label)}`);
  const score = typeof candidate.score === "number" ? el("span", "", `reward ${fixed(candidate.score)}`) : null;
  put(head, badge(candidate.source, candidate.cand), score, reason, el("span", "kvr-muted", `${plural(candidate.tokens, "token")} unused`));
  if (candidate.flags.length) put(head, flagNote(candidate));
  return put(node, head, candidateText(candidate, state.header.config));
}

function candidateText(candidate, config) {
  const text = el("p", "kvr-text kvr-text-small");
  text.dir = "auto";
  const verdict = candidate.abort ?? candidate.flags[0];
  const [from, to] = verdict ? trippedRange(candidate, verdict, config) : [0, 0];
  const draw = (limit) => {
    const shown = candidate.text.trimEnd().slice(0, limit);
    text.replaceChildren(shown.slice(0, from), verdict ? tripped(shown.slice(from, to), verdict) : "", shown.slice(to));
  };
  draw(CUT);
  if (candidate.text.length <= CUT) return text;
  const more = el("button", "kvr-expand", `show all ${count(candidate.text.length)} characters`);
  more.type = "button";
  more.addEventListener("click", () => {
    draw(Infinity);
    more.remove();
  });
  return put(el("div"), text, more);
}

function tripped(text, verdict) {
  const node = el("span", `kvr-tripped kvr-tripped-${verdict.guard}`, text);
  node.title = verdict.guard === "entropy" ? "the model lost its thread here: average entropy too high" : "the text repeats itself here: it compresses too well";
  return node;
}
