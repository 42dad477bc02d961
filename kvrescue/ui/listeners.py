"""What the page does when something is typed, chosen or pressed, and what it says of itself; how it is laid out is in page.py."""

from __future__ import annotations

import html
import random
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median
from typing import Any

import gradio as gr

from kvrescue import presets
from kvrescue.bench.grading import MOST_REFERENCE_CHARS, Kind, graded
from kvrescue.config import MAX_PROBLEM_CHARS, METHODS, ConfigError, RunConfig, assumptions, check_problem
from kvrescue.events import AnyEvent
from kvrescue.lab.story import DIFFICULTIES, held_out
from kvrescue.opening import Opening, make_opening
from kvrescue.stop import Stop
from kvrescue.ui import settings
from kvrescue.ui.backend import NOT_LOADED, Backend, BackendStatus
from kvrescue.ui.sessions import Sessions
from kvrescue.ui.stream import paced, slowed
from kvrescue.ui.words import Say, language_of, translated, words

LOAD_SECONDS = 900.0
OWN = "own"
"""Stands for somebody's own models among the model sets."""
MOST_LANES = 4


class Page:
    """The listeners and what they share. Visitors' texts live in ``sessions`` and nowhere else."""

    def __init__(self, *backends: Backend) -> None:
        self.backends = {backend.model_set or OWN: backend for backend in backends}
        self.start_set = next(iter(self.backends))
        self.sessions = Sessions()
        self.times: dict[tuple[str, str, int], deque[float]] = defaultdict(lambda: deque(maxlen=8))
        """Seconds that the newest finished runs took, by models, method and candidates."""
        self.defaults = {name: presets.default_config(backend.model_set, backend.base).model_dump() for name, backend in self.backends.items()}
        self.examples = {example["id"]: example for example in presets.load_examples()}

    def examples_of(self, models: str) -> list[dict[str, Any]]:
        """These models' own examples, then others that they can read; the first is on the page from the start, so that one click runs
        something."""
        readable = [one for one in self.examples.values() if (one["models"] in presets.LAB_SETS) == (models in presets.LAB_SETS)]
        return sorted(readable, key=lambda one: one["models"] != models)

    # --- model sets ---------------------------------------------------------------------------------------------------------

    def load(self, models: str) -> None:
        """Begin to load a model set. Large ones give way to one another; the small ones that come with the page or run on any CPU stay."""
        for name, backend in self.backends.items():
            if name != models and name in presets.MODEL_SETS and presets.MODEL_SETS[name].parts:
                backend.release()
        self.backends[models].start()

    def switch(self, request: gr.Request, models: str) -> list[Any]:
        """Other models were chosen: they begin to load, and examples and settings become theirs."""
        self.load(models)
        examples, say = self.examples_of(models), words(language_of(request))
        filled = self.fill_example(models, examples[0]["id"])
        return [
            gr.Timer(active=True),
            gr.update(choices=choices(examples, say), value=examples[0]["id"]),
            gr.update(visible=models in presets.LAB_SETS),
            *filled,
        ]

    def speak(self, request: gr.Request) -> list[Any]:
        """What Gradio does not translate in the browser: the heading, and the words of choices; in the order of the listener's outputs."""
        language = language_of(request)
        if language == "en":
            return [gr.skip()] * (5 + len(settings.CHOSEN))
        say = words(language)
        methods = gr.update(choices=settings.method_choices(say))
        levels = gr.update(choices=[(say(f"choice.difficulty.{level}"), level) for level in DIFFICULTIES])
        examples = gr.update(choices=choices(self.examples_of(self.start_set), say))
        chosen = [gr.update(choices=settings.choices_of(field, say)) for field in settings.CHOSEN]
        return [heading(say), examples, methods, methods, levels, *chosen]

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

    def explain(self, request: gr.Request, models: str, *inputs: Any) -> tuple[str, str]:
        """What differs from the defaults, and the assumptions panel, for the settings as they stand."""
        say = words(language_of(request))
        values = self.values(inputs)
        try:
            config = settings.to_config(values)
        except ConfigError as error:
            return f"⚠ {as_code(translated(str(error), language_of(request)))}", gr.skip()
        return settings.changes(config.model_dump(), self.defaults[models], say), assumptions_table(config, language_of(request))

    def from_link(self, request: gr.Request) -> list[Any]:
        """A link with the settings of a run or a comparison fills the form and starts nothing; one that does not read is told and changes nothing."""
        text = request.query_params.get("settings")
        if not text:
            return [gr.skip()] * (5 + len(settings.FIELDS))
        try:
            link = settings.from_link(text)
        except ConfigError as error:
            raise plain_error(translated(str(error), language_of(request))) from None
        chosen = link.models if link.models in self.backends else self.start_set
        self.load(chosen)
        compared = [gr.skip(), gr.skip()] if link.methods is None else [link.methods, gr.update(open=True)]
        return [chosen, link.problem, link.reference, *compared, *(link.values[name] for name in settings.FIELDS)]

    # --- runs ---------------------------------------------------------------------------------------------------------------

    def start(self, request: gr.Request, models: str, problem: str, *inputs: Any) -> list[Any]:
        """Run was pressed: bad input is told before the run takes a place in the queue; else only Stop can be pressed now."""
        try:
            self.backends[models].check(check_problem(problem))
            config = settings.to_config(self.values(inputs))
        except ConfigError as error:
            raise plain_error(translated(str(error), language_of(request))) from None
        return [*self.expect(request, models, [config]), None]

    def start_comparison(self, request: gr.Request, models: str, problem: str, methods: list[str], *inputs: Any) -> list[Any]:
        """Compare was pressed: as :meth:`start`, for every method."""
        try:
            self.backends[models].check(check_problem(problem))
            lanes = self.lanes(models, methods, inputs)
        except ConfigError as error:
            raise plain_error(translated(str(error), language_of(request))) from None
        return self.expect(request, models, lanes)

    def start_fork(self, request: gr.Request, models: str, event: gr.EventData, *inputs: Any) -> list[Any]:
        """A run is to go on from a step of the trace in the viewer, with the settings of the form. The trace may be anybody's file."""
        try:
            asked = event._data if isinstance(event._data, dict) else {}
            problem = check_problem(asked.get("problem"))
            if asked.get("models") and asked["models"] != (self.backends[models].model_set or ""):
                raise ConfigError("models", f"The trace was made by the models {str(asked['models'])[:40]!r}; choose them first.")
            self.backends[models].check(problem)
            opening = make_opening(asked.get("opening"))
            config = settings.to_config(self.values(inputs))
        except ConfigError as error:
            raise plain_error(translated(str(error), language_of(request))) from None
        reference = asked.get("reference")
        return [*self.expect(request, models, [config]), problem, reference if isinstance(reference, str) else "", opening]

    def expect(self, request: gr.Request, models: str, configs: list[RunConfig]) -> list[Any]:
        """Only Stop can be pressed now; the status line says how many are first and how long it usually takes."""
        key = request.session_hash or ""
        self.sessions.expect(key)
        only_stop = [gr.update(interactive=False), gr.update(interactive=False), gr.update(interactive=True, variant="primary")]
        return [*only_stop, gr.update(interactive=False), self.waiting(request, models, configs)]

    def waiting(self, request: gr.Request, models: str, configs: list[RunConfig]) -> str:
        say = words(language_of(request))
        ahead, seconds = self.sessions.ahead(request.session_hash or ""), self.usual_seconds(models, configs)
        first = say("page.ahead", n=ahead) if ahead else say("page.waiting")
        return first + (say("page.usual", seconds=round(seconds)) if seconds and seconds >= 1 else "")

    def usual_seconds(self, models: str, configs: list[RunConfig]) -> float | None:
        """How long such runs have taken here; None when one of them is new."""
        known = [self.times.get((models, config.method, config.candidates)) for config in configs]
        return sum(median(times) for times in known if times) if all(known) else None

    def health(self) -> dict[str, Any]:
        """Which models are ready, and counts without anybody's text."""

        def state(now: BackendStatus) -> str:
            return "failed" if now.error else "ready" if now.ready else "not loaded" if now.text == NOT_LOADED else "loading"

        return {"status": "ok", "models": {name: state(one.status()) for name, one in self.backends.items()}, **self.sessions.health()}

    def lanes(self, models: str, methods: list[str], inputs: tuple[Any, ...]) -> list[RunConfig]:
        """One configuration a method, in the page's order."""
        chosen = [name for name in METHODS if name in (methods or [])]
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
        say = words(language_of(request))
        progress = Progress(say)
        text, failed = "", ""
        kind: Kind = "lab" if models in presets.LAB_SETS else "math"
        try:
            lanes = configs()
            for line in self.loading(models, stop, say):
                yield "", line
            known = str(reference or "").strip()[:MOST_REFERENCE_CHARS]
            for number, config in enumerate(lanes):
                several = say("page.lane", method=say(f"method.{config.method}"), at=number + 1, most=len(lanes)) if len(lanes) > 1 else ""
                progress = Progress(say, several)
                began = time.monotonic()
                events = self.backends[models].run(check_problem(problem), config, stop, opening)
                for piece in paced(slowed(graded(events, known, kind), pace_of(models), stop), progress.see):
                    text += piece
                    yield text, progress.line(config)
                failed = failed or progress.error
                if progress.closed == "finished":
                    self.times[models, config.method, config.candidates].append(time.monotonic() - began)
                if progress.closed == "stopped":
                    break
        except ConfigError as error:
            raise plain_error(translated(str(error), language_of(request))) from None
        finally:
            stop.set()
            self.sessions.finish(key, stop, progress.run, text, bool(failed))
        if failed:
            raise plain_error(say("page.failed", message=translated(failed, language_of(request)), run=progress.run))

    def loading(self, models: str, stop: Stop, say: Say) -> Iterator[str]:
        """Status lines until a model set that was given back is there again."""
        self.load(models)
        began, status = time.monotonic(), self.backends[models].status()
        while not (status.ready or status.error or stop.asked) and time.monotonic() - began < LOAD_SECONDS:
            yield badge(status, say)
            stop.wait(0.5)
            status = self.backends[models].status()

    def stop(self, request: gr.Request) -> str:
        self.sessions.stop(request.session_hash or "")
        return words(language_of(request))("page.stopping")

    def forget(self, request: gr.Request) -> None:
        self.sessions.forget(request.session_hash or "")

    def offer_trace(self, request: gr.Request) -> list[Any]:
        """After a run, however it ended: buttons back, and the trace to download if there is one."""
        path = self.sessions.trace_file(request.session_hash or "")
        download = gr.update(value=path, interactive=path is not None)
        ready = gr.update(interactive=True)
        return [ready, ready, gr.update(interactive=False, variant="secondary"), download]

    # --- models and problem -------------------------------------------------------------------------------------------------

    def poll(self, request: gr.Request, models: str) -> tuple[str, Any]:
        status = self.backends[models].status()
        language = language_of(request)
        error = translated(status.error, language) if status.error else None
        said = replace(status, text=translated(status.text, language), note=translated(status.note, language), error=error)
        return badge(said, words(language)), gr.Timer(active=not (status.ready or status.error))

    def count(self, models: str, problem: str, request: gr.Request | None = None) -> str:
        say = words(language_of(request))
        tokens = self.backends[models].count_tokens(problem) if problem and len(problem) <= MAX_PROBLEM_CHARS else None
        size = say("page.characters", now=len(problem or ""), most=MAX_PROBLEM_CHARS)
        return f"{say('page.tokens', n=tokens)} · {size}" if tokens is not None else size


