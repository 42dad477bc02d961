"""python -m kvrescue run | bench | calibrate | doctor | lab | train-estimator | export-static"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from kvrescue import __version__, presets
from kvrescue.bench import commands as bench_commands
from kvrescue.bench.grading import MOST_REFERENCE_CHARS, Kind, graded
from kvrescue.config import METHODS, POLICIES, SCORERS, ConfigError, RunConfig, allowed, check_problem, make_config
from kvrescue.events import AnyEvent, End, Error, to_line
from kvrescue.lab import commands as lab_commands
from kvrescue.lab.story import held_out
from kvrescue.opening import Opening, opening_of
from kvrescue.stop import Stop
from kvrescue.trace import TraceError, read_trace, recorded

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
_ESTIMATOR_SEED = 9_000
_STYLES = {"base": "bold blue", "helper": "bold dark_orange3"}
_MARKS = {"base": "■ base", "helper": "● helper"}


def main(arguments: Sequence[str] | None = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")  # broken bytes become what check_problem refuses
    args = _parser().parse_args(arguments)
    try:
        return int(args.command(args))
    except ConfigError as error:
        print(f"kvrescue: {_printable(str(error))}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"kvrescue: the output cannot be written: {error.strerror or type(error).__name__}.", file=sys.stderr)
        # Nothing more can be said there, not even by the interpreter's own flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kvrescue", description="Watch a model forget, and see it rescued step by step.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="solve one problem in the terminal")
    run.add_argument("problem", help="the problem, - to read it from standard input, or example:ID for one of the page's with its settings")
    model_options(run)
    run.add_argument("--method", help=", ".join(METHODS))
    run.add_argument("--policy", help=", ".join(POLICIES))
    run.add_argument("--scorer", help=", ".join(SCORERS))
    for name in ("budget", "n", "seed", "max-tokens"):
        field = name.replace("-", "_")
        run.add_argument(f"--{name}", metavar="K", help=f"{RunConfig.model_fields[field].description}: {allowed(field)}")
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any other setting, such as tau_ent=2.0 (see --settings)")
    run.add_argument("--settings", action=_ListSettings, help="list every setting with its meaning and range, and exit")
    run.add_argument("--compare", metavar="METHODS", help="the same problem by several methods, one after another, such as full,evicted,kv-rescue")
    run.add_argument("--answer", metavar="TEXT", help="the right answer: the end says whether it was found (an example brings its own)")
    run.add_argument("--continue", dest="continued", metavar="FILE", help="go on from the steps of a trace, with this run's settings")
    run.add_argument("--after", metavar="STEP", help="with --continue: keep the trace's first STEP steps (default: all)")
    run.add_argument("--trace", metavar="FILE", help="write every event to FILE as it happens")
    run.add_argument("--json", action="store_true", help="events on standard output and nothing else, one JSON object a line")
    run.set_defaults(command=_run)
    doctor = commands.add_parser("doctor", help="what this machine can run")
    doctor.add_argument("--models", metavar="SET", help=f"only this set, part by part: {', '.join(presets.MODEL_SETS)}")
    doctor.add_argument("--n", metavar="N", help="candidates per source (default: the set's)")
    doctor.add_argument("--tokens", metavar="T", help="length of prompt and answer together (default: the set's limit)")
    doctor.add_argument("--quantise", action="append", default=[], metavar="[PART=]KIND", help=f"{', '.join(presets.QUANTISATIONS)}")
    doctor.add_argument("--json", action="store_true")
    doctor.set_defaults(command=_doctor)
    lab_commands.add(commands)
    bench_commands.add(commands, model_options)
    estimator = commands.add_parser("train-estimator", help="distil a scorer into the light estimator that ReCo may use")
    model_options(estimator)
    estimator.add_argument("--teacher", default="prm", help=f"{', '.join(SCORERS[:-1])} (default prm)")
    estimator.add_argument("--data", metavar="FILE", help="JSONL with a 'problem' on each line (default: fresh stories of the lab)")
    estimator.add_argument("--problems", metavar="N", default="200", help="at most so many problems (default 200)")
    estimator.add_argument("--out", metavar="DIR", required=True, help="where the estimator goes; give it to --estimator")
    estimator.set_defaults(command=_train_estimator)
    site = commands.add_parser("export-static", help="write the viewer and the recorded runs as a static site")
    site.add_argument("out", metavar="DIR", help="a new or empty folder")
    site.set_defaults(command=_export_static)
    space = commands.add_parser("export-space", help="write the folder of a Gradio Space, ZeroGPU included, ready to be pushed")
    space.add_argument("out", metavar="DIR", help="a new or empty folder")
    space.set_defaults(command=_export_space)
    return parser


def model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", metavar="SET", help=f"model set: {', '.join(presets.MODEL_SETS)} (default {presets.DEFAULT_MODEL_SET})")
    parser.add_argument("--base", metavar="MODEL", help="your own base: a local folder or a hub id")
    parser.add_argument("--helper", metavar="MODEL", help="your own helper (default: the base)")
    parser.add_argument("--prm", metavar="MODEL", help="a published process reward model: a local folder or a hub id (default: the set's)")
    parser.add_argument("--prm-family", metavar="NAME", help="qwen, skywork, rlhflow or math-shepherd (default: told by the checkpoint)")
    parser.add_argument(
        "--quantise",
        action="append",
        default=[],
        metavar="[PART=]KIND",
        help=f"{', '.join(presets.QUANTISATIONS)}; for one of {', '.join(presets.PARTS)}, or all (default: the set's)",
    )
    parser.add_argument("--estimator", metavar="DIR", help="an estimator made by train-estimator for these models")


def choice_of(args: argparse.Namespace) -> presets.Choice:
    """The models that the options of :func:`model_options` name."""
    quantise = presets.quantisation_of(args.quantise)
    return presets.Choice(args.models, args.base, args.helper, args.prm, args.prm_family, args.estimator, quantise)


class _ListSettings(argparse.Action):
    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **kwargs)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        for name, info in RunConfig.model_fields.items():
            print(f"{name} = {info.default!r}\n    {info.description}. {allowed(name).capitalize()}.")
        parser.exit()


def _config(args: argparse.Namespace, given: dict[str, Any]) -> RunConfig:
    """The model set's settings, then ``given`` ones, then those of the command line."""
    choice = choice_of(args)
    models = choice.known_set
    method = args.method or given.get("method")
    values: dict[str, Any] = {**presets.default_settings(models, method), **presets.measured_thresholds(models, choice.base), **given}
    if choice.prm:
        values["scorer"] = "prm"
    for name in ("method", "policy", "scorer", "budget", "n", "seed", "max_tokens"):
        text = getattr(args, name)
        if text is not None:
            values[name] = _value(name, text)
    return make_config(**{**values, **settings_of(args.set)})


