// What the base can still see: prompt and trajectory as text, each token shaded by the share of slots that hold it.

import { el, explained, put, select, setText } from "./dom.mjs";
import { createGrid } from "./grid.mjs";
import { HELD_BY, alwaysKept, forgottenSince, groupsOf, heldBy, levelsOf, memoryAt, shade } from "./recall.mjs";

const EVERYTHING = 4;
const MOST_NUMBERS = 12;
const TURNS = /[\u202a-\u202e\u2066-\u2069]/;

/** @param {{t: import("./i18n.mjs").Translator}} options */
export function createMemory({ t }) {
  const root = el("section", "kvr-memory");
  root.setAttribute("aria-label", t("memory.label"));
  const caption = explained(el("p", "kvr-note"), t("term.head"));
  const lost = el("p", "kvr-lost-list");
  const text = el("div", "kvr-memory-text");
  text.dir = "auto";
  text.tabIndex = 0;
  const grid = createGrid({ t });
  grid.root.hidden = true;
  const look = select(t("memory.look"), ["text", "grid"].map((name) => [name, t(`memory.look.${name}`)]), () => {
    [text.hidden, grid.root.hidden] = [look.value === "grid", look.value !== "grid"];
    layers.disabled = by.disabled = look.value === "grid"; // the grid shows all layers, each by its share
    again();
  });
  const layers = select(t("memory.layers"), [["-1", t("memory.layers.all")]], again);
  const by = select(t("memory.by"), HELD_BY.map((name) => [name, t(`memory.by.${name}`)]), again);
  const choices = put(el("div", "kvr-choices"), look.parentNode, layers.parentNode, by.parentNode);
  const title = el("h3", "", t("memory.title"));
  const legend = memoryLegend(t);
  put(root, title, caption, choices, legend, lost, text, grid.root);

  let tokens = [];
  let numbers = [];
  let counted = -1;
  /** Where each step begins: how many nodes and tokens lie before it. @type {[number, number][]} */
  let begins = [];
  let painted = { kv: undefined, tokens: 0 };
  let last = null;
  let asked = null;
  /** Whether the text is kept scrolled to its newest part; a reader's own scrolling ends that. */
  let following = false;
  for (const act of ["wheel", "touchmove", "pointerdown", "keydown"]) text.addEventListener(act, (event) => event.key !== "Tab" && (following = false), { passive: true });
  new ResizeObserver(keepUp).observe(text);

  // The newest part is in view, and what is underlined too: that is what the reader was told to look at.
  function keepUp() {
    if (!following) return;
    const line = tokens.find((node) => node.hasAttribute("data-kvr-asked"));
    const above = line ? line.getBoundingClientRect().top - text.getBoundingClientRect().top + text.scrollTop - text.clientHeight / 3 : Infinity;
    text.scrollTop = Math.min(text.scrollHeight, above);
  }

  function underline() {
    const said = tokens.map((node) => node.textContent.trim());
    const at = asked === null ? -1 : said.indexOf(asked);
    const from = said.lastIndexOf(".", at) + 1;
    tokens.forEach((node, i) => node.toggleAttribute("data-kvr-asked", at >= 0 && i >= from && i < said.indexOf(".", at)));
  }

  function again() {
    painted = { kv: undefined, tokens: 0 };
    if (last) show(...last);
  }

  function offerLayers(kv) {
    const groups = groupsOf(kv);
    if (!groups || layers.options.length === groups + 1) return;
    while (layers.options.length > 1) layers.lastChild.remove();
    const count = last[0].header?.models?.base?.layers;
    for (let i = 0; i < groups; i++) {
      const option = el("option", "", layersName(i, groups, Number.isInteger(count) ? count : groups, t));
      option.value = String(i);
      put(layers, option);
    }
  }

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
      underline();
      counted = 0;
    }
    for (; counted >= 0 && state.steps[counted]?.commit; counted++) {
      begins[counted] = [text.childNodes.length, tokens.length];
      boundary(counted + 1);
      // The numbered mark tells the steps apart; an empty line between them would only cost room.
      add(state.steps[counted].commit.pieces.map((piece) => piece.replace(/\n{2,}/g, "\n")));
    }
  }

  function paint(kv) {
    const group = Number(layers.value);
    const { first, newest } = alwaysKept(last?.[0].header?.config ?? {});
    const kept = (i) => (i < first ? " kvr-sink" : i >= kv.seen - newest && i < kv.seen ? " kvr-window" : "");
    const levels = kv ? heldBy(levelsOf(kv, group < groupsOf(kv) ? group : -1), by.value) : [];
    tokens.forEach((node, i) => {
      const full = !kv || whole(kv);
      const level = full ? EVERYTHING : i < levels.length ? shade(levels[i]) : -1;
      const name = className(kv ? level : -2, numbers[i]) + (full ? "" : kept(i));
      if (node.className !== name) node.className = name;
      const title = name.includes("kvr-lost-number") ? t("memory.lost") : "";
      if (node.title !== title) node.title = title;
    });
    root.classList.toggle("kvr-unshaded", !levels.length);
    // Only what can be seen here is explained.
    legend.hidden = !kv || whole(kv);
    legend.querySelector(".kvr-sink").hidden = !first;
    legend.querySelector(".kvr-window").hidden = !newest;
  }

  function show(state, at) {
    grow(state);
    setText(title, t(state.header?.config.method === "helper" ? "memory.title.helper" : "memory.title"));
    const kv = memoryAt(state.kvs, at);
    setText(caption, captionOf(kv, state, t));
    if (painted.kv === kv && painted.tokens === tokens.length) return;
    painted = { kv, tokens: tokens.length };
    offerLayers(kv);
    paint(kv);
    grid.update(grid.root.hidden ? null : kv, state);
    setText(lost, lostSentence(kv, state, t));
    keepUp();
  }

  function reset() {
    [tokens, numbers, counted, begins, last] = [[], [], -1, [], null];
    painted = { kv: undefined, tokens: 0 };
    text.replaceChildren();
    setText(lost, "");
  }

  return {
    root,
    reset,
    /** The same run, at an earlier place: what was written behind it goes. */
    back(state) {
      if (!state.prompt.pieces.length) return reset();
      const steps = state.steps.filter((step) => step.commit).length;
      if (counted <= steps) return;
      const [nodes, kept] = begins[steps];
      while (text.childNodes.length > nodes) text.lastChild.remove();
      [tokens.length, numbers.length, begins.length, counted] = [kept, kept, steps, steps];
      painted = { kv: undefined, tokens: 0 };
    },
    /**
     * Underline the prompt's sentence that holds a word, up to its full stop; null takes it away.
     * @param {string|null} word @param {boolean} [newest] keep the newest part in view, until the reader scrolls
     */
    point(word, newest = false) {
      asked = word;
      following = newest;
      underline();
      keepUp();
    },
    /** "text" or "grid"; with a value it is chosen. @param {string} [wanted] */
    look(wanted) {
      if (wanted && wanted !== look.value) {
        look.value = wanted;
        look.dispatchEvent(new Event("change"));
      }
      return look.value;
    },
    /** @param {object} state @param {number|null} at the step whose memory is shown; null for the newest */
    update(state, at) {
      last = [state, at];
      show(state, at);
    },
  };
}

