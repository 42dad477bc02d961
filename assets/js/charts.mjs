// Four charts with one x axis: created once, then only given new data, so that zoom and hover stay while a run streams.

import { el, explained, put, setText } from "./dom.mjs";
import { KINDS, crosshair, figure } from "./figures.mjs";
import { SOURCES } from "./format.mjs";
import { drawing } from "./picture.mjs";
import { positions, series, summaries } from "./series.mjs";
import { fillTable } from "./tables.mjs";

const EVERY_MS = 400;
/** Charts are drawn behind the frame that shows the rest, and one at a time: nobody waits for all four. */
const FRAME_MS = 34;
const CONFIG = { displayModeBar: false, displaylogo: false, responsive: false, doubleClick: "autosize", showTips: false };

/**
 * @param {{loadPlotly: () => Promise<any>, onHover: (step: number|null) => void, onSelect: (step: number) => void, t: import("./i18n.mjs").Translator}} options
 */
export function createCharts({ loadPlotly, onHover, onSelect, t }) {
  const view = {
    axis: "step", state: null, selected: null, hovered: null, zoom: null, revision: 0,
    thresholds: { tau_ent: 2.5, tau_cmp: 0.3, ent_window: 16 }, drawn: -EVERY_MS, timer: 0, frame: 0,
    /** what is being drawn, and the charts that wait for it */ data: null, lines: {}, left: [], next: 0, plotly: null, colors: null, dead: false,
  };
  const { root, axisButton, panels } = shell(t);

  axisButton.addEventListener("click", () => {
    view.axis = view.axis === "step" ? "token" : "step";
    zoom(null);
  });
  root.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const steps = view.state?.steps.length ?? 0;
    if (!way || !steps || event.target.closest("button") || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const from = view.selected ?? (way > 0 ? -1 : steps);
    const to = Math.min(steps - 1, Math.max(0, from + way));
    if (to !== view.selected) onSelect(to);
  });
  for (const one of panels) {
    one.tableButton.addEventListener("click", () => {
      const open = one.table.hidden;
      one.table.hidden = !open;
      one.plot.hidden = open;
      one.tableButton.setAttribute("aria-pressed", String(open));
      draw();
    });
  }

  function schedule(delay = EVERY_MS) {
    if (view.timer || view.dead) return;
    const wait = Math.max(FRAME_MS, Math.min(delay, view.drawn + EVERY_MS - performance.now()));
    view.timer = setTimeout(() => {
      view.timer = 0;
      draw();
    }, wait);
  }

  function zoom(range) {
    view.zoom = range;
    view.revision++;
    schedule(0);
  }

  // Hidden charts are not drawn: the resize observer calls again when they come into view.
  function draw() {
    if (view.dead || !root.isConnected || !root.offsetParent) return;
    view.drawn = performance.now();
    view.data = view.state ? series(view.state, view.axis, t) : null;
    view.lines = view.state ? summaries(view.state, view.thresholds, t) : {};
    setText(axisButton, t(`charts.axis.${view.axis}`));
    view.left = [...panels];
    clearTimeout(view.next);
    drawNext();
  }

  function drawNext() {
    const one = view.left.shift();
    if (!one || view.dead) return;
    setText(one.title, titleOf(one.kind, view, t));
    setText(one.unit, unitOf(one.kind, view, t));
    one.plot.setAttribute("aria-label", `${one.title.textContent}. ${view.lines[one.kind] ?? ""}`);
    if (!one.table.hidden) fillTable(one.table, one.kind, view.data, view.axis, t);
    if (view.plotly && !one.plot.hidden) paint(one, view.data);
    view.next = setTimeout(drawNext);
  }

  function paint(one, data) {
    view.colors ??= palette(root);
    const { traces, layout, empty } = figure(one.kind, data?.[one.kind] ?? null, drawnView(view, root.clientWidth < 520), t);
    one.shapes = layout.shapes ?? [];
    layout.shapes = [...one.shapes, ...cross()];
    layout.width = Math.max(200, one.plot.clientWidth);
    setText(one.note, empty);
    // Drawing is what costs; a chart that would look the same is left alone.
    const looks = JSON.stringify([traces, layout]);
    if (looks !== one.looks) view.plotly.react(one.plot, traces, layout, CONFIG);
    one.looks = looks;
    listen(one);
  }

  const cross = () => (view.state ? crosshair(positions(view.state, view.axis), view.selected, view.hovered, view.colors) : []);

  function listen(one) {
    if (one.listening) return;
    one.listening = true;
    const stepOf = (event) => event.points?.[0]?.customdata;
    one.plot.on("plotly_hover", (event) => onHover(stepOf(event) ?? null));
    one.plot.on("plotly_unhover", () => onHover(null));
    one.plot.on("plotly_click", (event) => stepOf(event) >= 0 && onSelect(stepOf(event)));
    one.plot.on("plotly_relayout", (change) => {
      if (change["xaxis.autorange"]) return zoom(null);
      const range = change["xaxis.range"] ?? [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (range.every(Number.isFinite)) zoom(range);
    });
  }

  const stop = watch(root, {
    resized: () => schedule(50),
    themed() {
      view.colors = null;
      schedule(0);
    },
  });
  afterPaint(() => {
    loadPlotly().then(
      (plotly) => {
        view.plotly = plotly;
        draw();
      },
      () => panels.forEach((one) => setText(one.note, t("charts.failed"))),
    );
  });

  return {
    root,
    update(state) {
      view.state = state;
      schedule();
    },
    /** A new run: the zoom belonged to the old one. */
    reset() {
      view.zoom = null;
      view.revision++;
    },
    setThresholds(thresholds) {
      for (const name of ["tau_ent", "tau_cmp", "ent_window"]) if (Number.isFinite(thresholds?.[name])) view.thresholds[name] = thresholds[name];
      schedule(60);
    },
    mark(selected, hovered) {
      if (view.selected === selected && view.hovered === hovered) return;
      view.selected = selected;
      view.hovered = hovered;
      if (!view.plotly || !view.state || view.frame) return;
      view.frame = requestAnimationFrame(() => {
        view.frame = 0;
        if (!view.colors) return;
        for (const one of panels) {
          if (!one.listening || one.plot.hidden) continue;
          one.looks = "";
          view.plotly.relayout(one.plot, { shapes: [...one.shapes, ...cross()] });
        }
      });
    },
    /** All charts of a whole run as one SVG, wherever the slider and the zoom stand; null without the library. @returns {Promise<string|null>} */
    async picture(whole) {
      const plotly = view.plotly ?? (await loadPlotly().catch(() => null));
      if (!plotly) return null;
      const shown = { ...view, state: whole, zoom: null, colors: palette(root) };
      const data = series(whole, view.axis, t);
      const charts = panels.map(({ kind }) => ({ kind, title: `${titleOf(kind, shown, t)} (${unitOf(kind, shown, t)})`, ...figure(kind, data[kind], drawnView(shown, false), t) }));
      return drawing(plotly, { colors: shown.colors, charts }, whole, t(`charts.axis.${view.axis}`), t);
    },
    /** Bring one chart into view and give it the focus. @param {"entropy"|"gzip"} kind */
    reveal(kind) {
      const one = panels.find((panel) => panel.kind === kind);
      const target = one.plot.hidden ? one.tableButton : one.plot;
      one.node.scrollIntoView({ block: "center" });
      target.focus({ preventScroll: true });
    },
    destroy() {
      view.dead = true;
      clearTimeout(view.timer);
      clearTimeout(view.next);
      cancelAnimationFrame(view.frame);
      stop();
      for (const one of panels) if (one.listening) view.plotly.purge(one.plot);
    },
  };
}