def settings_of(pairs: Sequence[str]) -> dict[str, Any]:
    """Settings from ``NAME=VALUE`` each."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ConfigError("set", f"--set {pair!r} has no value; write NAME=VALUE.")
        values[name.strip()] = _value(name.strip(), text)
    return values


def _value(name: str, text: str) -> Any:
    """Numbers as numbers, so that messages quote them as such; settings that are text stay text, even if it is ``5``."""
    field = RunConfig.model_fields.get(name)
    for kind in (int, float) if field and field.annotation in (int, float) else ():
        with contextlib.suppress(ValueError):
            return kind(text)
    return text.replace("\\n", "\n") if name == "delimiter" else text


def _run(args: argparse.Namespace) -> int:
    named = args.models or args.base or args.helper
    example = presets.example_of(args.problem, choice_of(args).known_set if named else None)
    if example and not named:
        args.models = example["models"]
    choice = choice_of(args)
    told = example["problem"] if example else sys.stdin.read() if args.problem == "-" else args.problem
    problem = check_problem(told)
    config = _config(args, example["settings"] if example else {})
    configs = _lanes(args.compare, config, choice.known_set) if args.compare else [config]
    reference = (args.answer or (example["answer"] if example else ""))[:MOST_REFERENCE_CHARS]
    opening = _opening(args)
    with _trace_file(args.trace) as file:
        from kvrescue.engine.run import run
        from kvrescue.models.load import load

        pair = load(choice, progress=lambda text: print(f"kvrescue: {text}", file=sys.stderr))
        stop = Stop()
        kind: Kind = "lab" if choice.known_set in presets.LAB_SETS else "math"
        streams = [graded(run(problem, one, pair, stop, opening=opening), reference, kind) for one in configs]
        if file:
            with contextlib.suppress(OSError):  # a pipe or device has nothing to clear
                file.truncate(0)
        with _interrupts(stop) as interrupted:
            closings = [_show(recorded(events, file) if file else events, args.json) for events in streams]
    if interrupted:
        return INTERRUPTED
    return FAILED if any(isinstance(closing, Error) for closing in closings) else 0


def _lanes(methods: str, config: RunConfig, models: str | None) -> list[RunConfig]:
    names = [name.strip() for name in methods.split(",")]
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise ConfigError("compare", f"compare names {unknown[0]!r}; allowed: {', '.join(METHODS)}.")
    return [presets.with_method(config, name, models) for name in names]


def _opening(args: argparse.Namespace) -> Opening | None:
    from kvrescue.lab.commands import number

    if args.continued is None:
        if args.after is not None:
            raise ConfigError("after", "after needs --continue FILE: the trace whose steps are kept.")
        return None
    try:
        events = read_trace(args.continued)
    except (OSError, TraceError) as error:
        raise ConfigError("continue", f"The trace {args.continued!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return opening_of(events, None if args.after is None else number("after", args.after, 1, 100_000))


@contextlib.contextmanager
def _trace_file(path: str | None) -> Iterator[TextIO | None]:
    """Opened before any compute, so that a path that cannot be written is told at once; what it held is kept until the run begins."""
    if path is None:
        yield None
        return
    try:
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise ConfigError("trace", f"The trace file {path!r} cannot be written: {error.strerror}.") from None
    with file:
        yield file


@contextlib.contextmanager
def _interrupts(stop: Stop) -> Iterator[list[bool]]:
    """The first Ctrl+C ends the run with a complete trace; the second one kills."""
    happened: list[bool] = []

    def first(_signal: int, _frame: Any) -> None:
        happened.append(True)
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("\nkvrescue: stopping; press Ctrl+C again to kill", file=sys.stderr)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield happened
    finally:
        signal.signal(signal.SIGINT, before)


def _show(events: Iterator[AnyEvent], as_json: bool) -> AnyEvent:
    printer = Printer(Console(highlight=False, soft_wrap=True))
    last: AnyEvent | None = None
    for last in events:
        if as_json:
            print(to_line(last), flush=True)
        else:
            printer.event(last)
    assert last is not None
    return last


class Printer:
    """Steps as they are committed: who wrote them, how they were judged, and what happened to the others."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.aborted = self.others = 0
        self.scorer = ""

    def event(self, event: AnyEvent) -> None:
        if event.type == "header":
            names = " + ".join(f"{source} {info.id}" for source, info in event.models.items())
            self.console.print(Text(f"{event.config['method']}: {names}; judged by {event.scorer}", style="dim"))
            if event.same_weights:
                self.console.print(Text("base and helper are the same weights: only their memory differs", style="dim"))
        elif event.type == "step_begin":
            self.aborted = self.others = 0
        elif event.type == "abort":
            self.aborted += 1
        elif event.type == "candidate":
            self.others += 1
        elif event.type == "scores":
            self.scorer = event.scorer
        elif event.type == "commit":
            self._commit(event)
        elif isinstance(event, (End, Error)):
            self._closing(event)

    def _commit(self, event: Any) -> None:
        score = f"{self.scorer} {event.score:.2f}" if event.score is not None else "not judged"
        head = Text(f"step {event.step + 1} ", style="bold")
        head.append(_MARKS[event.source], style=_STYLES[event.source])
        head.append(f"  {score}, {event.tokens} tokens", style="dim")
        if self.others > 1:
            others = "1 other" if self.others == 2 else f"{self.others - 1} others"
            head.append(f", {others}" + (f" ({self.aborted} aborted)" if self.aborted else ""), style="dim")
        self.console.print(head)
        self.console.print(Text(_printable(event.text.strip())))

    def _closing(self, event: End | Error) -> None:
        if isinstance(event, Error):
            self.console.print(Text(f"failed: {event.message}", style="bold red"))
        else:
            answer = "no boxed answer" if event.answer is None else f"answer: {_printable(event.answer)}"
            verdict = "" if event.correct is None else ", right" if event.correct else ", wrong"
            self.console.print(Text(f"{answer}{verdict} (ended: {event.reason})", style="bold"))
        for source, count in event.totals.items():
            line = f"{source}: {count.steps} steps, {count.committed} tokens committed, {count.discarded} discarded, {count.aborted} aborted"
            self.console.print(Text(line, style="dim"))
        memory = f"memory: {100 * event.mean_retention:.0f} % held on average, at most {event.peak_resident} tokens, {event.evictions} evictions"
        self.console.print(Text(f"{memory}; {event.seconds:.1f} s", style="dim"))


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _printable(text: str) -> str:
    """Model text without control characters: it must not drive the terminal."""
    return _CONTROL.sub("\ufffd", text)


