// The memory as a picture: positions from left to right, layers from top to bottom, a cell as strong as the share of heads that hold it.

import { el, put, setText } from "./dom.mjs";
import { alwaysKept, gridOf, groupsOf } from "./recall.mjs";

const ROW = 22;
const GAP = 2;
const MARKS = 14;

/** @param {{t: import("./i18n.mjs").Translator}} options */
export function createGrid({ t }) {
  const root = el("div", "kvr-grid");
  const canvas = el("canvas", "kvr-grid-canvas");
  canvas.setAttribute("role", "img");
  const note = el("p", "kvr-note");
  put(root, canvas, note);
  let shown = null;
  new ResizeObserver(() => shown && draw(...shown)).observe(root);

  function draw(kv, state) {
    const width = Math.floor(root.clientWidth);
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
    const at = (position) => (position / kv.seen) * width;
    const bottom = rows.length * (ROW + GAP);
    pen.fillStyle = ink;
    for (const end of ends(state, kv.seen)) pen.fillRect(at(end) - 0.5, bottom, 1, 6);
    const window = Math.min(kv.seen, alwaysKept(state.header?.config ?? {}).newest);
    pen.fillRect(at(kv.seen - window), bottom + 8, at(window), 4);
  }

  return {
    root,
    /** @param {object|null} kv null while the grid is not shown */
    update(kv, state) {
      shown = kv ? [kv, state] : null;
      if (!kv) return;
      const words = t("memory.grid", { groups: Math.max(1, groupsOf(kv)), seen: kv.seen, share: t.percent(kv.retention) });
      canvas.setAttribute("aria-label", words);
      setText(note, `${words} ${t("memory.grid.marks")}`);
      draw(kv, state);
    },
  };
}

function ends(state, seen) {
  const places = [state.prompt.pieces.length];
  for (const step of state.steps) if (step.commit) places.push(places[places.length - 1] + step.commit.pieces.length);
  return places.filter((place) => place > 0 && place < seen);
}