const methodOf = (view) => view.state?.header?.config.method ?? "";
// Whose memory it is; only ReCo asks for a share.
const titleOf = (kind, view, t) => t(kind === "retention" && methodOf(view) === "helper" ? "charts.retention.helper" : `charts.${kind}`);
const unitOf = (kind, view, t) => t(unitKey(kind, view.axis, methodOf(view)), { n: view.thresholds.ent_window });
const unitKey = (kind, axis, method = "") =>
  kind === "entropy" || kind === "gzip" ? `charts.${kind}.unit.${axis}` : kind === "retention" && method.startsWith("reco") ? "charts.retention.unit.asked" : `charts.${kind}.unit`;

// What a figure is drawn from.
function drawnView(view, narrow) {
  const config = view.state?.header?.config;
  const bands = String(config?.method).startsWith("reco") && config.method !== "reco-uniform" ? [Number(config.tau_l), Number(config.tau_h)] : null;
  return { ...view, steps: view.state?.steps.length ?? 0, narrow, bands, range: view.zoom ?? [0, endOf(view)] };
}

// The last step and a little air; while a step is being written, its longest candidate too.
function endOf({ state, axis }) {
  const steps = state?.steps ?? [];
  if (axis === "step") return Math.max(4, steps.length) + 0.5;
  const at = positions(state ?? { steps: [] }, axis);
  const growing = steps.length && !steps[steps.length - 1].commit ? Math.max(0, ...[...steps[steps.length - 1].candidates.values()].map((one) => one.tokens)) : 0;
  return Math.max(32, (at[at.length - 1] ?? 0) + growing) * 1.03;
}

