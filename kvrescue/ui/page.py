"""The page: a run lane on top, the viewer below. ``build_page`` makes it, ``launch_options`` says how to serve it."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr
import plotly
from starlette.responses import FileResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from kvrescue import presets
from kvrescue.config import MAX_PROBLEM_CHARS, ConfigError, RunConfig, assumptions, check_problem, make_config
from kvrescue.events import AnyEvent
from kvrescue.ui import settings
from kvrescue.ui.api import solve_with
from kvrescue.ui.backend import Backend, BackendStatus
from kvrescue.ui.sessions import Sessions
from kvrescue.ui.stream import paced
from kvrescue.ui.theme import PAGE_CSS, PAGE_JS, theme

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "assets"
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
CLAIM = "A language model forgets when its KV cache is evicted. Watch it lose the thread, and see a small helper bring it back, step by step."
QUEUE_SIZE = 32
_MODEL = {"concurrency_id": "model", "concurrency_limit": 1}
_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}

# The viewer owns everything inside its own node; Gradio only ever sees an empty, constant template.
_VIEW_JS = """
const node = document.createElement("div");
element.querySelector("[data-kvr-root]").append(node);
const base = new URL((window.gradio_config?.root || window.location.origin) + "/kvrescue/");
const loadPlotly = () => window.Plotly ? Promise.resolve(window.Plotly) : new Promise((done, failed) => {
  const script = document.createElement("script");
  script.src = new URL("plotly.min.js", base);
  script.onload = () => done(window.Plotly);
  script.onerror = failed;
  document.head.append(script);
});
import(new URL("assets/js/trace_view.mjs", base)).then(({ mount }) => {
  const view = mount(node, { loadPlotly });
  window.kvrescue = view;
  if (window.kvrescueThresholds) view.setThresholds(window.kvrescueThresholds);
  view.update(props.value || "");
  watch("value", () => view.update(props.value || ""));
});
"""
_THRESHOLDS_JS = """(tau_ent, tau_cmp) => {
  window.kvrescueThresholds = { tau_ent, tau_cmp };
  window.kvrescue?.setThresholds(window.kvrescueThresholds);
}"""


def load_examples() -> list[dict[str, Any]]:
    return json.loads((ROOT / "examples" / "problems.json").read_text(encoding="utf-8"))


class Page:
    """The listeners and what they share. Visitors' texts live in ``sessions`` and nowhere else."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.sessions = Sessions()
        self.defaults = presets.default_config(backend.model_set).model_dump()
        self.examples = {example["id"]: example for example in load_examples()}
        self.first = next(iter(self.examples.values()))
        """On the page from the start, so that one click runs something."""

    # --- settings -----------------------------------------------------------------------------------------------------------

    def values(self, inputs: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(settings.FIELDS, inputs, strict=True))

    def fill_example(self, chosen: str | None) -> list[Any]:
        """Problem, reference answer and every setting of an example."""
        example = self.examples.get(chosen or "")
        if example is None:
            return [gr.skip()] * (2 + len(settings.FIELDS))
        values = {**self.defaults, **example["settings"]}
        return [example["problem"], self.reference(example), *(values[name] for name in settings.FIELDS)]

    @staticmethod
    def reference(example: dict[str, Any]) -> str:
        return f"Reference answer: **{example['answer']}**"

    def reset(self) -> list[Any]:
        return [self.defaults[name] for name in settings.FIELDS]

    def explain(self, *inputs: Any) -> tuple[str, str]:
        """What differs from the defaults, and the assumptions panel, for the settings as they stand."""
        values = self.values(inputs)
        try:
            config = settings.to_config(values)
        except ConfigError as error:
            return f"⚠ {as_code(str(error))}", gr.skip()
        return settings.changes(config.model_dump(), self.defaults), assumptions_table(config)

    # --- runs ---------------------------------------------------------------------------------------------------------------

    def start(self, request: gr.Request, problem: str, *inputs: Any) -> tuple[Any, Any, Any, str]:
        """Run was pressed: bad input is told before the run takes a place in the queue; else only Stop can be pressed now."""
        try:
            check_problem(problem)
            settings.to_config(self.values(inputs))
        except ConfigError as error:
            raise plain_error(str(error)) from None
        self.sessions.expect(request.session_hash or "")
        return gr.update(interactive=False), gr.update(interactive=True, variant="primary"), gr.update(interactive=False), "waiting for the model"

    def run(self, request: gr.Request, problem: str, *inputs: Any) -> Iterator[tuple[str, str]]:
        """Stream a run: (NDJSON so far, status line)."""
        key = request.session_hash or ""
        stop = self.sessions.begin(key)
        progress = Progress()
        text = ""
        try:
            config = settings.to_config(self.values(inputs))
            events = self.backend.run(check_problem(problem), config, stop)
            for piece in paced(events, progress.see):
                text += piece
                yield text, progress.line(config)
        except ConfigError as error:
            raise plain_error(str(error)) from None
        finally:
            stop.set()
            self.sessions.finish(key, stop, progress.run, text)
        if progress.error:
            raise plain_error(f"{progress.error} (run {progress.run})")

    def stop(self, request: gr.Request) -> str:
        self.sessions.stop(request.session_hash or "")
        return "stopping"

    def forget(self, request: gr.Request) -> None:
        self.sessions.forget(request.session_hash or "")

    def offer_trace(self, request: gr.Request) -> tuple[Any, Any, Any]:
        """After a run, however it ended: buttons back, and the trace to download if there is one."""
        path = self.sessions.trace_file(request.session_hash or "")
        download = gr.update(value=path, interactive=path is not None)
        return gr.update(interactive=True), gr.update(interactive=False, variant="secondary"), download

    # --- models and problem -------------------------------------------------------------------------------------------------

    def poll(self) -> tuple[str, Any]:
        status = self.backend.status()
        return badge(status), gr.Timer(active=not (status.ready or status.error))

    def count(self, problem: str) -> str:
        tokens = self.backend.count_tokens(problem) if problem and len(problem) <= MAX_PROBLEM_CHARS else None
        size = f"{len(problem or ''):,} of {MAX_PROBLEM_CHARS:,} characters"
        return f"{tokens:,} tokens · {size}" if tokens is not None else size


