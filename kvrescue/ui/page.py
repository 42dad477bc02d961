"""The page: a run lane on top, the viewer below. ``build_page`` makes it, ``launch_options`` says how to serve it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from kvrescue import presets
from kvrescue.bench.grading import MOST_REFERENCE_CHARS
from kvrescue.config import make_config
from kvrescue.lab.story import DIFFICULTIES
from kvrescue.ui import settings
from kvrescue.ui.api import solve_with
from kvrescue.ui.backend import Backend
from kvrescue.ui.language import AskedLanguage, switch, toast_css
from kvrescue.ui.listeners import Page, assumptions_table, badge, choices, heading, set_title
from kvrescue.ui.theme import PAGE_CSS, PAGE_JS, theme
from kvrescue.ui.viewer import RECORDED_JS, THRESHOLDS_JS, routes, viewer
from kvrescue.ui.words import label, labels, words

QUEUE_SIZE = 32
COMPARED = ["full", "evicted", "kv-rescue"]
_MODEL = {"concurrency_id": "model", "concurrency_limit": 1}
OWN_TEXT_JS = "(known) => (document.activeElement?.closest('#kvr-problem') ? '' : known)"
_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}


class Served(gr.Blocks):
    """The page, and what it says about itself at /kvrescue/health."""

    health: Callable[[], dict[str, Any]]


def build_page(*backends: Backend) -> Served:
    """The page over one or more model sets; the first is shown, the others are loaded when a visitor chooses them."""
    page = Page(*backends)
    backend, defaults, examples = backends[0], page.defaults[page.start_set], page.examples_of(page.start_set)
    first = examples[0]
    with Served(title="kvrescue", analytics_enabled=False, fill_width=True, delete_cache=(3600, 86400)) as demo:
        timer = gr.Timer(1.0)
        with gr.Row(elem_id="kvr-head"):
            title = gr.Markdown(heading(words("en")), elem_id="kvr-title")
            models = gr.Markdown(badge(backend.status(), words("en")), elem_id="kvr-models")
            switch()
        with gr.Row(elem_id="kvr-lane"):
            with gr.Column(scale=5, min_width=320):
                with gr.Row():
                    example = gr.Dropdown(
                        choices(examples, words("en")),
                        label=label("page.example"),
                        value=first["id"],
                        filterable=False,
                        interactive=True,
                        scale=3,
                        min_width=200,
                        elem_id="kvr-example",
                    )
                    models_choice = gr.Dropdown(
                        [(set_title(name), name) for name in page.backends],
                        label=label("page.models"),
                        value=page.start_set,
                        filterable=False,
                        interactive=True,
                        scale=2,
                        min_width=160,
                        elem_id="kvr-set",
                    )
                problem = gr.Textbox(
                    label=label("page.problem"),
                    value=first["problem"],
                    lines=3,
                    max_lines=5,
                    placeholder=label("page.problem.placeholder"),
                    info=label("page.problem.info"),
                    interactive=True,
                    elem_id="kvr-problem",
                )
                counter = gr.Markdown(page.count(page.start_set, ""), elem_id="kvr-count")
                with gr.Row(elem_id="kvr-under"):
                    reference = gr.Textbox(
                        first["answer"],
                        label=label("page.reference"),
                        max_length=MOST_REFERENCE_CHARS,
                        max_lines=1,
                        interactive=True,
                        min_width=150,
                        elem_id="kvr-reference",
                    )
                    with gr.Row(visible=page.start_set in presets.LAB_SETS, scale=2, elem_id="kvr-generator") as generator:
                        difficulty = gr.Dropdown(
                            list(DIFFICULTIES),
                            value="medium",
                            label=label("page.difficulty"),
                            filterable=False,
                            interactive=True,
                            min_width=110,
                            elem_id="kvr-difficulty",
                        )
                        fresh = gr.Button(label("page.new"), min_width=110, elem_id="kvr-new")
                with gr.Row():
                    run = gr.Button(label("page.run"), variant="primary", min_width=80, elem_id="kvr-run")
                    compare = gr.Button(label("page.compare"), min_width=80, elem_id="kvr-compare")
                    stop = gr.Button(label("page.stop"), interactive=False, min_width=80, elem_id="kvr-stop")
                    download = gr.DownloadButton(label("page.trace"), interactive=False, min_width=80, elem_id="kvr-download")
                status = gr.Markdown("", elem_id="kvr-status-line")
            with gr.Column(scale=6, min_width=320):
                method = gr.Radio(
                    settings.method_choices(words("en")), value=defaults["method"], label=label("page.method"), interactive=True, elem_id="kvr-method"
                )
                with gr.Group():
                    basic = _grid(settings.BASIC, defaults)
                with gr.Accordion(label("page.advanced"), open=False, elem_id="kvr-advanced"):
                    advanced = _grid(settings.ADVANCED, defaults)
                with gr.Accordion(label("page.reco"), open=False, elem_id="kvr-reco"):
                    reco = _grid(settings.RECO, defaults)
                with gr.Accordion(label("page.compared"), open=False, elem_id="kvr-compared") as comparing:
                    methods = gr.CheckboxGroup(
                        settings.method_choices(words("en")), value=COMPARED, label=label("page.methods"), interactive=True, elem_id="kvr-methods"
                    )
                with gr.Accordion(label("page.assumptions"), open=False, elem_id="kvr-assumptions"):
                    assumed = gr.Markdown(assumptions_table(make_config(**defaults), "en"))
                with gr.Row():
                    changed = gr.Markdown("", elem_id="kvr-changed")
                    reset = gr.Button(label("page.reset"), size="sm", elem_id="kvr-reset")
        view = viewer()
        inputs: list[Any] = [method, *basic, *advanced, *reco]
        by_field = dict(zip(settings.FIELDS, inputs, strict=True))

        example.input(page.fill_example, [models_choice, example], [problem, reference, *inputs], queue=False, **_QUIET)
        example.input(None, example, None, js=RECORDED_JS, api_visibility="private")
        models_choice.input(page.switch, models_choice, [timer, example, generator, problem, reference, *inputs], queue=False, **_QUIET)
        fresh.click(page.new_problem, difficulty, [problem, reference], queue=False, **_QUIET)
        method.input(page.suit, [models_choice, method], [by_field[name] for name in settings.SUITED], queue=False, **_QUIET)
        reset.click(page.reset, models_choice, inputs, queue=False, **_QUIET)
        gr.on([demo.load, problem.change], page.count, [models_choice, problem], counter, queue=False, trigger_mode="always_last", **_QUIET)
        # Typed or pasted by hand, it is another problem than the one whose answer is known. (Gradio's own input event misses what is pasted.)
        problem.change(None, reference, reference, js=OWN_TEXT_JS, api_visibility="private")
        explained = {"queue": False, "trigger_mode": "always_last", **_QUIET}
        gr.on([one.change for one in inputs], page.explain, [models_choice, *inputs], [changed, assumed], **explained)
        gr.on(
            [demo.load, by_field["tau_ent"].change, by_field["tau_cmp"].change],
            None,
            [by_field["tau_ent"], by_field["tau_cmp"]],
            None,
            js=THRESHOLDS_JS,
            api_visibility="private",
        )
        spoken = [title, example, method, methods, difficulty, *(by_field[field] for field in settings.CHOSEN)]
        demo.load(page.speak, None, spoken, queue=False, **_QUIET)
        demo.load(page.from_link, None, [models_choice, problem, reference, methods, comparing, *inputs], **_QUIET)
        gr.on([demo.load, timer.tick], page.poll, models_choice, [models, timer], queue=False, **_QUIET)

        opening = gr.State(None, time_to_live=3600)
        buttons = [run, compare, stop, download, status]
        # Queued, because only then an error becomes a toast, but never behind a run.
        first_step: dict[str, Any] = {"concurrency_limit": None, **_QUIET}
        started = run.click(page.start, [models_choice, problem, *inputs], [*buttons, opening], **first_step)
        forked = view.fork(page.start_fork, [models_choice, *inputs], [*buttons, problem, reference, opening], **first_step)
        compared = compare.click(page.start_comparison, [models_choice, problem, methods, *inputs], buttons, **first_step)
        for begun, call, asked in (
            (started, page.run, [models_choice, problem, reference, opening, *inputs]),
            (forked, page.run, [models_choice, problem, reference, opening, *inputs]),
            (compared, page.compare, [models_choice, problem, reference, methods, *inputs]),
        ):
            running = begun.success(
                call,
                asked,
                [view, status],
                trigger_mode="once",
                show_progress="full",
                show_progress_on=[status],
                api_visibility="private",
                **_MODEL,
            )
            for ended in (running.success, running.failure):
                ended(page.offer_trace, None, [run, compare, stop, download], queue=False, **_QUIET)
        stop.click(page.stop, None, status, queue=False, **_QUIET)
        demo.unload(page.forget)
        gr.api(solve_with(page.backends), api_name="solve", **_MODEL)
    demo.queue(max_size=QUEUE_SIZE)
    demo.health = page.health
    return demo


def _grid(controls: list[settings.Control], values: dict[str, Any], columns: int = 3) -> list[Any]:
    made: list[Any] = []
    for start in range(0, len(controls), columns):
        with gr.Row():
            made += [settings.build(control, values[control.field]) for control in controls[start : start + columns]]
    return made


def launch_options(demo: Served, host: str | None = None) -> dict[str, Any]:
    """Arguments of ``Blocks.launch`` that belong to the page wherever it is served."""
    return {
        "theme": theme(),
        "i18n": labels(),
        "css": f"{PAGE_CSS}\n{toast_css()}",
        "js": PAGE_JS,
        "run_history": False,
        "footer_links": ["api"],
        "show_error": True,
        "state_session_capacity": 256,
        "ssr_mode": False,
        "app_kwargs": {"routes": routes(demo.health), "middleware": [Middleware(AskedLanguage)]},
        "max_file_size": "10mb",
        "server_name": host or os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1"),
    }
