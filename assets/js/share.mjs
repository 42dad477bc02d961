// What can be taken away from a run: files, a picture, a summary, a link, and the same run as code.

import { save, signalsCsv, stepsCsv } from "./csv.mjs";
import { button, el, put, setText } from "./dom.mjs";
import { summaryOf } from "./markdown.mjs";

const FILES = ["trace", "steps", "signals", "settings", "charts", "summary"];
const COPIES = ["link", "python", "curl"];
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
  return { problem: String(header.problem), method, policy, budget, n, seed, settings, models: header.model_set || null };
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

/** Problem, models and settings in a query: they fill the form again and start nothing. */
export function settingsQuery(header) {
  const bytes = new TextEncoder().encode(JSON.stringify({ models: header.model_set || null, problem: String(header.problem), settings: header.config }));
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `settings=${text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

/**
 * @param {{t: import("./i18n.mjs").Translator, run: () => {state: object, text: string, recorded: string|null, step: number|null},
 *   picture: () => Promise<Blob|null>, api: string|null}} options `api`: the page's address, null where nothing can be run
 */
export function createShare({ t, run, picture, api }) {
  const root = el("details", "kvr-share");
  const copied = el("textarea", "kvr-copy");
  Object.assign(copied, { readOnly: true, rows: 4, hidden: true });
  copied.setAttribute("aria-label", t("share.text"));
  const told = el("p", "kvr-note");
  told.setAttribute("role", "status");
  const copies = COPIES.filter((kind) => api || kind === "link");
  const files = FILES.map((kind) => button("kvr-button", t(`share.${kind}`), () => file(kind)));
  put(root, el("summary", "kvr-button", t("share.title")), put(el("div", "kvr-replay-row"), ...files, ...copies.map((kind) => button("kvr-button", t(`share.${kind}`), () => copy(kind)))), copied, told);

  async function file(kind) {
    const { state, text } = run();
    const name = `kvrescue-${String(state.header?.run ?? "run").replace(/[^\w-]/g, "")}`;
    if (kind === "trace") save(text, `${name}.ndjson`, "application/x-ndjson");
    else if (kind === "steps") save(stepsCsv(state), `${name}-steps.csv`, "text/csv;charset=utf-8");
    else if (kind === "signals") save(signalsCsv(state), `${name}-signals.csv`, "text/csv;charset=utf-8");
    else if (kind === "settings") save(`${JSON.stringify(state.header.config, null, 2)}\n`, `${name}-settings.json`, "application/json");
    else if (kind === "summary") save(summaryOf(state, t), `${name}.md`, "text/markdown;charset=utf-8");
    else {
      const blob = await picture();
      if (blob) save(blob, `${name}-charts.png`, "image/png");
      setText(told, blob ? "" : t("charts.failed"));
    }
  }

  async function copy(kind) {
    const { state, recorded, step } = run();
    const page = api ?? new URL(location.pathname, location.origin).href;
    const query = recorded ? `trace=${encodeURIComponent(recorded)}${step === null ? "" : `&step=${step + 1}`}` : settingsQuery(state.header);
    copied.value = kind === "link" ? `${page}?${query}` : (kind === "python" ? pythonCall : curlCall)(state.header, page);
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
    reset() {
      copied.hidden = true;
      setText(told, "");
    },
  };
}