class Progress:
    """The status line of a run, from its events."""

    def __init__(self) -> None:
        self.run, self.step, self.tokens, self.error, self.closed = "", 0, 0, "", ""

    def see(self, event: AnyEvent) -> None:
        self.run = event.run
        if event.type == "step_begin":
            self.step = event.step + 1
        elif event.type == "commit":
            self.tokens += event.tokens
        elif event.type == "error":
            self.error = self.closed = event.message
        elif event.type == "end":
            self.closed = {"stopped": "stopped", "deadline": "time is up"}.get(event.reason, "finished")

    def line(self, config: RunConfig) -> str:
        if self.closed:
            return f"{self.closed} after {self.tokens} tokens in {self.step} steps"
        if not self.step:
            return "reading the problem"
        return f"step {self.step} of at most {config.max_steps} · {self.tokens} tokens committed"


def plain_error(message: str) -> gr.Error:
    """A toast that shows the sentence literally: toasts render HTML."""
    return gr.Error(html.escape(message, quote=False), print_exception=False)


def as_code(text: str) -> str:
    """Text that Markdown shows literally: no link, no picture, no markup."""
    return "`" + " ".join(text.replace("`", "'").split()) + "`"


def badge(status: BackendStatus) -> str:
    if status.error:
        return f"✕ **no models**: {as_code(status.error)}"
    if not status.ready:
        return f"◌ {html.escape(status.text)} … the page is ready, runs start when the models are"
    note = f" {html.escape(status.note)}" if status.note else ""
    return f"● ready on {html.escape(status.device)}: {html.escape(status.models)}.{note}"


def assumptions_table(config: RunConfig) -> str:
    head = ["The papers do not give these values; they are our choices, recorded in every trace.", "", "| setting | now | note |", "|---|---|---|"]
    return "\n".join(head + [f"| {row['field']} | `{row['value']!r}` | {row['note']} |" for row in assumptions(config)])


