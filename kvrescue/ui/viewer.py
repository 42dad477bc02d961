"""How the viewer gets into the page: its node, its script, and the files it asks this server for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr
import plotly
from starlette.responses import FileResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "assets"
TRACES = ROOT / "examples" / "traces"
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"

# The viewer owns everything inside its own node; Gradio only ever sees an empty, constant template.
VIEW_JS = """
const node = document.createElement("div");
element.querySelector("[data-kvr-root]").append(node);
const api = (window.gradio_config?.root || window.location.origin) + "/";
const base = new URL("kvrescue/", api);
const loadPlotly = () => window.Plotly ? Promise.resolve(window.Plotly) : new Promise((done, failed) => {
  const script = document.createElement("script");
  script.src = new URL("plotly.min.js", base);
  script.onload = () => done(window.Plotly);
  script.onerror = failed;
  document.head.append(script);
});
// The viewer speaks Korean where the browser does, or where the address asks for it (?lang=ko).
const asked = new URLSearchParams(window.location.search);
const korean = (asked.get("lang") ?? navigator.language).startsWith("ko");
const strings = korean ? fetch(new URL("assets/i18n/ko.json", base)).then((answer) => answer.ok ? answer.json() : null).catch(() => null) : null;
Promise.all([import(new URL("assets/js/trace_view.mjs", base)), strings]).then(([{ mount }, words]) => {
  const view = mount(node, { loadPlotly, strings: words, api });
  window.kvrescue = view;
  if (window.kvrescueThresholds) view.setThresholds(window.kvrescueThresholds);
  // Before anything runs, a recorded run is there to be moved through: the example's, or the one that the address names.
  const recordings = fetch(new URL("traces/index.json", base)).then((answer) => answer.ok ? answer.json() : []).catch(() => []);
  window.kvrescueRecorded = async (id, step = null) => {
    const entry = (await recordings).find((one) => one.id === id);
    const answer = entry && await fetch(new URL("traces/" + entry.file, base));
    if (answer?.ok && !view.running()) view.replay(await answer.text(), entry, step);
  };
  if (props.value) view.update(props.value);
  else if (asked.get("trace") !== "none" && !asked.has("settings")) recordings.then((list) => {
    const entry = list.find((one) => one.id === asked.get("trace")) ?? list[0];
    const step = /^[0-9]{1,4}$/.test(asked.get("step") ?? "") ? Number(asked.get("step")) - 1 : null;
    if (entry) window.kvrescueRecorded(entry.id, step);
  });
  watch("value", () => {
    if (props.value) view.update(props.value);
  });
});
"""
# What runs now is not replaced; a finished run is, by the recording of the example that was chosen.
RECORDED_JS = "(id) => { window.kvrescueRecorded?.(id); }"
THRESHOLDS_JS = """(tau_ent, tau_cmp) => {
  window.kvrescueThresholds = { tau_ent, tau_cmp };
  window.kvrescue?.setThresholds(window.kvrescueThresholds);
}"""


def viewer() -> gr.HTML:
    """The component; its value is a run's NDJSON text."""
    return gr.HTML(
        value="",
        html_template="<div data-kvr-root></div>",
        js_on_load=VIEW_JS,
        head='<link rel="stylesheet" href="/kvrescue/assets/css/trace_view.css">',
        apply_default_css=False,
        elem_id="kvr-view",
    )


def routes() -> list[BaseRoute]:
    """The viewer's files and Plotly's own script, from this server: the page asks no other host for anything."""

    def plotly_js(_request: Any) -> FileResponse:
        return FileResponse(PLOTLY, media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})

    files = [Mount(f"/kvrescue/{name}", StaticFiles(directory=folder)) for name, folder in (("assets", ASSETS), ("traces", TRACES))]
    return [Route("/kvrescue/plotly.min.js", plotly_js), *files]