def _train_estimator(args: argparse.Namespace) -> int:
    if args.teacher not in SCORERS[:-1]:
        raise ConfigError("teacher", f"teacher is {args.teacher!r}; allowed: {', '.join(SCORERS[:-1])}.")
    most = int(args.problems) if args.problems.isdigit() else 0
    if not 4 <= most <= 100_000:
        raise ConfigError("problems", f"problems is {args.problems!r}; allowed: a whole number from 4 to 100,000.")
    from kvrescue.models.load import load
    from kvrescue.reco import distil

    def say(text: str) -> None:
        print(f"kvrescue: {text}", file=sys.stderr)

    problems = distil.read_problems(args.data)[:most] if args.data else [held_out(_ESTIMATOR_SEED, index).text for index in range(most)]
    pair = load(replace(choice_of(args), estimator=None), progress=say)
    print(json.dumps(distil.train(pair, args.teacher, problems, Path(args.out), say)))
    return 0


def _export_static(args: argparse.Namespace) -> int:
    from kvrescue import export

    size = export.export_site(Path(args.out))
    print(f"{export.recordings()} recordings and their viewer, {size / 2**20:.1f} MiB. Serve it: python3 -m http.server --directory {args.out}")
    return 0


def _export_space(args: argparse.Namespace) -> int:
    from kvrescue import export

    size = export.export_space(Path(args.out))
    print(f"a Space of {size / 2**20:.1f} MiB in {args.out}; push it to a Gradio Space, whose hardware decides what it offers")
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from kvrescue.lab.commands import number
    from kvrescue.models.doctor import examine, in_words

    n = number("n", args.n, 1, 16) if args.n else None
    tokens = number("tokens", args.tokens, 1, 1_000_000) if args.tokens else None
    report = examine(args.models, n=n, tokens=tokens, quantise=presets.quantisation_of(args.quantise))
    print(json.dumps(report.as_dict()) if args.json else "\n".join(in_words(report)))
    return 0
