// Four linked charts, created once with Plotly and then only given new data, so that zoom, hover and legend stay.

import { el, put, setText } from "./dom.mjs";
import { bucket, positions, series, summaries } from "./series.mjs";

const EVERY_MS = 400;
const KINDS = [
  { id: "reward", title: "Process reward", unit: "reward per step" },
  { id: "retention", title: "KV retention of the base", unit: "held / seen tokens" },
  { id: "entropy", title: "Token entropy, moving average", unit: "nats" },
  { id: "gzip", title: "gzip ratio of the newest text", unit: "compressed / original" },
];

/** @param {{loadPlotly: () => Promise<any>, onHover: (step: number|null) => void, onSelect: (step: number) => void}} options */
export function createCharts(options) {
  const root = el("section", "kvr-charts");
  root.setAttribute("aria-label", "Signals");
  const axisButton = el("button", "kvr-toggle", "x axis: step");
  axisButton.type = "button";
  put(root, put(el("div", "kvr-section-head"), el("h3", "", "Signals"), axisButton));
  const panels = KINDS.map((kind) => panel(kind));
  put(root, ...panels.map(({ node }) => node));

  const view = { axis: "step", state: null, thresholds: { tau_ent: 2.5, tau_cmp: 0.3 }, selected: null, hovered: null, plotly: null, timer: 0, drawn: 0 };
  axisButton.addEventListener("click", () => {
    view.axis = view.axis === "step" ? "token" : "step";
    setText(axisButton, `x axis: ${view.axis}`);
    for (const { plot } of panels) if (plot.layout) plot.layout.uirevision = view.axis;
    schedule(0);
  });
  root.addEventListener("keydown", (event) => {
    if (event.target.closest?.("button") || !["ArrowLeft", "ArrowRight"].includes(event.key) || !view.state) return;
    const steps = view.state.steps.length;
    if (!steps) return;
    event.preventDefault();
    const from = view.selected ?? (event.key === "ArrowRight" ? -1 : steps);
    options.onSelect(Math.min(steps - 1, Math.max(0, from + (event.key === "ArrowRight" ? 1 : -1))));
  });

  function schedule(delay = EVERY_MS) {
    if (view.timer) return;
    const wait = Math.max(0, Math.min(delay, view.drawn + EVERY_MS - performance.now()));
    view.timer = setTimeout(() => {
      view.timer = 0;
      draw();
    }, wait);
  }

  function draw() {
    if (!view.plotly || !root.isConnected || !root.offsetParent) return;
    view.drawn = performance.now();
    const colors = palette(root);
    const data = view.state ? series(view.state, view.axis) : null;
    const lines = view.state ? summaries(view.state, view.thresholds) : null;
    for (const one of panels) {
      const { traces, layout, empty } = BUILD[one.kind.id](data, view, colors);
      one.fixed = layout.shapes;
      layout.shapes = [...one.fixed, ...(view.state ? crosshair(view, colors) : [])];
      const whole = { ...frame(one.kind, colors, view, width(root)), ...layout };
      // Drawing is what costs; a chart that would look the same is left alone.
      const looks = JSON.stringify([traces, whole]);
      if (looks !== one.looks) view.plotly.react(one.plot, traces, whole, { displayModeBar: false, responsive: true });
      one.looks = looks;
      listen(one);
      setText(one.note, empty ?? "");
      one.plot.setAttribute("aria-label", `${one.kind.title}. ${lines?.[one.kind.id] ?? ""}`);
      if (!one.table.hidden) fillTable(one, data);
    }
  }

  function listen(one) {
    if (one.listening) return;
    one.listening = true;
    const stepOf = (event) => event.points?.[0]?.customdata;
    one.plot.on("plotly_hover", (event) => options.onHover(stepOf(event) ?? null));
    one.plot.on("plotly_unhover", () => options.onHover(null));
    one.plot.on("plotly_click", (event) => {
      const step = stepOf(event);
      if (step >= 0) options.onSelect(step);
    });
  }

  const seen = new ResizeObserver(() => schedule(50));
  seen.observe(root);
  const theme = new MutationObserver(() => schedule(50));
  theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  const paint = globalThis.requestIdleCallback ?? ((call) => setTimeout(call, 200));
  paint(() => {
    options.loadPlotly().then(
      (plotly) => {
        view.plotly = plotly;
        for (const one of panels) one.note.textContent = "";
        draw();
      },
      () => panels.forEach((one) => setText(one.note, "The chart library could not be loaded.")),
    );
  });

  for (const one of panels) one.tableButton.addEventListener("click", () => view.state && fillTable(one, series(view.state, view.axis)));
  return {
    root,
    update(state) {
      view.state = state;
      schedule();
    },
    setThresholds(thresholds) {
      view.thresholds = { ...view.thresholds, ...thresholds };
      schedule(60);
    },
    mark(selected, hovered) {
      if (view.selected === selected && view.hovered === hovered) return;
      view.selected = selected;
      view.hovered = hovered;
      if (!view.plotly || !view.state) return;
      const shapes = crosshair(view, palette(root));
      for (const one of panels) {
        if (!one.plot.layout) continue;
        one.looks = "";
        view.plotly.relayout(one.plot, { shapes: [...one.fixed, ...shapes] });
      }
    },
    destroy() {
      clearTimeout(view.timer);
      seen.disconnect();
      theme.disconnect();
      for (const one of panels) view.plotly?.purge(one.plot);
    },
  };

  function panel(kind) {
    const node = el("div", "kvr-chart");
    const plot = el("div", "kvr-plot");
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", kind.title);
    plot.tabIndex = 0;
    const note = el("p", "kvr-chart-note", "loading charts");
    const tableButton = el("button", "kvr-toggle", "table");
    tableButton.type = "button";
    tableButton.setAttribute("aria-pressed", "false");
    const table = el("div", "kvr-table");
    table.hidden = true;
    tableButton.addEventListener("click", () => {
      table.hidden = !table.hidden;
      plot.hidden = !table.hidden;
      tableButton.setAttribute("aria-pressed", String(!table.hidden));
    });
    put(node, put(el("div", "kvr-chart-head"), put(el("h4", "", kind.title), el("span", "kvr-unit", ` (${kind.unit})`)), tableButton), plot, table, note);
    return { kind, node, plot, note, table, tableButton };
  }

  function fillTable(one, data) {
    const rows = tableRows(one.kind.id, data).slice(-MOST_ROWS);
    const table = el("table");
    put(table, put(el("tr"), ...["x", "value", "which"].map((text) => el("th", "", text))));
    for (const { x, y, text } of rows) put(table, put(el("tr"), el("td", "", String(x)), el("td", "", y.toFixed(3)), el("td", "", text)));
    one.table.replaceChildren(rows.length ? table : el("p", "", "Nothing yet."));
  }

  function crosshair({ selected, hovered, state, axis }, colors) {
    const at = positions(state, axis);
    const line = (step, dash) => ({
      type: "line", xref: "x", yref: "paper", x0: at[step], x1: at[step], y0: 0, y1: 1, line: { color: colors.ink, width: 1, dash },
    });
    return [
      ...(selected !== null && at[selected] !== undefined ? [line(selected, "solid")] : []),
      ...(hovered !== null && hovered !== selected && at[hovered] !== undefined ? [line(hovered, "dot")] : []),
    ];
  }
}

