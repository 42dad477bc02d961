// What the base can still see: prompt and trajectory as text, each token shaded by the share of slots that hold it.

import { el, explained, put, select, setText } from "./dom.mjs";
import { createGrid, layersName, layersOf } from "./grid.mjs";
import { HELD_BY, alwaysKept, forgottenSince, groupsOf, heldBy, levelsIn, memoryAt, shade } from "./recall.mjs";

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
  const title = el("h2", "", t("memory.title"));
  const legend = memoryLegend(t);
  put(root, title, caption, choices, legend, lost, text, grid.root);

  /** What is shown, the prompt and then each step, and its tokens. @type {Part[]} */
  let parts = [];
  let tokens = [];
  /** Every part by what it shows (the prompt, a commit), made once: the slider takes parts out of the page and puts them back. @type {Map<object, Part>} */
  let made = new Map();
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
    const line = tokens.find(({ node }) => node.hasAttribute("data-kvr-asked"))?.node;
    const above = line ? line.getBoundingClientRect().top - text.getBoundingClientRect().top + text.scrollTop - text.clientHeight / 3 : Infinity;
    text.scrollTop = Math.min(text.scrollHeight, above);
  }

  function underline() {
    const said = tokens.map(({ node }) => node.textContent.trim());
    const at = asked === null ? -1 : said.indexOf(asked);
    const from = said.lastIndexOf(".", at) + 1;
    tokens.forEach(({ node }, i) => node.toggleAttribute("data-kvr-asked", at >= 0 && i >= from && i < said.indexOf(".", at)));
  }

  function again() {
    painted = { kv: undefined, tokens: 0 };
    if (last) show(...last);
  }

  function offerLayers(kv) {
    const groups = groupsOf(kv);
    if (!groups || layers.options.length === groups + 1) return;
    while (layers.options.length > 1) layers.lastChild.remove();
    for (let i = 0; i < groups; i++) {
      const { from, to, count } = layersOf(i, groups, last[0]);
      const option = el("option", "", t(to > from ? "memory.layers.some" : "memory.layers.single", { from, to, count }));
      option.value = String(i);
      put(layers, option);
    }
  }

  function partOf(said, index) {
    if (!made.has(said)) made.set(said, newPart(said.pieces, index, t));
    return made.get(said);
  }

  function grow(state) {
    const open = state.steps.findIndex((step) => !step.commit);
    const commits = (open < 0 ? state.steps : state.steps.slice(0, open)).map((step) => step.commit);
    const wanted = state.prompt.pieces.length ? [state.prompt, ...commits].map(partOf) : [];
    let same = 0;
    while (same < parts.length && parts[same] === wanted[same]) same++;
    if (same === parts.length && same === wanted.length) return;
    for (const part of parts.slice(same)) part.node.remove();
    text.append(...wanted.slice(same).map((part) => part.node));
    parts = wanted;
    tokens = parts.flatMap((part) => part.tokens);
    if (!same) underline();
  }

  function paint(kv) {
    const group = Number(layers.value);
    const { first, newest } = alwaysKept(last?.[0].header?.config ?? {});
    const kept = (i) => (i < first ? " kvr-sink" : i >= kv.seen - newest && i < kv.seen ? " kvr-window" : "");
    const levels = kv ? heldBy(levelsIn(kv, group), by.value) : [];
    const full = !kv || whole(kv);
    tokens.forEach((token, i) => {
      const level = full ? EVERYTHING : i < levels.length ? shade(levels[i]) : -1;
      const look = className(kv ? level : -2, token.number) + (full ? "" : kept(i));
      if (token.look === look) return;
      token.look = token.node.className = look;
      token.node.title = look.includes("kvr-lost-number") ? t("memory.lost") : "";
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
    // The grid shows all layers, each by its share.
    setText(lost, lostSentence(kv, state, grid.root.hidden ? { group: Number(layers.value), by: by.value } : { group: -1, by: "share" }, t));
    keepUp();
  }

  function reset() {
    [parts, tokens, made, last] = [[], [], new Map(), null];
    painted = { kv: undefined, tokens: 0 };
    text.replaceChildren();
    setText(lost, "");
  }

  return {
    root,
    reset,
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

/** @typedef {{node: HTMLElement, tokens: {node: HTMLElement, number: boolean, look: string}[]}} Part `number`: it has a digit; `look`: its class as it is */

/** @param {string[]} pieces @param {number} step from 1; 0 for the prompt @returns {Part} */
function newPart(pieces, step, t) {
  const tokens = pieces.map((piece) => {
    // The numbered mark tells the steps apart; an empty line between them would only cost room.
    const node = el("span", "kvr-token", step ? piece.replace(/\n{2,}/g, "\n") : piece);
    // A token that turns the direction of what follows must not turn its neighbours.
    if (TURNS.test(piece)) node.dir = "auto";
    return { node, number: /\p{Nd}/u.test(piece), look: "kvr-token" };
  });
  const mark = step ? el("span", "kvr-boundary", String(step)) : null;
  mark?.setAttribute("aria-label", t("memory.step.mark", { step }));
  mark?.setAttribute("role", "note");
  return { node: put(el("div", "kvr-part"), mark, ...tokens.map(({ node }) => node)), tokens };
}

function className(level, isNumber) {
  if (level === -2) return "kvr-token";
  if (level < 0) return "kvr-token kvr-later";
  return `kvr-token kvr-shade-${level}${level === 0 && isNumber ? " kvr-lost-number" : ""}`;
}

function lostSentence(kv, state, held, t) {
  if (!kv || kv.resident >= kv.seen) return "";
  const gone = forgottenSince(state.kvs, state.kvs.indexOf(kv), state.prompt.pieces, held);
  if (!gone.length) return "";
  const said = ([number, step]) => t(step < 0 ? "memory.number.prompt" : "memory.number", { number, step: step + 1 });
  const listed = gone.slice(0, MOST_NUMBERS).map(said).join(", ");
  const by = held.by === "share" ? "any" : held.by;
  const some = held.group >= 0 && groupsOf(kv) > held.group;
  const begin = some ? t(`memory.numbers.${by}.some`, { layers: layersName(held.group, groupsOf(kv), state, t) }) : t(`memory.numbers.${by}`);
  return `${begin}${listed}${gone.length > MOST_NUMBERS ? ", …" : ""}`;
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
