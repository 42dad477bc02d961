// All charts of a run as one drawing, with what one must know to read it away from the page. The PNG is the same drawing, painted.

import { SOURCES } from "./format.mjs";

const [WIDTH, CHART, HEAD, TOP, EDGE, SCALE] = [900, 260, 34, 92, 12, 2];
const FONT = "system-ui, sans-serif";
const XML_LACKS = /[\p{Cc}\p{Cs}\p{Cn}]+/gu;

/**
 * @param {any} plotly
 * @param {{colors: import("./figures.mjs").Palette, charts: {kind: string, title: string, traces: object[], layout: object, empty: string}[]}} drawn
 * @param {object} state the whole run @param {string} axis what the x axis is, in words @param {import("./i18n.mjs").Translator} t
 * @returns {Promise<string>} SVG
 */
export async function drawing(plotly, { colors, charts }, state, axis, t) {
  const parts = await Promise.all(charts.map(({ traces, layout }) => plotly.toImage({ data: traces, layout }, { format: "svg", width: WIDTH, height: CHART })));
  const height = TOP + charts.length * (HEAD + CHART);
  const whole = new DOMParser().parseFromString(`<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}"/>`, "image/svg+xml");
  const root = whole.documentElement;
  const add = (tag, attributes, text = "") => {
    const node = whole.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
    node.textContent = text;
    root.append(node);
  };
  const write = (text, x, y, size, weight = 400, fill = colors.ink) => add("text", { x, y, "font-family": FONT, "font-size": size, "font-weight": weight, fill }, text);
  add("rect", { width: WIDTH, height, fill: colors.panel });
  const { header } = state;
  write(fitting(String(header.problem).replace(XML_LACKS, " ").replace(/\s+/g, " ").trim(), WIDTH - 2 * EDGE, `600 18px ${FONT}`), EDGE, 28, 18, 600);
  const run = String(header.run ?? "").replace(/[^\w-]/g, "");
  write(t("charts.picture", { method: t(`method.${header.config.method}`), run, n: state.steps.filter((step) => step.commit).length, axis }), EDGE, 52, 14, 400, colors.muted);
  legend(t, (mark, name, color, x) => {
    if (mark) write(mark, x, 78, 14, 700, color);
    else add("rect", { x, y: 72, width: 18, height: 2, fill: color });
    write(name, x + 24, 78, 14);
  }, colors);
  charts.forEach(({ title, empty }, i) => {
    const top = TOP + i * (HEAD + CHART);
    write(title, EDGE, top + 24, 16, 600);
    const part = new DOMParser().parseFromString(decodeURIComponent(parts[i].slice(parts[i].indexOf(",") + 1)), "image/svg+xml").documentElement;
    part.setAttribute("y", String(top + HEAD));
    root.append(whole.importNode(part, true));
    if (empty) write(empty, WIDTH / 3, top + HEAD + CHART / 2, 14, 400, colors.muted);
  });
  return new XMLSerializer().serializeToString(whole);
}

function legend(t, draw, colors) {
  const items = [["", "committed", colors.ink], [SOURCES.base.mark, "base", colors.base], [SOURCES.helper.mark, "helper", colors.helper], ["✕", "aborted", colors.alert]];
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `14px ${FONT}`;
  let x = EDGE;
  for (const [mark, name, color] of items) {
    const words = t(`charts.legend.${name}`);
    draw(mark, words, color, x);
    x += 24 + pen.measureText(words).width + 24;
  }
}

/** The first words that fit. */
function fitting(text, width, font) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = font;
  if (pen.measureText(text).width <= width) return text;
  const letters = [...text.slice(0, width)];
  while (letters.length && pen.measureText(`${letters.join("")}…`).width > width) letters.pop();
  return `${letters.join("").trimEnd()}…`;
}

/** @param {string} svg @returns {Promise<Blob|null>} */
export async function painted(svg) {
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: image.width * SCALE, height: image.height * SCALE });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}