const MOST_ROWS = 500;
const width = (root) => root.getBoundingClientRect().width;

function tableRows(id, data) {
  if (id === "retention") return data.retention;
  const group = id === "reward" ? data.marks : data[id];
  const rows = id === "reward" ? [...group.base, ...group.helper, ...group.aborted] : [...group.committed, ...group.base, ...group.helper];
  return rows.sort((a, b) => a.x - b.x);
}

function palette(root) {
  const style = getComputedStyle(root);
  const of = (token) => style.getPropertyValue(`--kvr-${token}`).trim();
  return { base: of("base"), helper: of("helper"), alert: of("alert"), ink: of("ink"), muted: of("muted"), grid: of("grid"), panel: of("panel") };
}

function frame(kind, colors, view, wide) {
  const axis = { gridcolor: colors.grid, zerolinecolor: colors.grid, linecolor: colors.grid, color: colors.muted, fixedrange: false };
  return {
    uirevision: view.axis,
    height: wide < 500 ? 150 : 165,
    margin: { l: 44, r: 12, t: 6, b: 24 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: colors.muted },
    hoverlabel: { bgcolor: colors.panel, bordercolor: colors.muted, font: { color: colors.ink, size: 13 } },
    hovermode: "closest",
    showlegend: false,
    xaxis: { ...axis, rangemode: "tozero", tickformat: "d", ...(view.axis === "step" ? { dtick: tick(view.state?.steps.length ?? 0) } : {}) },
  };
}

