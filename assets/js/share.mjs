// What can be taken away from a run: files, a picture, a summary, a link, and the same run as code.

import { save, signalsCsv, stepsCsv } from "./csv.mjs";
import { button, el, put, setText } from "./dom.mjs";
import { summaryOf } from "./markdown.mjs";
import { painted } from "./picture.mjs";

const SEPARATE = ["method", "policy", "budget", "n", "seed"];

/** Python's way to write a JSON value. */
export function python(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([key, one]) => `${python(key)}: ${python(one)}`).join(", ")}}`;
  // JSON's escapes are Python's, but for characters that would end a line there.
  return JSON.stringify(value).replace(/[\u007f-\u009f\u2028\u2029\ud800-\udfff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function asked(header) {
  const settings = Object.fromEntries(Object.entries(header.config).filter(([name]) => !SEPARATE.includes(name)));
  const { method, policy, budget, n, seed } = header.config;
  return { problem: String(header.problem), method, policy, budget, n, seed, settings, models: header.model_set || null, reference: String(header.reference ?? "") };
}

/** The run as a call of the page's public endpoint. @param {string} url the page's address */
export function pythonCall(header, url) {
  const given = Object.entries(asked(header)).map(([name, value]) => `    ${name}=${python(value)},\n`).join("");
  return `from gradio_client import Client\n\nclient = Client(${python(url)})\nresult = client.predict(\n${given}    api_name="/solve",\n)\nprint(result["summary"])\n`;
}

export function curlCall(header, url) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const address = `${url.replace(/\/+$/, "")}/gradio_api/call/solve`;
  const body = JSON.stringify({ data: Object.values(asked(header)) });
  return `curl -s -X POST ${quoted(address)} -H 'Content-Type: application/json' \\\n  -d ${quoted(body)} \\\n  | sed 's/.*"event_id": *"\\([^"]*\\)".*/\\1/' | xargs -I{} curl -sN ${quoted(`${address}/{}`)}\n`;
}

/** Problem, models and settings in a query: they fill the form again and start nothing. @param {string[]} [methods] of a comparison */
export function settingsQuery(header, methods) {
  const given = { models: header.model_set || null, problem: String(header.problem), reference: String(header.reference ?? ""), settings: header.config, methods };
  const bytes = new TextEncoder().encode(JSON.stringify(given));
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `settings=${text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/**
 * What can be taken away: files and texts to copy, each under the name of its sentence (`share.<name>`).
 * @param {{t: import("./i18n.mjs").Translator, files: Record<string, () => Saved|Promise<Saved>>, copies: Record<string, () => string|null>}} options
 *   `files` give content, name and type (null: it could not be made), `copies` the text
 */
/** @typedef {[content: string|Blob, name: string, type: string]|null} Saved */
export function createShare({ t, files, copies }) {
  const root = el("details", "kvr-share");
  const copied = el("textarea", "kvr-copy");
  Object.assign(copied, { readOnly: true, rows: 4, hidden: true });
  copied.setAttribute("aria-label", t("share.text"));
  const told = el("p", "kvr-note");
  told.setAttribute("role", "status");
  const buttons = [
    ...Object.keys(files).map((kind) => button("kvr-button", t(`share.${kind}`), () => file(kind))),
    ...Object.keys(copies).map((kind) => button(`kvr-button kvr-copy-${kind}`, t(`share.${kind}`), () => copy(kind))),
  ];
  const nowhere = el("p", "kvr-note", t("share.nolink"));
  nowhere.hidden = true;
  put(root, el("summary", "kvr-button", t("share.title")), put(el("div", "kvr-replay-row"), ...buttons), nowhere, copied, told);

  async function file(kind) {
    const made = await files[kind]();
    if (made) save(...made);
    setText(told, made ? "" : t("charts.failed"));
  }

  async function copy(kind) {
    copied.value = copies[kind]();
    copied.hidden = false;
    try {
      await navigator.clipboard.writeText(copied.value);
      setText(told, t("share.copied"));
    } catch {
      // A page inside another page may not be allowed to: the text is there to be copied by hand.
      copied.focus();
      copied.select();
      setText(told, t("share.byhand"));
    }
  }

  return {
    root,
    /** Whether what is shown has an address. */
    address(has) {
      root.querySelector(".kvr-copy-link").hidden = !has;
      nowhere.hidden = has;
    },
    reset() {
      copied.hidden = true;
      setText(told, "");
    },
  };
}

export const fileName = (run, ending) => `kvrescue-${String(run ?? "run").replace(/[^\w-]/g, "")}${ending}`;
export const pageAddress = (api) => api ?? new URL(location.pathname, location.origin).href;

/**
 * @param {{t: import("./i18n.mjs").Translator, run: () => {state: object, text: string, recorded: string|null, step: number|null, look: string},
 *   picture: (whole: object) => Promise<string|null>, api: string|null}} options `picture`: all charts of a run as SVG; `api`: the page's address, null where nothing can be run
 */
export function shareOfRun({ t, run, picture, api }) {
  const csv = "text/csv;charset=utf-8";
  const named = (state, ending) => fileName(state.header?.run, ending);
  const from = (make) => () => make(run());
  const files = {
    trace: from(({ state, text }) => [text, named(state, ".ndjson"), "application/x-ndjson"]),
    steps: from(({ state }) => [stepsCsv(state), named(state, "-steps.csv"), csv]),
    signals: from(({ state }) => [signalsCsv(state), named(state, "-signals.csv"), csv]),
    settings: from(({ state }) => [`${JSON.stringify(state.header.config, null, 2)}\n`, named(state, "-settings.json"), "application/json"]),
    charts: from(async ({ state }) => {
      const svg = await picture(state);
      return svg && [await painted(svg), named(state, "-charts.png"), "image/png"];
    }),
    drawing: from(async ({ state }) => {
      const svg = await picture(state);
      return svg && [svg, named(state, "-charts.svg"), "image/svg+xml"];
    }),
    summary: from(({ state }) => [summaryOf(state, t), named(state, ".md"), "text/markdown;charset=utf-8"]),
  };
  const link = from(({ state, recorded, step, look }) => {
    const place = `trace=${encodeURIComponent(recorded)}&step=${(step ?? -1) + 1}${look === "grid" ? "&view=grid" : ""}`;
    const query = recorded ? place : settingsQuery(state.header);
    return `${pageAddress(api)}?${query}`;
  });
  const calls = { python: from(({ state }) => pythonCall(state.header, pageAddress(api))), curl: from(({ state }) => curlCall(state.header, pageAddress(api))) };
  return createShare({ t, files, copies: api ? { link, ...calls } : { link } });
}