class Progress:
    """The status line of a run, from its events."""

    def __init__(self, say: Say, before: str = "") -> None:
        """``before``: what the line begins with."""
        self.say, self.before = say, before
        self.run, self.step, self.tokens, self.error, self.closed = "", 0, 0, "", ""

    def see(self, event: AnyEvent) -> None:
        self.run = event.run
        if event.type == "step_begin":
            self.step = event.step + 1
        elif event.type == "commit":
            self.tokens += event.tokens
        elif event.type == "error":
            self.error, self.closed = event.message, "failed"
        elif event.type == "end":
            self.closed = event.reason if event.reason in ("stopped", "deadline") else "finished"

    def line(self, config: RunConfig) -> str:
        if self.closed:
            line = self.say(f"page.closed.{self.closed}", tokens=self.tokens, step=self.step, steps=self.step, message=as_code(self.error))
        elif not self.step:
            line = self.say("page.reading")
        else:
            line = self.say("page.step", step=self.step, most=config.max_steps, tokens=self.tokens)
        return self.before + line


def heading(say: Say) -> str:
    return f"# kvrescue\n{say('page.claim')}"


def plain_error(message: str) -> gr.Error:
    """A toast that shows the sentence literally: toasts render HTML."""
    return gr.Error(html.escape(message, quote=False), print_exception=False)