// "layers 5-8 of 28": the groups are neighbours, first ones first, as equal as can be.
function layersName(index, groups, count, t) {
  const [size, more] = [Math.floor(count / groups), count % groups];
  const from = index * size + Math.min(index, more);
  const to = from + size + (index < more ? 1 : 0);
  return to - from > 1 ? t("memory.layers.some", { from: from + 1, to, count }) : t("memory.layers.single", { from: from + 1, count });
}

function className(level, isNumber) {
  if (level === -2) return "kvr-token";
  if (level < 0) return "kvr-token kvr-later";
  return `kvr-token kvr-shade-${level}${level === 0 && isNumber ? " kvr-lost-number" : ""}`;
}

function lostSentence(kv, state, t) {
  if (!kv || kv.resident >= kv.seen) return "";
  const gone = forgottenSince(state.kvs, state.kvs.indexOf(kv), state.prompt.pieces);
  if (!gone.length) return "";
  const said = ([number, step]) => t(step < 0 ? "memory.number.prompt" : "memory.number", { number, step: step + 1 });
  const listed = gone.slice(0, MOST_NUMBERS).map(said).join(", ");
  return `${t("memory.numbers")}${listed}${gone.length > MOST_NUMBERS ? ", …" : ""}`;
}

/** Nothing was ever evicted. */
const whole = (kv) => kv.budget === null && kv.resident >= kv.seen;

function captionOf(kv, state, t) {
  if (!state.header) return t("memory.none");
  if (!kv) return t(state.header.config.method === "helper" ? "memory.nobase" : "memory.reading");
  if (whole(kv)) return t("memory.full", { seen: kv.seen });
  const values = { step: kv.step + 1, resident: kv.resident, seen: kv.seen, share: t.percent(kv.retention), budget: kv.budget };
  if (kv.budget === null) return t("memory.share", values);
  return t(kv.step < 0 ? "memory.prompt" : "memory.step", values);
}

/** What the shades mean: each word is shaded as what it stands for. */
export function memoryLegend(t) {
  const node = el("div", "kvr-legend kvr-ramp");
  const item = (className, name) => explained(el("span", `kvr-token ${className}`, t(`memory.legend.${name}`)), t(`term.${name}`));
  for (const level of [0, 1, 2, 3, 4]) put(node, el("span", `kvr-token kvr-shade-${level}`, t(`memory.legend.${level}`)));
  return put(node, el("span", "kvr-token kvr-shade-0 kvr-lost-number", t("memory.legend.lost")), item("kvr-sink", "sink"), item("kvr-window", "window"));
}