const tick = (steps) => Math.max(1, Math.ceil(steps / 12));
const SYMBOLS = { base: "square", helper: "circle" };

function points(list, style) {
  const kept = bucket(list.map((point, i) => [i, point.y])).map(([i]) => list[i]);
  return {
    type: "scatter",
    x: kept.map((point) => point.x),
    y: kept.map((point) => point.y),
    customdata: kept.map((point) => point.step),
    text: kept.map((point) => point.text),
    hovertemplate: "%{text}<br>%{y:.3f}<extra></extra>",
    ...style,
  };
}

const marker = (colors, source, size = 7) => ({ mode: "markers", marker: { symbol: SYMBOLS[source], color: colors[source], size, opacity: 0.75 } });
const committed = (colors) => ({ mode: "lines+markers", line: { color: colors.ink, width: 2 }, marker: { color: colors.ink, size: 5 } });

function threshold(value, text, colors, below) {
  return {
    shape: { type: "line", xref: "paper", yref: "y", x0: 0, x1: 1, y0: value, y1: value, line: { color: colors.alert, width: 1.5, dash: "dash" } },
    annotation: {
      xref: "paper", yref: "y", x: 1, y: value, xanchor: "right", yanchor: below ? "top" : "bottom",
      text, showarrow: false, font: { color: colors.alert, size: 12 },
    },
  };
}

const none = { base: [], helper: [], aborted: [], committed: [] };
const BUILD = {
  reward(data, view, colors) {
    const marks = data?.marks ?? none;
    return {
      traces: [
        points(marks.base, marker(colors, "base")),
        points(marks.helper, marker(colors, "helper")),
        points(marks.aborted, { mode: "markers", hovertemplate: "%{text}<extra></extra>", marker: { symbol: "x", color: colors.alert, size: 8 } }),
        points(marks.committed, committed(colors)),
      ],
      layout: yLayout(colors, [-0.05, 1.05]),
      empty: marks.base.length + marks.helper.length ? null : "no step scored yet",
    };
  },
  retention(data, view, colors) {
    const held = data?.retention ?? [];
    return {
      traces: [points(held, { ...committed(colors), line: { color: colors.ink, width: 2, shape: "hv" }, hovertemplate: "%{text}<br>%{y:.1%}<extra></extra>" })],
      layout: yLayout(colors, [0, 1.05]),
      empty: held.length ? null : "nothing read yet",
    };
  },
  entropy: (data, view, colors) => guarded(data?.entropy, view, colors, view.thresholds.tau_ent, `abort above ${view.thresholds.tau_ent} nats`, false),
  gzip: (data, view, colors) => guarded(data?.gzip, view, colors, view.thresholds.tau_cmp, `abort below ${view.thresholds.tau_cmp}`, true),
};

function guarded(group, view, colors, value, text, below) {
  const { base, helper, committed: chosen } = group ?? none;
  const line = threshold(value, text, colors, below);
  const top = Math.max(value * 1.25, ...[...base, ...helper, ...chosen].map((point) => point.y * 1.1));
  return {
    traces: [points(base, marker(colors, "base", 5)), points(helper, marker(colors, "helper", 5)), points(chosen, curve(view, colors))],
    layout: yLayout(colors, [0, top], [line.annotation], [line.shape]),
    empty: base.length + helper.length + chosen.length ? null : "not judged yet: the window is not full",
  };
}

const curve = (view, colors) => (view.axis === "token" ? { mode: "lines", line: { color: colors.ink, width: 1.5 } } : committed(colors));

function yLayout(colors, range, annotations = [], shapes = []) {
  const yaxis = { gridcolor: colors.grid, zerolinecolor: colors.grid, linecolor: colors.grid, color: colors.muted, nticks: 5, range };
  return { yaxis, annotations, shapes };
}
