"""The page: a run lane on top, the viewer below. ``build_page`` makes it, ``launch_options`` says how to serve it."""

from __future__ import annotations

import html
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from kvrescue import presets
from kvrescue.bench.grading import MOST_REFERENCE_CHARS, Kind, graded
from kvrescue.config import MAX_PROBLEM_CHARS, ConfigError, RunConfig, assumptions, check_problem, make_config
from kvrescue.engine.methods import PARTS
from kvrescue.events import AnyEvent
from kvrescue.lab.story import DIFFICULTIES, held_out
from kvrescue.opening import Opening, make_opening
from kvrescue.ui import settings
from kvrescue.ui.api import solve_with
from kvrescue.ui.backend import Backend, BackendStatus
from kvrescue.ui.sessions import Sessions
from kvrescue.ui.stream import paced, slowed
from kvrescue.ui.theme import PAGE_CSS, PAGE_JS, theme
from kvrescue.ui.viewer import RECORDED_JS, THRESHOLDS_JS, routes, viewer

CLAIM = "A language model forgets when its KV cache is evicted. Watch it lose the thread, and see a small helper bring it back, step by step."
QUEUE_SIZE = 32
OWN = "own"
"""Stands for somebody's own models among the model sets."""
MOST_LANES = 4
COMPARED = ["full", "evicted", "kv-rescue"]
_MODEL = {"concurrency_id": "model", "concurrency_limit": 1}
_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}


