// Traces and layout of each chart for Plotly, from points and colours. Pure. Hover texts are our own words and numbers only:
// Plotly reads markup in them, so model text must never get here.

/** @typedef {{base: string, helper: string, alert: string, ink: string, muted: string, grid: string, panel: string}} Palette */
/** @typedef {{axis: "step"|"token", range: [number, number], revision: number, steps: number, narrow: boolean, bands: [number, number]|null, thresholds: object, colors: Palette}} View */

export const KINDS = ["reward", "retention", "entropy", "gzip"];
const SYMBOLS = { base: "square", helper: "circle", aborted: "x" };
const EMPTY = { base: [], helper: [], aborted: [], committed: [] };

/**
 * @param {"reward"|"retention"|"entropy"|"gzip"} kind @param {object|null} data one chart of `series()` @param {View} view
 * @returns {{traces: object[], layout: object, empty: string}} `empty`: what to say while there is nothing to see
 */
export function figure(kind, data, view, t) {
  const { traces, layout, empty } = BUILD[kind](data, view, t);
  return { traces, layout: { ...frame(view), ...layout, uirevision: view.revision }, empty: empty ?? "" };
}

/** Vertical lines at the selected (solid) and the hovered (dotted) step. */
export function crosshair(at, selected, hovered, colors) {
  const line = (step, dash) => ({
    type: "line", xref: "x", yref: "paper", x0: at[step], x1: at[step], y0: 0, y1: 1, layer: "below", line: { color: colors.muted, width: dash === "solid" ? 2 : 1.5, dash },
  });
  return [
    ...(selected !== null && at[selected] !== undefined ? [line(selected, "solid")] : []),
    ...(hovered !== null && hovered !== selected && at[hovered] !== undefined ? [line(hovered, "dot")] : []),
  ];
}

function axisStyle({ grid, muted }) {
  return { gridcolor: grid, zerolinecolor: grid, linecolor: grid, tickcolor: grid, color: muted, showline: false, automargin: false };
}

function frame(view) {
  const { colors, axis, steps, range } = view;
  const ticks = axis === "step" ? { dtick: Math.max(1, Math.ceil(steps / 12)), tick0: 0 } : { nticks: 8 };
  return {
    height: view.narrow ? 160 : 150,
    margin: { l: 40, r: 40, t: 8, b: 22 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: colors.muted },
    hoverlabel: { bgcolor: colors.panel, bordercolor: colors.muted, font: { color: colors.ink, size: 14, family: "system-ui, sans-serif" }, align: "left" },
    hovermode: "closest",
    // A finger on a chart scrolls the page; zooming is for pointers.
    dragmode: view.narrow ? false : "zoom",
    showlegend: false,
    xaxis: { ...axisStyle(colors), tickformat: ",d", ...ticks, range, autorange: false },
  };
}

function scatter(points, style) {
  return {
    type: "scatter",
    x: points.map((point) => point.x),
    y: points.map((point) => point.y),
    customdata: points.map((point) => point.step),
    text: points.map((point) => point.text),
    hovertemplate: "%{text}<br><b>%{y:.3f}</b><extra></extra>",
    connectgaps: false,
    cliponaxis: false,
    ...style,
  };
}

const marks = (colors, source, size = 8) => ({
  mode: "markers",
  marker: { symbol: SYMBOLS[source], color: colors[source], size, opacity: 0.8, line: { color: colors.panel, width: 1 } },
});
const thick = (colors) => ({ mode: "lines+markers", line: { color: colors.ink, width: 2 }, marker: { color: colors.ink, size: 5 } });
const crosses = (colors) => ({ mode: "markers", marker: { symbol: SYMBOLS.aborted, color: colors.alert, size: 9, line: { color: colors.panel, width: 1 } } });

function yaxis(view, range) {
  return { ...axisStyle(view.colors), nticks: 5, range, fixedrange: true };
}

