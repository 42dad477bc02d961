// What the base can still see: prompt and trajectory as text, each token shaded by the share of slots that hold it.

import { el, put, setText } from "./dom.mjs";
import { forgottenNumbers, levelsOf, memoryAt, shade } from "./recall.mjs";

const EVERYTHING = 4;
const MOST_NUMBERS = 12;
const TURNS = /[\u202a-\u202e\u2066-\u2069]/;

/** @param {{t: import("./i18n.mjs").Translator}} options */
export function createMemory({ t }) {
  const root = el("section", "kvr-memory");
  root.setAttribute("aria-label", t("memory.label"));
  const caption = el("p", "kvr-note");
  const lost = el("p", "kvr-lost-list");
  const text = el("div", "kvr-memory-text");
  text.dir = "auto";
  text.tabIndex = 0;
  put(root, el("h3", "", t("memory.title")), caption, legend(t), lost, text);

  let tokens = [];
  let numbers = [];
  let counted = -1;
  let painted = { kv: undefined, tokens: 0 };

  function add(pieces) {
    const made = pieces.map((piece) => {
      const node = el("span", "kvr-token", piece);
      // A token that turns the direction of what follows must not turn its neighbours.
      if (TURNS.test(piece)) node.dir = "auto";
      return node;
    });
    pieces.forEach((piece) => numbers.push(/\p{Nd}/u.test(piece)));
    text.append(...made);
    tokens.push(...made);
  }

  function boundary(step) {
    const mark = el("span", "kvr-boundary", String(step));
    mark.setAttribute("aria-label", t("memory.step.mark", { step }));
    mark.setAttribute("role", "note");
    text.append(mark);
  }

  function grow(state) {
    if (counted < 0 && state.prompt.pieces.length) {
      add(state.prompt.pieces);
      counted = 0;
    }
    for (; counted >= 0 && state.steps[counted]?.commit; counted++) {
      boundary(counted + 1);
      add(state.steps[counted].commit.pieces);
    }
  }

  function paint(kv) {
    const levels = kv ? levelsOf(kv) : [];
    tokens.forEach((node, i) => {
      const full = !kv || kv.budget === null;
      const level = full ? EVERYTHING : i < levels.length ? shade(levels[i]) : -1;
      const name = className(kv ? level : -2, numbers[i]);
      if (node.className !== name) node.className = name;
      const title = name.endsWith("kvr-lost-number") ? t("memory.lost") : "";
      if (node.title !== title) node.title = title;
    });
    root.classList.toggle("kvr-unshaded", !levels.length);
  }

  return {
    root,
    reset() {
      [tokens, numbers, counted] = [[], [], -1];
      painted = { kv: undefined, tokens: 0 };
      text.replaceChildren();
      setText(lost, "");
    },
    /** @param {object} state @param {number|null} at the step whose memory is shown; null for the newest */
    update(state, at) {
      grow(state);
      const kv = memoryAt(state.kvs, at);
      setText(caption, captionOf(kv, state, t));
      if (painted.kv === kv && painted.tokens === tokens.length) return;
      painted = { kv, tokens: tokens.length };
      paint(kv);
      setText(lost, lostSentence(kv, state.prompt.pieces, t));
    },
  };
}

function className(level, isNumber) {
  if (level === -2) return "kvr-token";
  if (level < 0) return "kvr-token kvr-later";
  return `kvr-token kvr-shade-${level}${level === 0 && isNumber ? " kvr-lost-number" : ""}`;
}

function lostSentence(kv, pieces, t) {
  if (!kv || kv.resident >= kv.seen) return "";
  const gone = forgottenNumbers(pieces, levelsOf(kv));
  if (!gone.length) return "";
  const listed = gone.slice(0, MOST_NUMBERS).join(", ");
  return `${t("memory.numbers")}${listed}${gone.length > MOST_NUMBERS ? ", …" : ""}`;
}

function captionOf(kv, state, t) {
  if (!state.header) return t("memory.none");
  if (!kv) return t(state.header.config.method === "helper" ? "memory.nobase" : "memory.reading");
  if (kv.budget === null && kv.resident >= kv.seen) return t("memory.full");
  const values = { step: kv.step + 1, resident: kv.resident, seen: kv.seen, share: t.percent(kv.retention), budget: kv.budget };
  if (kv.budget === null) return t("memory.share", values);
  return t(kv.step < 0 ? "memory.prompt" : "memory.step", values);
}

function legend(t) {
  const node = el("div", "kvr-legend kvr-ramp");
  const item = (className, sample, text) => put(el("span", "kvr-legend-item"), el("span", `kvr-token ${className}`, sample), el("span", "", text));
  for (const level of [0, 1, 2, 3, 4]) put(node, item(`kvr-shade-${level}`, "abc", t(`memory.legend.${level}`)));
  return put(node, item("kvr-shade-0 kvr-lost-number", "42", t("memory.legend.lost")));
}