class Page:
    """The listeners and what they share. Visitors' texts live in ``sessions`` and nowhere else."""

    def __init__(self, *backends: Backend) -> None:
        self.backends = {backend.model_set or OWN: backend for backend in backends}
        self.start_set = next(iter(self.backends))
        self.sessions = Sessions()
        self.defaults = {name: presets.default_config(backend.model_set).model_dump() for name, backend in self.backends.items()}
        self.examples = {example["id"]: example for example in presets.load_examples()}

    def examples_of(self, models: str) -> list[dict[str, Any]]:
        """The examples that these models can read; the first is on the page from the start, so that one click runs something."""
        return [example for example in self.examples.values() if (example["models"] == "lab") == (models == "lab")]

    # --- model sets ---------------------------------------------------------------------------------------------------------

    def switch(self, models: str) -> list[Any]:
        """Other models were chosen: they begin to load, and examples and settings become theirs."""
        self.backends[models].start()
        examples = self.examples_of(models)
        filled = self.fill_example(models, examples[0]["id"])
        return [gr.Timer(active=True), gr.update(choices=choices(examples), value=examples[0]["id"]), gr.update(visible=models == "lab"), *filled]

    @staticmethod
    def new_problem(difficulty: str) -> tuple[str, str]:
        """A fresh story of the lab and its answer."""
        told = held_out(random.SystemRandom().randrange(10**9), 0, difficulty)  # type: ignore[arg-type]
        return told.text, str(told.answer)

    # --- settings -----------------------------------------------------------------------------------------------------------

    def values(self, inputs: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(settings.FIELDS, inputs, strict=True))

    def fill_example(self, models: str, chosen: str | None) -> list[Any]:
        """Problem, reference answer and every setting of an example."""
        example = self.examples.get(chosen or "")
        if example is None:
            return [gr.skip()] * (2 + len(settings.FIELDS))
        values = {**self.defaults[models], **example["settings"]}
        return [example["problem"], example["answer"], *(values[name] for name in settings.FIELDS)]

    def reset(self, models: str) -> list[Any]:
        return [self.defaults[models][name] for name in settings.FIELDS]

    def suit(self, models: str, method: str) -> list[Any]:
        """A method was chosen: what a model set wants for ReCo, or else as everywhere; other settings stay as they are."""
        if models not in presets.MODEL_SETS or not presets.MODEL_SETS[models].reco:
            return [gr.skip()] * len(settings.SUITED)
        values = {**self.defaults[models], **presets.default_settings(models, method)}
        return [values[name] for name in settings.SUITED]

    def explain(self, models: str, *inputs: Any) -> tuple[str, str]:
        """What differs from the defaults, and the assumptions panel, for the settings as they stand."""
        values = self.values(inputs)
        try:
            config = settings.to_config(values)
        except ConfigError as error:
            return f"⚠ {as_code(str(error))}", gr.skip()
        return settings.changes(config.model_dump(), self.defaults[models]), assumptions_table(config)

    def from_link(self, request: gr.Request) -> list[Any]:
        """A link that carries a run's settings fills the form and starts nothing; a link that does not read is told, and changes nothing."""
        text = request.query_params.get("settings")
        if not text:
            return [gr.skip()] * (2 + len(settings.FIELDS))
        try:
            models, problem, values = settings.from_link(text)
        except ConfigError as error:
            raise plain_error(str(error)) from None
        chosen = models if models in self.backends else self.start_set
        self.backends[chosen].start()
        return [chosen, problem, *(values[name] for name in settings.FIELDS)]

    # --- runs ---------------------------------------------------------------------------------------------------------------

    def start(self, request: gr.Request, models: str, problem: str, *inputs: Any) -> list[Any]:
        """Run was pressed: bad input is told before the run takes a place in the queue; else only Stop can be pressed now."""
        try:
            self.backends[models].check(check_problem(problem))
            settings.to_config(self.values(inputs))
        except ConfigError as error:
            raise plain_error(str(error)) from None
        return [*self.expect(request), None]

    def start_comparison(self, request: gr.Request, models: str, problem: str, methods: list[str], *inputs: Any) -> list[Any]:
        """Compare was pressed: as :meth:`start`, for every method."""
        try:
            self.backends[models].check(check_problem(problem))
            self.lanes(models, methods, inputs)
        except ConfigError as error:
            raise plain_error(str(error)) from None
        return self.expect(request)

    def start_fork(self, request: gr.Request, models: str, event: gr.EventData, *inputs: Any) -> list[Any]:
        """A run is to go on from a step of the trace in the viewer, with the settings of the form. The trace may be anybody's file."""
        try:
            asked = event._data if isinstance(event._data, dict) else {}
            problem = check_problem(asked.get("problem"))
            if asked.get("models") and asked["models"] != (self.backends[models].model_set or ""):
                raise ConfigError("models", f"The trace was made by the models {str(asked['models'])[:40]!r}; choose them first.")
            self.backends[models].check(problem)
            opening = make_opening(asked.get("opening"))
            settings.to_config(self.values(inputs))
        except ConfigError as error:
            raise plain_error(str(error)) from None
        reference = asked.get("reference")
        return [*self.expect(request), problem, reference if isinstance(reference, str) else "", opening]

    def expect(self, request: gr.Request) -> list[Any]:
        self.sessions.expect(request.session_hash or "")
        only_stop = [gr.update(interactive=False), gr.update(interactive=False), gr.update(interactive=True, variant="primary")]
        return [*only_stop, gr.update(interactive=False), "waiting for the model"]

    def lanes(self, models: str, methods: list[str], inputs: tuple[Any, ...]) -> list[RunConfig]:
        """One configuration a method, in the page's order."""
        chosen = [name for name in PARTS if name in (methods or [])]
        if not 2 <= len(chosen) <= MOST_LANES:
            raise ConfigError("methods", f"{len(chosen)} methods are chosen; a comparison takes 2 to {MOST_LANES}.")
        config = settings.to_config(self.values(inputs))
        return [presets.with_method(config, name, self.backends[models].model_set) for name in chosen]

    def run(self, request: gr.Request, models: str, problem: str, reference: str, opening: Opening | None, *inputs: Any) -> Iterator[tuple[str, str]]:
        """Stream a run: (NDJSON so far, status line)."""
        yield from self.stream(request, models, problem, reference, lambda: [settings.to_config(self.values(inputs))], opening)

    def compare(self, request: gr.Request, models: str, problem: str, reference: str, methods: list[str], *inputs: Any) -> Iterator[tuple[str, str]]:
        """Stream several methods' runs of one problem, one after another, as one text: each begins with its header."""
        yield from self.stream(request, models, problem, reference, lambda: self.lanes(models, methods, inputs))

    def stream(
        self, request: gr.Request, models: str, problem: str, reference: str, configs: Callable[[], list[RunConfig]], opening: Opening | None = None
    ) -> Iterator[tuple[str, str]]:
        key = request.session_hash or ""
        stop = self.sessions.begin(key)
        progress = Progress()
        text, failed = "", ""
        kind: Kind = "lab" if models == "lab" else "math"
        try:
            lanes = configs()
            known = str(reference or "").strip()[:MOST_REFERENCE_CHARS]
            for number, config in enumerate(lanes):
                progress = Progress(f"{PARTS[config.method].title} ({number + 1} of {len(lanes)}): " if len(lanes) > 1 else "")
                events = self.backends[models].run(check_problem(problem), config, stop, opening)
                for piece in paced(slowed(graded(events, known, kind), pace_of(models), stop), progress.see):
                    text += piece
                    yield text, progress.line(config)
                failed = failed or progress.error
                if progress.closed == "stopped":
                    break
        except ConfigError as error:
            raise plain_error(str(error)) from None
        finally:
            stop.set()
            self.sessions.finish(key, stop, progress.run, text)
        if failed:
            raise plain_error(f"{failed} (run {progress.run})")

    def stop(self, request: gr.Request) -> str:
        self.sessions.stop(request.session_hash or "")
        return "stopping"

    def forget(self, request: gr.Request) -> None:
        self.sessions.forget(request.session_hash or "")

    def offer_trace(self, request: gr.Request) -> list[Any]:
        """After a run, however it ended: buttons back, and the trace to download if there is one."""
        path = self.sessions.trace_file(request.session_hash or "")
        download = gr.update(value=path, interactive=path is not None)
        ready = gr.update(interactive=True)
        return [ready, ready, gr.update(interactive=False, variant="secondary"), download]

    # --- models and problem -------------------------------------------------------------------------------------------------

    def poll(self, models: str) -> tuple[str, Any]:
        status = self.backends[models].status()
        return badge(status), gr.Timer(active=not (status.ready or status.error))

    def count(self, models: str, problem: str) -> str:
        tokens = self.backends[models].count_tokens(problem) if problem and len(problem) <= MAX_PROBLEM_CHARS else None
        size = f"{len(problem or ''):,} of {MAX_PROBLEM_CHARS:,} characters"
        return f"{tokens:,} tokens · {size}" if tokens is not None else size