def as_code(text: str) -> str:
    """Text that Markdown shows literally: no link, no picture, no markup."""
    return "`" + " ".join(text.replace("`", "'").split()) + "`"


def badge(status: BackendStatus, say: Say) -> str:
    if status.error:
        return say("page.badge.none", why=as_code(status.error))
    if not status.ready:
        return say("page.badge.loading", what=html.escape(status.text))
    note = f" {html.escape(status.note)}" if status.note else ""
    return say("page.badge.ready", device=html.escape(status.device), models=html.escape(status.models), note=note)


def assumptions_table(config: RunConfig, language: str) -> str:
    say = words(language)
    titles = " | ".join(say(f"page.assumed.{name}") for name in ("setting", "now", "note"))
    head = [say("page.assumed"), "", f"| {titles} |", "|---|---|---|"]
    rows = [(row["field"], as_code(repr(row["value"])).replace("|", "\\|"), translated(row["note"], language)) for row in assumptions(config)]
    return "\n".join(head + [f"| {field} | {value} | {note} |" for field, value, note in rows])


def choices(examples: list[dict[str, Any]], say: Say) -> list[tuple[str, str]]:
    return [(f"{say(f'example.{name}.teaches')}: {say(f'example.{name}.title')}", name) for name in (one["id"] for one in examples)]


def pace_of(models: str) -> float:
    return (presets.OWN_MODELS if models == OWN else presets.MODEL_SETS[models]).pace_s


def set_title(models: str) -> str:
    return (presets.OWN_MODELS if models == OWN else presets.MODEL_SETS[models]).label
