"""``python -m kvrescue bench``: a grid of methods over problems, into a folder."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kvrescue import __version__, presets
from kvrescue.bench.cells import METHODS, ORACLE, grid
from kvrescue.config import POLICIES, ConfigError, make_config

_METHODS = "full,helper,evicted,evicted-best-of-n,evicted-stepwise,kv-rescue,oracle-choice"


def add(commands: Any, model_options: Any) -> None:
    """The ``bench`` command, below an argparse sub-parser; ``model_options`` adds the options that choose the models."""
    bench = commands.add_parser("bench", help="measure methods on problems: tables, intervals, a page per problem; stop and go on as you like")
    model_options(bench)
    bench.add_argument("--methods", default=_METHODS, help=f"with commas: {', '.join(METHODS)} (default %(default)s)")
    bench.add_argument("--policies", default="rkv", help=f"with commas: {', '.join(POLICIES)} (default %(default)s)")
    bench.add_argument("--budgets", default="64", help="KV budgets in tokens, with commas (default %(default)s)")
    bench.add_argument("--n", default="4", help="candidates per source and step, with commas (default %(default)s)")
    bench.add_argument("--seed", default="0", help="seeds of the samples, with commas; the first also draws the lab's problems (default 0)")
    bench.add_argument("--problems", default="lab:20", help="sets with commas, each NAME[:COUNT[:DIFFICULTY]] or a JSONL file (default %(default)s)")
    bench.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any other setting, for every row")
    bench.add_argument("--out", metavar="DIR", required=True, help="where everything goes; with the same DIR it goes on where it was stopped")
    bench.add_argument("--readme", metavar="FILE", help="also put the table between the marks in FILE")
    bench.add_argument("--traces", default="all", help="all or none: keep every event of every run (default %(default)s)")
    bench.add_argument("--workers", metavar="K", help="processes (default: one a core for the lab, else one)")
    bench.add_argument("--ray", metavar="ADDRESS", help="spread the problems over a Ray cluster; local starts one here")
    bench.add_argument("--json", action="store_true", help="progress and rows as JSON lines on standard output, and nothing else")
    bench.set_defaults(command=_bench)
    calibrate = commands.add_parser("calibrate", help="measure detector thresholds for a model, from its own runs with a full cache")
    model_options(calibrate)
    calibrate.add_argument("--problems", help="a set, NAME[:COUNT[:DIFFICULTY]], or a JSONL file (default lab:60 for the lab)")
    calibrate.add_argument("--seed", default="0", help="draws the lab's problems (default 0)")
    calibrate.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any setting, such as ent_window=8")
    calibrate.add_argument("--out", metavar="FILE", help="where the values go, with a page beside them (default: where the app looks for them)")
    calibrate.add_argument("--json", action="store_true", help="the result as one JSON object on standard output")
    calibrate.set_defaults(command=_calibrate)


def _listed(field: str, text: str, known: Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in known:
            raise ConfigError(field, f"{field} is {name!r}; allowed: {', '.join(known)}.")
    return names


def _bench(args: argparse.Namespace) -> int:
    from kvrescue.cli import choice_of, settings_of
    from kvrescue.lab.commands import number, numbers

    methods, policies = _listed("methods", args.methods, METHODS), _listed("policies", args.policies, POLICIES)
    budgets, ns = numbers("budgets", args.budgets, 4, 32_768), numbers("n", args.n, 1, 16)
    seeds = numbers("seed", args.seed, 0, 2**31 - 1)
    traced = _listed("traces", args.traces, ("all", "none")) == ["all"]
    choice = choice_of(args)
    model_set = choice.known_set
    workers = number("workers", args.workers, 1, 256) if args.workers else None if model_set in presets.LAB_SETS else 1
    given = {**({"scorer": "prm"} if choice.prm else {}), **settings_of(args.set)}
    cells = grid(methods, policies, list(dict.fromkeys(budgets)), list(dict.fromkeys(ns)), list(dict.fromkeys(seeds)))
    for cell in cells:  # what can be refused is refused before any compute
        make_config(**{**cell.config_values(model_set), **given})

    from kvrescue.bench.problems import find_sets
    from kvrescue.bench.runner import Task, Tasks, in_processes
    from kvrescue.models.load import environment, lab_fingerprint, load

    sets = find_sets(args.problems, seeds[0])
    if "kv-rescue-checker" in methods and any(problem.kind != "lab" for problems in sets.values() for problem in problems):
        raise ConfigError("methods", "methods is 'kv-rescue-checker'; only the lab's problems have a checker.")
    tasks = [
        Task(cell, problem, index, {**cell.config_values(model_set), **given}, traced, name)
        for name, problems in sets.items()
        for index, problem in enumerate(problems)
        for cell in cells
    ]
    identity: dict[str, Any] = {
        "models": model_set or {"base": args.base, "helper": args.helper},
        "weights": lab_fingerprint(model_set=model_set) if model_set in presets.LAB_SETS else None,
        "prm": [choice.prm, choice.prm_family],
        "quantise": dict(choice.quantise),
        "estimator": choice.estimator,
        "methods": methods,
        "policies": policies,
        "budgets": budgets,
        "n": ns,
        "seeds": seeds,
        "problems": args.problems,
        "set": given,
        "traces": args.traces,
        "settings": presets.default_settings(model_set),
    }
    loader = functools.partial(load, choice)
    how: Tasks
    if args.ray:
        from kvrescue.bench.cluster import on_ray

        how = on_ray(args.ray, loader)
    else:
        how = in_processes(loader, workers)
    about = {**identity, "version": __version__, "environment": environment(), "command": ["bench", *_told(args)]}
    rows = _measure(Path(args.out), identity, about, tasks, how, ORACLE in methods, traced, args.json)
    from kvrescue.bench import output

    if args.readme:
        output.put_between(Path(args.readme), output.README_MARK, output.readme_block(about, rows))
    if not args.json:
        print(output.markdown(rows), end="")
        print(f"kvrescue: tables, report.html and a page per problem are in {args.out}", file=sys.stderr)
    return 0


def _calibrate(args: argparse.Namespace) -> int:
    from kvrescue.cli import choice_of, settings_of
    from kvrescue.lab.commands import number

    choice = choice_of(args)
    model_set = choice.known_set
    if args.problems is None and model_set not in presets.LAB_SETS:
        raise ConfigError("problems", "Name problems that suit these models: --problems FILE.jsonl, or a set such as gsm8k:50.")
    defaults = {**presets.default_settings(model_set), **settings_of(args.set)}
    make_config(**{**defaults, "method": "evicted", "scorer": "none"})

    from kvrescue.bench import calibrate
    from kvrescue.bench.problems import find
    from kvrescue.models.load import load

    problems = find(args.problems or "lab:60", number("seed", args.seed, 0, 2**31 - 1))
    pair = load(choice, progress=lambda text: print(f"kvrescue: {text}", file=sys.stderr))
    result: dict[str, Any] = {}
    with _progress(2 * len(problems), False) as tick:
        for result in calibrate.calibrate(pair, problems, defaults):
            if "done" in result:
                tick(1, "watching")
    file = Path(args.out) if args.out else presets.calibration_file(model_set, choice.base)
    calibrate.write(result, file)
    shown = {name: value for name, value in result.items() if name != "distributions"}
    if args.json:
        print(json.dumps(shown))
        return 0
    for name, value in shown.items():
        print(f"{name}: {json.dumps(value)}")
    print(f"kvrescue: written to {file} and {file.with_suffix('.html').name} beside it", file=sys.stderr)
    return 0


def _told(args: argparse.Namespace) -> list[str]:
    """The command again, without where it ran and what it printed."""
    told = []
    for name in ("models", "base", "helper", "prm", "prm_family", "estimator", "methods", "policies", "budgets", "n", "seed", "problems", "traces"):
        if getattr(args, name):
            told += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    told += [part for kind in args.quantise for part in ("--quantise", kind)]
    return told + [part for pair in args.set for part in ("--set", pair)]


def _measure(
    out: Path, identity: dict[str, Any], about: dict[str, Any], tasks: Sequence[Any], how: Any, oracle: bool, traced: bool, as_json: bool
) -> list[dict[str, Any]]:
    from dataclasses import replace

    from kvrescue.bench import output
    from kvrescue.bench.grading import Grader
    from kvrescue.bench.metrics import AVERAGE, averages, tabulate
    from kvrescue.bench.record import Record, from_value
    from kvrescue.bench.runner import as_line, choose, write_trace
    from kvrescue.bench.store import Store, write_whole

    with Store(out, identity) as store, Grader() as grader, _progress(len(tasks), as_json) as tick:
        missing = [task for task in tasks if task.key not in store.done]
        tick(len(tasks) - len(missing), "kept from before")
        write_whole(out / "environment.json", json.dumps({"version": __version__, **about["environment"]}, indent=1) + "\n")
        for index, runs in how(missing):
            task = missing[index]
            graded = []
            for ran in runs:
                verdict = grader.grade(ran.record.answer, task.problem.answer, task.problem.kind)
                graded.append(replace(ran.record, right=verdict.right, parsed=verdict.parsed))
            record = graded[0] if len(graded) == 1 else choose(graded)
            traces = []
            if traced:
                for number, (ran, one) in enumerate(zip(runs, graded, strict=True)):
                    traces.append(write_trace(out / "traces", task.key, number, ran.trace, task.problem.answer, one.right))
            store.add(task.key, as_line(task, runs, record, traces))
            tick(1, f"{task.problem.id} {task.cell.name}")
        sets: dict[str, dict[Any, dict[str, list[Record]]]] = {}
        values = []
        for task in sorted(tasks, key=lambda one: one.cell.seed):
            value = store.done[task.key]
            values.append(value)
            key = (task.cell.method, task.cell.policy, task.cell.budget, task.cell.n)
            sets.setdefault(task.set, {}).setdefault(key, {}).setdefault(task.problem.id, []).append(from_value(value["record"]))
        tables = {name: tabulate(cells, oracle).rows for name, cells in sets.items()}
        rows = [{"set": name, **row} for name, found in tables.items() for row in found]
        if len(tables) > 1:
            rows += [{"set": AVERAGE, **row} for row in averages(list(tables.values()))]
        texts = {task.problem.id: {"text": task.problem.text, "answer": task.problem.answer} for task in tasks}
        output.write(out, rows, values, about, texts)
    if as_json:
        for row in rows:
            print(json.dumps({"type": "row", **row}), flush=True)
    return rows


@contextlib.contextmanager
def _progress(total: int, as_json: bool) -> Iterator[Any]:
    """``tick(count, text)``: a bar with rate and time left on a terminal, a line now and then elsewhere, JSON lines when asked for."""
    began, state = time.monotonic(), {"done": 0, "fresh": 0}
    if as_json:

        def told(count: int, text: str) -> None:
            _count(state, count, text)
            rate = state["fresh"] / max(1e-9, time.monotonic() - began)
            left = round((total - state["done"]) / rate, 1) if state["fresh"] else None
            line = {"type": "progress", "done": state["done"], "total": total, "per_second": round(rate, 3), "seconds_left": left, "now": text}
            print(json.dumps(line), flush=True)

        yield told
        return

    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    last = began
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=total)

        def tick(count: int, text: str) -> None:
            nonlocal last
            _count(state, count, text)
            progress.update(bar, advance=count, description=escape(text))
            if not console.is_terminal and time.monotonic() - last > 30:
                last = time.monotonic()
                rate = state["fresh"] / (last - began)
                print(
                    f"kvrescue: {state['done']} of {total}, {rate:.2f} a second, {(total - state['done']) / max(rate, 1e-9):.0f} s left",
                    file=sys.stderr,
                )

        yield tick


def _count(state: dict[str, int], count: int, text: str) -> None:
    state["done"] += count
    if text != "kept from before":
        state["fresh"] += count