class Progress:
    """The status line of a run, from its events."""

    def __init__(self, before: str = "") -> None:
        """``before``: what the line begins with."""
        self.before = before
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
            return f"{self.before}{self.closed} after {self.tokens} tokens in {self.step} steps"
        if not self.step:
            return f"{self.before}reading the problem"
        return f"{self.before}step {self.step} of at most {config.max_steps} · {self.tokens} tokens committed"


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
    rows = [(row["field"], as_code(repr(row["value"])).replace("|", "\\|"), row["note"]) for row in assumptions(config)]
    return "\n".join(head + [f"| {field} | {value} | {note} |" for field, value, note in rows])


def choices(examples: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(f"{one['teaches']}: {one['title']}", one["id"]) for one in examples]


def pace_of(models: str) -> float:
    return (presets.OWN_MODELS if models == OWN else presets.MODEL_SETS[models]).pace_s


def set_title(models: str) -> str:
    return (presets.OWN_MODELS if models == OWN else presets.MODEL_SETS[models]).title


def build_page(*backends: Backend) -> gr.Blocks:
    """The page over one or more model sets; the first is shown, the others are loaded when a visitor chooses them."""
    page = Page(*backends)
    backend, defaults, examples = backends[0], page.defaults[page.start_set], page.examples_of(page.start_set)
    first = examples[0]
    with gr.Blocks(title="kvrescue", analytics_enabled=False, fill_width=True, delete_cache=(3600, 86400)) as demo:
        timer = gr.Timer(1.0)
        with gr.Row(elem_id="kvr-head"):
            gr.Markdown(f"# kvrescue\n{CLAIM}", elem_id="kvr-title")
            models = gr.Markdown(badge(backend.status()), elem_id="kvr-models")
        with gr.Row(elem_id="kvr-lane"):
            with gr.Column(scale=5, min_width=320):
                with gr.Row():
                    example = gr.Dropdown(
                        choices(examples),
                        label="Example (fills the problem and the settings)",
                        value=first["id"],
                        filterable=False,
                        interactive=True,
                        scale=3,
                        min_width=200,
                        elem_id="kvr-example",
                    )
                    models_choice = gr.Dropdown(
                        [(set_title(name), name) for name in page.backends],
                        label="Models",
                        value=page.start_set,
                        filterable=False,
                        interactive=True,
                        scale=2,
                        min_width=160,
                        elem_id="kvr-set",
                    )
                problem = gr.Textbox(
                    label="Problem",
                    value=first["problem"],
                    lines=4,
                    max_lines=8,
                    placeholder="Type a word problem, or choose an example.",
                    info="Ctrl+Enter runs it",
                    interactive=True,
                    elem_id="kvr-problem",
                )
                with gr.Row(elem_id="kvr-under"):
                    counter = gr.Markdown(page.count(page.start_set, ""), elem_id="kvr-count")
                    reference = gr.Textbox(
                        first["answer"],
                        label="Right answer, if known",
                        max_length=MOST_REFERENCE_CHARS,
                        max_lines=1,
                        interactive=True,
                        min_width=160,
                        elem_id="kvr-reference",
                    )
                with gr.Row(visible=page.start_set == "lab", elem_id="kvr-generator") as generator:
                    difficulty = gr.Radio(DIFFICULTIES, value="medium", label="Difficulty", interactive=True, scale=3, elem_id="kvr-difficulty")
                    fresh = gr.Button("New problem", scale=1, min_width=120, elem_id="kvr-new")
                with gr.Row():
                    run = gr.Button("Run", variant="primary", min_width=80, elem_id="kvr-run")
                    compare = gr.Button("Compare", min_width=80, elem_id="kvr-compare")
                    stop = gr.Button("Stop", interactive=False, min_width=80, elem_id="kvr-stop")
                    download = gr.DownloadButton("Trace", interactive=False, min_width=80, elem_id="kvr-download")
                status = gr.Markdown("", elem_id="kvr-status-line")
                with gr.Accordion("Methods that Compare runs, one after another", open=False, elem_id="kvr-compared"):
                    methods = gr.CheckboxGroup(
                        settings.METHOD_CHOICES, value=COMPARED, label="Methods (2 to 4)", interactive=True, elem_id="kvr-methods"
                    )
            with gr.Column(scale=6, min_width=320):
                method = gr.Radio(settings.METHOD_CHOICES, value=defaults["method"], label="Method", interactive=True, elem_id="kvr-method")
                with gr.Group():
                    basic = _grid(settings.BASIC, defaults)
                with gr.Accordion("Advanced settings", open=False, elem_id="kvr-advanced"):
                    advanced = _grid(settings.ADVANCED, defaults)
                with gr.Accordion("ReCo settings", open=False, elem_id="kvr-reco"):
                    reco = _grid(settings.RECO, defaults)
                with gr.Accordion("Assumptions: what the papers leave open", open=False, elem_id="kvr-assumptions"):
                    assumed = gr.Markdown(assumptions_table(make_config(**defaults)))
                with gr.Row():
                    changed = gr.Markdown("", elem_id="kvr-changed")
                    reset = gr.Button("Reset settings", size="sm", elem_id="kvr-reset")
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
        problem.input(lambda: "", None, reference, queue=False, **_QUIET)
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
        demo.load(page.from_link, None, [models_choice, problem, *inputs], **_QUIET)
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
    return demo.queue(max_size=QUEUE_SIZE)


def _grid(controls: list[settings.Control], values: dict[str, Any], columns: int = 3) -> list[Any]:
    made: list[Any] = []
    for start in range(0, len(controls), columns):
        with gr.Row():
            made += [settings.build(control, values[control.field]) for control in controls[start : start + columns]]
    return made


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
