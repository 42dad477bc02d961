// How the viewer starts, in the page of the app and in a static site alike: its language, Plotly, the recordings, and what the address asks for.

import { languageOf } from "./language.mjs";
import { mount } from "./stage.mjs";

/**
 * @param {HTMLElement} node an element that the viewer owns from now on
 * @param {{base: URL, api?: string|null, emit?: (name: string, detail: object) => void, live?: boolean}} options `base`: where assets/, traces/ and
 *   plotly.min.js lie; `api`: the address of the page that can run things; `live`: something runs already, so no recording greets
 * @returns {Promise<import("./stage.mjs").View>}
 */
export async function boot(node, { base, api = null, emit, live = false }) {
  const asked = new URLSearchParams(location.search);
  const loadPlotly = () =>
    window.Plotly
      ? Promise.resolve(window.Plotly)
      : new Promise((done, failed) => {
          const script = document.createElement("script");
          script.src = new URL("plotly.min.js", base);
          script.onload = () => done(window.Plotly);
          script.onerror = failed;
          document.head.append(script);
        });
  const fetched = (path, read, otherwise) => fetch(new URL(path, base)).then((answer) => (answer.ok ? read(answer) : otherwise)).catch(() => otherwise);
  const language = languageOf();
  // English comes with the modules.
  const strings = language === "en" ? null : await fetched(`assets/i18n/${language}.json`, (answer) => answer.json(), null);
  node.lang = language;
  const index = fetched("traces/index.json", (answer) => answer.json(), []);
  const recordings = { list: () => index, text: (file) => fetched(`traces/${file}`, (answer) => answer.text(), "") };
  const view = mount(node, { loadPlotly, emit, strings, api, forks: Boolean(api && emit), recordings });
  if (asked.has("projector")) view.project(true);
  if (asked.get("view") === "grid") view.look("grid");
  const card = /^[1-7]$/.test(asked.get("card") ?? "") ? Number(asked.get("card")) : null;
  if (live || asked.get("trace") === "none" || asked.has("settings")) return view;
  if (card) view.lesson(card);
  else {
    // Before anything runs, a recorded run is there to be moved through: the one that the address names, or the first.
    const step = /^[0-9]{1,4}$/.test(asked.get("step") ?? "") ? Number(asked.get("step")) - 1 : null;
    const options = { step, compare: asked.get("compare") === "1" };
    if (!(asked.has("trace") && (await view.recorded(asked.get("trace"), options)))) {
      const [first] = await index;
      if (first && !view.running()) view.recorded(first.id, options);
    } else node.scrollIntoView({ block: "start" });
  }
  return view;
}
