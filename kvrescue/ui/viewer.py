"""How the viewer gets into the page: its node, its script, and the files it asks this server for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr
from starlette.responses import FileResponse, JSONResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from kvrescue.export import ASSETS, TRACES, plotly_js

# The viewer owns everything inside its own node; Gradio only ever sees an empty, constant template.
VIEW_JS = """
const node = document.createElement("div");
element.querySelector("[data-kvr-root]").append(node);
const api = (window.gradio_config?.root || window.location.origin) + "/";
const base = new URL("kvrescue/", api);
const emit = (name, detail) => { if (name === "fork") trigger("fork", detail); };
import(new URL("assets/js/boot.mjs", base)).then(({ boot }) => boot(node, { base, api, emit, live: Boolean(props.value) })).then((view) => {
  window.kvrescue = view;
  if (window.kvrescueThresholds) view.setThresholds(window.kvrescueThresholds);
  if (props.value) view.update(props.value);
  watch("value", () => {
    if (props.value) view.update(props.value);
  });
});
"""
# What runs now is not replaced; a finished run is, by the recording of the example that was chosen.
RECORDED_JS = "(id) => { window.kvrescue?.recorded(id); }"
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


def routes(health: Callable[[], dict[str, Any]]) -> list[BaseRoute]:
    """The viewer's files and Plotly's own script, from this server: the page asks no other host for anything. And how the server feels."""

    def plotly(_request: Any) -> FileResponse:
        return FileResponse(plotly_js(), media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})

    files = [Mount(f"/kvrescue/{name}", StaticFiles(directory=folder)) for name, folder in (("assets", ASSETS), ("traces", TRACES))]

    def healthy(_request: Any) -> JSONResponse:
        return JSONResponse(health(), headers={"Cache-Control": "no-store"})

    return [Route("/kvrescue/health", healthy), Route("/kvrescue/plotly.min.js", plotly), *files]