def build_page(backend: Backend) -> gr.Blocks:
    page = Page(backend)
    with gr.Blocks(title="kvrescue", analytics_enabled=False, fill_width=True, delete_cache=(3600, 86400)) as demo:
        timer = gr.Timer(1.0)
        with gr.Row(elem_id="kvr-head"):
            gr.Markdown(f"# kvrescue\n{CLAIM}", elem_id="kvr-title")
            models = gr.Markdown(badge(backend.status()), elem_id="kvr-models")
        with gr.Row(elem_id="kvr-lane"):
            with gr.Column(scale=5, min_width=320):
                example = gr.Dropdown(
                    [(f"{one['teaches']}: {one['title']}", one["id"]) for one in page.examples.values()],
                    label="Example (fills the problem and the settings)",
                    value=page.first["id"],
                    filterable=False,
                    interactive=True,
                    elem_id="kvr-example",
                )
                problem = gr.Textbox(
                    label="Problem",
                    value=page.first["problem"],
                    lines=4,
                    max_lines=8,
                    placeholder="Type a word problem, or choose an example.",
                    info="Ctrl+Enter runs it",
                    interactive=True,
                    elem_id="kvr-problem",
                )
                with gr.Row(elem_id="kvr-under"):
                    counter = gr.Markdown(page.count(""), elem_id="kvr-count")
                    reference = gr.Markdown(page.reference(page.first), elem_id="kvr-reference")
                with gr.Row():
                    run = gr.Button("Run", variant="primary", min_width=80, elem_id="kvr-run")
                    stop = gr.Button("Stop", interactive=False, min_width=80, elem_id="kvr-stop")
                    download = gr.DownloadButton("Trace", interactive=False, min_width=80, elem_id="kvr-download")
                status = gr.Markdown("", elem_id="kvr-status-line")
            with gr.Column(scale=6, min_width=320):
                method = gr.Radio(settings.METHOD_CHOICES, value=page.defaults["method"], label="Method", interactive=True, elem_id="kvr-method")
                with gr.Group():
                    basic = _grid(settings.BASIC, page.defaults)
                with gr.Accordion("Advanced settings", open=False, elem_id="kvr-advanced"):
                    advanced = _grid(settings.ADVANCED, page.defaults)
                with gr.Accordion("Assumptions: what the papers leave open", open=False, elem_id="kvr-assumptions"):
                    assumed = gr.Markdown(assumptions_table(make_config(**page.defaults)))
                with gr.Row():
                    changed = gr.Markdown("", elem_id="kvr-changed")
                    reset = gr.Button("Reset settings", size="sm", elem_id="kvr-reset")
        view = gr.HTML(
            value="",
            html_template="<div data-kvr-root></div>",
            js_on_load=_VIEW_JS,
            head='<link rel="stylesheet" href="/kvrescue/assets/css/trace_view.css">',
            apply_default_css=False,
            elem_id="kvr-view",
        )
        inputs: list[Any] = [method, *basic, *advanced]
        by_field = dict(zip(settings.FIELDS, inputs, strict=True))

        example.input(page.fill_example, example, [problem, reference, *inputs], queue=False, **_QUIET)
        reset.click(page.reset, None, inputs, queue=False, **_QUIET)
        gr.on([demo.load, problem.change], page.count, problem, counter, queue=False, trigger_mode="always_last", **_QUIET)
        problem.input(lambda: "", None, reference, queue=False, **_QUIET)
        gr.on([one.change for one in inputs], page.explain, inputs, [changed, assumed], queue=False, trigger_mode="always_last", **_QUIET)
        gr.on(
            [demo.load, by_field["tau_ent"].change, by_field["tau_cmp"].change],
            None,
            [by_field["tau_ent"], by_field["tau_cmp"]],
            None,
            js=_THRESHOLDS_JS,
            api_visibility="private",
        )
        gr.on([demo.load, timer.tick], page.poll, None, [models, timer], queue=False, **_QUIET)

        # Queued, because only then an error becomes a toast, but never behind a run.
        started = run.click(page.start, [problem, *inputs], [run, stop, download, status], concurrency_limit=None, **_QUIET)
        running = started.success(
            page.run,
            [problem, *inputs],
            [view, status],
            trigger_mode="once",
            show_progress="full",
            show_progress_on=[status],
            api_visibility="private",
            **_MODEL,
        )
        for ended in (running.success, running.failure):
            ended(page.offer_trace, None, [run, stop, download], queue=False, **_QUIET)
        stop.click(page.stop, None, status, queue=False, **_QUIET)
        demo.unload(page.forget)
        gr.api(solve_with(backend), api_name="solve", **_MODEL)
    return demo.queue(max_size=QUEUE_SIZE)


def _grid(controls: list[settings.Control], values: dict[str, Any], columns: int = 3) -> list[Any]:
    made: list[Any] = []
    for start in range(0, len(controls), columns):
        with gr.Row():
            made += [settings.build(control, values[control.field]) for control in controls[start : start + columns]]
    return made


def routes() -> list[BaseRoute]:
    """The viewer's files and Plotly's own script, from this server: the page asks no other host for anything."""

    def plotly_js(_request: Any) -> FileResponse:
        return FileResponse(PLOTLY, media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})

    return [Route("/kvrescue/plotly.min.js", plotly_js), Mount("/kvrescue/assets", StaticFiles(directory=ASSETS))]


def launch_options() -> dict[str, Any]:
    """Arguments of ``Blocks.launch`` that belong to the page wherever it is served."""
    return {
        "theme": theme(),
        "css": PAGE_CSS,
        "js": PAGE_JS,
        "run_history": False,
        "footer_links": ["api"],
        "show_error": True,
        "state_session_capacity": 256,
        "ssr_mode": False,
        "app_kwargs": {"routes": routes()},
        "max_file_size": "10mb",
        "server_name": os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1"),
    }