function shell(t) {
  const root = el("section", "kvr-charts");
  root.setAttribute("aria-label", t("charts.label"));
  const axisButton = el("button", "kvr-toggle", t("charts.axis.step"));
  axisButton.type = "button";
  axisButton.title = t("charts.axis.label");
  const panels = KINDS.map((kind) => panel(kind, t));
  put(root, put(el("div", "kvr-section-head"), el("h2", "", t("charts.title")), axisButton), legend(t), ...panels.map(({ node }) => node));
  put(root, el("p", "kvr-hint", t("charts.hint")));
  return { root, axisButton, panels };
}

function legend(t) {
  const node = el("div", "kvr-legend");
  const item = (className, mark, text) => {
    const glyph = el("span", className, mark);
    glyph.setAttribute("aria-hidden", "true");
    return put(el("span", "kvr-legend-item"), glyph, el("span", "", text));
  };
  put(node, explained(item("kvr-key kvr-key-line", "", t("charts.legend.committed")), t("term.committed")));
  for (const source of ["base", "helper"]) put(node, item(`kvr-key kvr-key-${source}`, SOURCES[source].mark, t(`charts.legend.${source}`)));
  return put(node, item("kvr-key kvr-key-aborted", "✕", t("charts.legend.aborted")));
}

function panel(kind, t) {
  const node = el("div", "kvr-chart");
  node.dataset.kind = kind;
  const title = explained(el("span", "", t(`charts.${kind}`)), t(`term.${kind}`));
  const plot = el("div", "kvr-plot");
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label", t(`charts.${kind}`));
  plot.tabIndex = 0;
  const unit = el("span", "kvr-unit", t(unitKey(kind, "step"), { n: 16 }));
  const note = el("p", "kvr-chart-note", t("charts.loading"));
  const tableButton = el("button", "kvr-toggle", t("charts.table"));
  tableButton.type = "button";
  tableButton.setAttribute("aria-pressed", "false");
  tableButton.setAttribute("aria-label", `${t("charts.table")}: ${t(`charts.${kind}`)}`);
  const table = el("div", "kvr-table");
  table.hidden = true;
  table.tabIndex = 0;
  put(node, put(el("div", "kvr-chart-head"), put(el("h3"), title, unit), tableButton), put(el("div", "kvr-chart-body"), plot, note), table);
  return { kind, node, title, plot, unit, note, table, tableButton, shapes: [], listening: false };
}

function palette(root) {
  const style = getComputedStyle(root);
  const names = ["base", "helper", "alert", "ink", "muted", "grid", "panel"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--kvr-${name}`).trim()]));
}

/** Calls back when the charts change size and when dark mode is switched anywhere above them. */
function watch(root, { resized, themed }) {
  const size = new ResizeObserver(resized);
  size.observe(root);
  const theme = new MutationObserver(themed);
  for (const node of [document.documentElement, document.body]) theme.observe(node, { attributes: true, attributeFilter: ["class", "data-theme", "style"] });
  const contrast = matchMedia("(forced-colors: active)");
  contrast.addEventListener("change", themed);
  return () => {
    size.disconnect();
    theme.disconnect();
    contrast.removeEventListener("change", themed);
  };
}

// The text must be on screen before five megabytes of chart library are read.
function afterPaint(call) {
  requestAnimationFrame(() => setTimeout(() => (globalThis.requestIdleCallback ? requestIdleCallback(call, { timeout: 1500 }) : call()), 0));
}
