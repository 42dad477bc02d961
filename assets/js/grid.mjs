// The memory as a picture: positions from left to right, layers from top to bottom, a cell as strong as the share of heads that hold it.

import { el, put, setText } from "./dom.mjs";
import { FULL, alwaysKept, droppedSince, gridOf, groupsOf, levelsIn } from "./recall.mjs";

const ROW = 22;
const GAP = 2;
const MARKS = 14;

/** @param {{t: import("./i18n.mjs").Translator}} options */
export function createGrid({ t }) {
  const root = el("div", "kvr-grid");
  const labels = el("div", "kvr-grid-rows");
  labels.setAttribute("aria-hidden", "true"); // the cell's sentence names its layers
  const field = el("div", "kvr-grid-field");
  const canvas = el("canvas", "kvr-grid-canvas");
  canvas.setAttribute("role", "img");
  canvas.tabIndex = 0;
  const cursor = el("div", "kvr-grid-cursor");
  const cell = el("p", "kvr-grid-cell");
  cell.setAttribute("role", "status");
  const note = el("p", "kvr-note");
  put(root, put(el("div", "kvr-grid-plot"), labels, put(field, canvas, cursor)), cell, note);
  let shown = null;
  /** The cell that is read: a group of layers and a position. @type {{row: number, position: number}|null} */
  let at = null;
  new ResizeObserver(() => {
    if (!shown) return;
    draw(...shown);
    read();
  }).observe(field);
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("keydown", (event) => {
    if (!shown || event.ctrlKey || event.metaKey || event.altKey) return;
    const [rows, seen] = [rowsOf(shown[0]), shown[0].seen];
    const { row, position } = at ?? { row: 0, position: -1 };
    const to = {
      ArrowLeft: [row, position - 1], ArrowRight: [row, position + 1], ArrowUp: [row - 1, position], ArrowDown: [row + 1, position], Home: [row, 0], End: [row, seen - 1],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    at = { row: within(to[0], rows), position: within(to[1], seen) };
    read();
  });

  function point(event) {
    if (!shown) return;
    const { left, top, width } = canvas.getBoundingClientRect();
    const [kv] = shown;
    at = { row: within(Math.floor((event.clientY - top) / (ROW + GAP)), rowsOf(kv)), position: within(Math.floor(((event.clientX - left) / width) * kv.seen), kv.seen) };
    read();
  }

  // What the cell says, and where it is.
  function read() {
    const words = at && shown ? sentence(...shown, at, t) : null;
    cursor.hidden = !words;
    setText(cell, words ?? t("memory.grid.hint"));
    if (!words) return;
    const { seen } = shown[0];
    Object.assign(cursor.style, { left: `${(100 * at.position) / seen}%`, width: `${100 / seen}%`, top: `${at.row * (ROW + GAP)}px`, height: `${ROW}px` });
  }

  function draw(kv, state) {
    const width = Math.floor(field.clientWidth);
    if (!width) return;
    const rows = gridOf(kv, Math.floor(width / 2));
    const height = rows.length * (ROW + GAP) + MARKS;
    const scale = globalThis.devicePixelRatio || 1;
    Object.assign(canvas, { width: width * scale, height: height * scale });
    canvas.style.height = `${height}px`;
    const style = getComputedStyle(root);
    const [base, outline, ink] = ["--kvr-base", "--kvr-outline", "--kvr-ink"].map((name) => style.getPropertyValue(name).trim());
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    rows.forEach((cells, row) => {
      const [top, cell] = [row * (ROW + GAP), width / cells.length];
      pen.fillStyle = base;
      cells.forEach((share, column) => {
        pen.globalAlpha = share;
        pen.fillRect(column * cell, top, cell, ROW);
      });
      pen.globalAlpha = 1;
      pen.strokeStyle = outline;
      pen.strokeRect(0.5, top + 0.5, width - 1, ROW - 1);
    });
    // Below the cells: a tick where the problem ends and where each step ends, and a bar under the newest window.
    const x = (position) => (position / kv.seen) * width;
    const bottom = rows.length * (ROW + GAP);
    pen.fillStyle = ink;
    for (const end of ends(state, kv.seen)) pen.fillRect(x(end) - 0.5, bottom, 1, 6);
    const window = Math.min(kv.seen, alwaysKept(state.header?.config ?? {}).newest);
    pen.fillRect(x(kv.seen - window), bottom + 8, x(window), 4);
  }

  return {
    root,
    /** @param {object|null} kv null while the grid is not shown */
    update(kv, state) {
      shown = kv ? [kv, state] : null;
      if (!kv) return;
      const words = t("memory.grid", { groups: rowsOf(kv), seen: kv.seen, share: t.percent(kv.retention) });
      canvas.setAttribute("aria-label", `${words} ${t("memory.grid.hint")}`);
      setText(note, `${words} ${t("memory.grid.marks")}`);
      labels.replaceChildren(...Array.from({ length: rowsOf(kv) }, (_, row) => el("span", "", rowName(kv, row, state, t))));
      if (at) at = { row: within(at.row, rowsOf(kv)), position: within(at.position, kv.seen) };
      draw(kv, state);
      read();
    },
  };
}

const within = (value, count) => Math.max(0, Math.min(count - 1, value));
const rowsOf = (kv) => Math.max(1, groupsOf(kv));

/** Which layers a group has, from 1: the groups are neighbours, first ones first, as equal as can be. */
export function layersOf(index, groups, state) {
  const known = state.header?.models?.base?.layers;
  const count = Number.isInteger(known) ? known : groups;
  const [size, more] = [Math.floor(count / groups), count % groups];
  const from = index * size + Math.min(index, more);
  return { from: from + 1, to: from + size + (index < more ? 1 : 0), count };
}

/** "layers 5–8". */
export function layersName(index, groups, state, t) {
  const { from, to } = layersOf(index, groups, state);
  return t(to > from ? "memory.group.some" : "memory.group.single", { from, to });
}

const rowName = (kv, row, state, t) => (groupsOf(kv) ? layersName(row, groupsOf(kv), state, t) : t("memory.group.all"));

/** What a cell says: whose token it is, how many heads hold it, and since when fewer do. Null where nothing is known. */
export function sentence(kv, state, { row, position }, t) {
  const level = levelsIn(kv, row)[position];
  if (level === undefined) return null;
  const pieces = [...state.prompt.pieces, ...state.steps.flatMap((step) => step.commit?.pieces ?? [])];
  const where = { text: (pieces[position] ?? "").replaceAll("\n", "↵").trim(), position: position + 1, layers: rowName(kv, row, state, t) };
  if (level >= FULL) return t("memory.cell.all", where);
  const step = droppedSince(state.kvs, state.kvs.indexOf(kv), { group: row, position, most: level ? FULL - 1 : 0 });
  const since = t(step < 0 ? "memory.since.prompt" : "memory.since", { step: step + 1 });
  return t(level ? "memory.cell.some" : "memory.cell.none", { ...where, share: t.percent(shareOf(level, row, kv, state)), since });
}

// A level is one of sixteen; with the number of heads it is nearer to what was counted.
function shareOf(level, row, kv, state) {
  const { from, to } = layersOf(row, rowsOf(kv), state);
  const heads = Number(state.header?.models?.base?.kv_heads) * (to - from + 1);
  return heads > 1 ? Math.max(1, Math.min(heads - 1, Math.round((level / FULL) * heads))) / heads : level / FULL;
}

function ends(state, seen) {
  const places = [state.prompt.pieces.length];
  for (const step of state.steps) if (step.commit) places.push(places[places.length - 1] + step.commit.pieces.length);
  return places.filter((place) => place > 0 && place < seen);
}
