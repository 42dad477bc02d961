// Four charts with one x axis: created once, then only given new data, so that zoom and hover stay while a run streams.

import { el, explained, put, setText } from "./dom.mjs";
import { KINDS, crosshair, figure } from "./figures.mjs";
import { SOURCES } from "./format.mjs";
import { positions, series, summaries } from "./series.mjs";
import { fillTable } from "./tables.mjs";

const EVERY_MS = 400;
const CONFIG = { displayModeBar: false, displaylogo: false, responsive: false, doubleClick: "autosize", showTips: false };

/**
 * @param {{loadPlotly: () => Promise<any>, onHover: (step: number|null) => void, onSelect: (step: number) => void, t: import("./i18n.mjs").Translator}} options
 */
export function createCharts({ loadPlotly, onHover, onSelect, t }) {
  const view = {
    axis: "step", state: null, selected: null, hovered: null, zoom: null, revision: 0,
    thresholds: { tau_ent: 2.5, tau_cmp: 0.3, ent_window: 16 }, drawn: -EVERY_MS, timer: 0, frame: 0, plotly: null, colors: null, dead: false,
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
    const wait = Math.max(0, Math.min(delay, view.drawn + EVERY_MS - performance.now()));
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
    const data = view.state ? series(view.state, view.axis, t) : null;
    const lines = view.state ? summaries(view.state, view.thresholds, t) : {};
    setText(axisButton, t(`charts.axis.${view.axis}`));
    const method = view.state?.header?.config.method ?? "";
    for (const one of panels) {
      setText(one.title, t(titleKey(one.kind, method)));
      setText(one.unit, t(unitKey(one.kind, view.axis, method), { n: view.thresholds.ent_window }));
      one.plot.setAttribute("aria-label", `${one.title.textContent}. ${lines[one.kind] ?? ""}`);
      if (!one.table.hidden) fillTable(one.table, one.kind, data, view.axis, t);
      if (view.plotly && !one.plot.hidden) paint(one, data);
    }
  }

  function paint(one, data) {
    view.colors ??= palette(root);
    const steps = view.state?.steps.length ?? 0;
    const narrow = root.clientWidth < 520;
    const config = view.state?.header?.config;
    const bands = String(config?.method).startsWith("reco") && config.method !== "reco-uniform" ? [Number(config.tau_l), Number(config.tau_h)] : null;
    const shown = { ...view, steps, narrow, bands, range: view.zoom ?? [0, endOf(view)] };
    const { traces, layout, empty } = figure(one.kind, data?.[one.kind] ?? null, shown, t);
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
    /** All charts that have something to show as one PNG; null without the library. @returns {Promise<Blob|null>} */
    async picture() {
      const shown = panels.filter((one) => one.listening);
      if (!view.plotly || !shown.length) return null;
      const size = { width: 900, height: 260 };
      const pictures = await Promise.all(shown.map((one) => view.plotly.toImage(one.plot, { format: "png", scale: 2, ...size }).then(loaded)));
      const canvas = el("canvas");
      const [head, scale] = [34, 2];
      Object.assign(canvas, { width: size.width * scale, height: shown.length * (size.height + head) * scale });
      const pen = canvas.getContext("2d");
      pen.scale(scale, scale);
      pen.fillStyle = view.colors.panel;
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.fillStyle = view.colors.ink;
      pen.font = "600 16px system-ui, sans-serif";
      shown.forEach((one, i) => {
        const top = i * (size.height + head);
        pen.fillText(`${one.title.textContent} (${one.unit.textContent})`, 12, top + 24);
        pen.drawImage(pictures[i], 0, top + head, size.width, size.height);
      });
      return new Promise((done) => canvas.toBlob(done, "image/png"));
    },
    /** The same as one SVG. @returns {Promise<string|null>} */
    async vector() {
      const shown = panels.filter((one) => one.listening);
      if (!view.plotly || !shown.length) return null;
      const [width, height, head] = [900, 260, 34];
      const parts = await Promise.all(shown.map((one) => view.plotly.toImage(one.plot, { format: "svg", width, height })));
      const whole = new DOMParser().parseFromString(`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${shown.length * (height + head)}"/>`, "image/svg+xml");
      shown.forEach((one, i) => {
        const part = new DOMParser().parseFromString(decodeURIComponent(parts[i].slice(parts[i].indexOf(",") + 1)), "image/svg+xml").documentElement;
        part.setAttribute("y", String(i * (height + head) + head));
        const title = whole.createElementNS("http://www.w3.org/2000/svg", "text");
        title.textContent = `${one.title.textContent} (${one.unit.textContent})`;
        for (const [name, value] of Object.entries({ x: 12, y: i * (height + head) + 24, "font-family": "system-ui, sans-serif", "font-size": 16, fill: view.colors.ink })) title.setAttribute(name, String(value));
        whole.documentElement.append(title, whole.importNode(part, true));
      });
      return new XMLSerializer().serializeToString(whole);
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
      cancelAnimationFrame(view.frame);
      stop();
      for (const one of panels) if (one.listening) view.plotly.purge(one.plot);
    },
  };
}

function loaded(url) {
  return new Promise((done, failed) => {
    const image = new Image();
    image.onload = () => done(image);
    image.onerror = failed;
    image.src = url;
  });
}

// Whose memory it is; only ReCo asks for a share.
const titleKey = (kind, method) => (kind === "retention" && method === "helper" ? "charts.retention.helper" : `charts.${kind}`);
const unitKey = (kind, axis, method = "") =>
  kind === "entropy" || kind === "gzip" ? `charts.${kind}.unit.${axis}` : kind === "retention" && method.startsWith("reco") ? "charts.retention.unit.asked" : `charts.${kind}.unit`;

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
  put(root, put(el("div", "kvr-section-head"), el("h3", "", t("charts.title")), axisButton), legend(t), ...panels.map(({ node }) => node));
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
  put(node, put(el("div", "kvr-chart-head"), put(el("h4"), title, unit), tableButton), put(el("div", "kvr-chart-body"), plot, note), table);
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
