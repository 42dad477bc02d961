// What the base can still see: prompt and trajectory as text, each token shaded by the share of slots that hold it.

import { el, put, setText } from "./dom.mjs";
import { count, percent } from "./format.mjs";
import { levelsOf } from "./series.mjs";

const LEGEND = [
  ["0", "forgotten"],
  ["1", "a few heads"],
  ["2", "half"],
  ["3", "most"],
  ["4", "everywhere"],
];

/** Five visible classes of the sixteen levels; only 0 is "forgotten" and only 15 is "everywhere". */
export const shade = (level) => (level === 0 ? 0 : level < 6 ? 1 : level < 11 ? 2 : level < 15 ? 3 : 4);

export function createMemory() {
  const root = el("section", "kvr-memory");
  root.setAttribute("aria-label", "Memory of the base model");
  const caption = el("p", "kvr-note");
  const legend = el("div", "kvr-legend");
  for (const [level, text] of LEGEND) put(legend, put(el("span", "kvr-legend-item"), el("span", `kvr-token kvr-shade-${level}`, "abc"), el("span", "", text)));
  put(legend, put(el("span", "kvr-legend-item"), el("span", "kvr-token kvr-shade-0 kvr-lost-number", "42"), el("span", "", "forgotten number")));
  const text = el("div", "kvr-memory-text");
  text.dir = "auto";
  put(root, el("h3", "", "Memory of the base"), caption, legend, text);

  let tokens = [];
  let pieces = [];
  let counted = -1;

  function addPieces(list, step) {
    if (step > 0 || (step === 0 && pieces.length)) put(text, el("span", "kvr-boundary", `${step + 1}`));
    const made = list.map((piece) => {
      const node = el("span", "kvr-token", piece);
      if (/\d/.test(piece)) node.dataset.number = "";
      return node;
    });
    text.append(...made);
    tokens.push(...made);
    pieces.push(...list);
  }

  return {
    root,
    reset() {
      tokens = [];
      pieces = [];
      counted = -1;
      text.replaceChildren();
      setText(caption, "");
    },
    /** @param {number|null} at the step whose memory is shown; null for the newest */
    update(state, at) {
      if (counted < 0 && state.prompt.pieces.length) {
        addPieces(state.prompt.pieces, -1);
        counted = 0;
      }
      while (counted >= 0 && counted < state.steps.length && state.steps[counted].commit) addPieces(state.steps[counted].commit.pieces, counted++);
      const kv = pick(state.kvs, at);
      setText(caption, captionOf(kv, state));
      paint(tokens, kv);
    },
  };
}

const pick = (kvs, at) => (at === null ? kvs[kvs.length - 1] : (kvs.find((kv) => kv.step === at) ?? kvs[kvs.length - 1]));

function captionOf(kv, state) {
  if (!kv) return state.header ? "The problem is being read." : "Run something to see what the base remembers.";
  if (kv.budget === null) return "Nothing is evicted: everything is remembered.";
  const when = kv.step < 0 ? "after the problem" : `after step ${kv.step + 1}`;
  const each = `each layer and head holds ${count(kv.resident)} of ${count(kv.seen)} tokens (${percent(kv.retention)})`;
  return `Memory ${when}: ${each}; budget ${count(kv.budget)}.`;
}

function paint(tokens, kv) {
  const levels = kv ? levelsOf(kv) : [];
  tokens.forEach((node, i) => {
    const level = kv ? (i < levels.length ? shade(levels[i]) : -1) : 4;
    if (node.kvrShade === level) return;
    node.kvrShade = level;
    const lost = level === 0 && "number" in node.dataset;
    node.className = `kvr-token ${level < 0 ? "kvr-later" : `kvr-shade-${level}`}${lost ? " kvr-lost-number" : ""}`;
    if (lost) node.title = "a forgotten number";
    else node.removeAttribute("title");
  });
}