const BUILD = {
  reward(data, view, t) {
    const { base, helper, aborted, committed } = data ?? EMPTY;
    const bottom = aborted.map((point) => ({ ...point, y: -0.06 }));
    return {
      traces: [
        scatter(base, marks(view.colors, "base")),
        scatter(helper, marks(view.colors, "helper")),
        scatter(bottom, { ...crosses(view.colors), hovertemplate: "%{text}<extra></extra>" }),
        // Below its own marks in hover only: the marks say who wrote the step.
        scatter(committed, { ...thick(view.colors), mode: "lines", hoverinfo: "skip", hovertemplate: undefined }),
      ].reverse(),
      layout: { yaxis: { ...yaxis(view, [-0.1, 1.05]), tickvals: [0, 0.5, 1] }, shapes: bandShapes(view) },
      empty: base.length + helper.length + aborted.length ? null : t("charts.empty.reward"),
    };
  },

  retention(data, view, t) {
    const points = data?.held ?? [];
    const asked = data?.asked ?? [];
    const held = points.map((point) => ({ ...point, y: point.held }));
    const most = Math.max(1, ...held.map((point) => point.y));
    const { colors } = view;
    return {
      traces: [
        scatter(held, { mode: "lines", yaxis: "y2", line: { color: colors.muted, width: 1.5, dash: "dot", shape: "hv" }, hoverinfo: "skip", hovertemplate: undefined }),
        scatter(points, { ...thick(colors), line: { color: colors.ink, width: 2, shape: "hv" }, hovertemplate: "%{text}<br><b>%{y:.1%}</b><extra></extra>" }),
        scatter(asked, { mode: "markers", marker: { symbol: "diamond-open", color: colors.base, size: 9, line: { width: 2 } }, hovertemplate: "%{text}<br><b>%{y:.1%}</b><extra></extra>" }),
      ],
      layout: {
        yaxis: { ...yaxis(view, [0, 1.05]), tickvals: [0, 0.5, 1] },
        yaxis2: { ...yaxis(view, [0, most * 1.25]), overlaying: "y", side: "right", showgrid: false, nticks: 4, tickformat: ",d" },
      },
      empty: points.length ? null : t("charts.empty.retention"),
    };
  },

  entropy: (data, view, t) => guarded(data, view, t, view.thresholds.tau_ent, t("charts.above", { value: view.thresholds.tau_ent }), "top"),
  gzip: (data, view, t) => guarded(data, view, t, view.thresholds.tau_cmp, t("charts.below", { value: view.thresholds.tau_cmp }), "bottom"),
};

function guarded(data, view, t, tau, words, yanchor) {
  const { colors, axis } = view;
  const { base, helper, aborted, committed } = data ?? EMPTY;
  const others = (source) =>
    axis === "token" ? { mode: "lines+markers", opacity: 0.7, line: { color: colors[source], width: 1 }, marker: { symbol: SYMBOLS[source], size: 3, color: colors[source] } } : marks(colors, source, 7);
  const highest = [base, helper, aborted, committed].flat().reduce((top, point) => Math.max(top, point.y ?? 0), tau * 1.3);
  const dense = axis === "token" && committed.length > 60;
  return {
    traces: [
      scatter(base, others("base")),
      scatter(helper, others("helper")),
      scatter(committed, { ...thick(colors), mode: dense ? "lines" : "lines+markers" }),
      scatter(aborted, crosses(colors)),
    ],
    layout: { yaxis: { ...yaxis(view, [0, highest * 1.1]), nticks: 4 }, shapes: [thresholdLine(tau, colors)], annotations: [thresholdLabel(tau, words, colors, emptiest([base, helper, committed, aborted].flat(), tau, highest, yanchor))] },
    empty: base.length + helper.length + committed.length + aborted.length ? null : t("charts.empty.judged"),
  };
}

// Low rewards up to tau_l, high ones from tau_h on: where ReCo lets reflection be, and where it suppresses it.
function bandShapes({ bands, colors }) {
  if (!bands) return [];
  const area = (y0, y1, color) => ({ type: "rect", xref: "paper", yref: "y", x0: 0, x1: 1, y0, y1, layer: "below", line: { width: 0 }, fillcolor: color, opacity: 0.12 });
  return [area(-0.1, bands[0], colors.alert), area(bands[1], 1.05, colors.base)];
}

const thresholdLine = (tau, colors) => ({
  type: "line", xref: "paper", yref: "y", x0: 0, x1: 1, y0: tau, y1: tau, line: { color: colors.alert, width: 1.5, dash: "dash" },
});

// The corner at the line's ends with the fewest points: a label must not stand on them. In doubt the side where nothing is aborted.
export function emptiest(points, tau, highest, yanchor) {
  const xs = points.map((point) => point.x).filter(Number.isFinite);
  const [first, last] = [Math.min(...xs, 0), Math.max(...xs, 1)];
  const corners = [yanchor, yanchor === "top" ? "bottom" : "top"].flatMap((y) => [["right", y], ["left", y]]);
  const crowd = ([side, y]) =>
    points.filter((point) => {
      const near = y === "top" ? point.y <= tau && point.y >= tau - 0.25 * highest : point.y >= tau && point.y <= tau + 0.25 * highest;
      return near && (side === "left" ? point.x < first + 0.4 * (last - first) : point.x > last - 0.4 * (last - first));
    }).length;
  const crowds = corners.map(crowd);
  const [xanchor, found] = corners[crowds.indexOf(Math.min(...crowds))];
  return { xanchor, yanchor: found };
}

const thresholdLabel = (tau, text, colors, { xanchor, yanchor }) => ({
  xref: "paper", yref: "y", x: xanchor === "left" ? 0 : 1, y: tau, xanchor, yanchor, text, showarrow: false, font: { color: colors.alert, size: 12 },
});
