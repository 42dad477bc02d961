"""``python -m kvrescue lab problem | report | train``. Torch is imported only by what needs it."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from kvrescue.config import POLICIES, ConfigError
from kvrescue.lab.story import DIFFICULTIES

PARTS = ("base", "wordy", "helper", "prm", "wordy-prm", "estimator")
SUITES = ("rescue", "reco")
BUDGETS = (64, 96, 128)
NS = (1, 2, 4)


def add(commands: Any) -> None:
    """The ``lab`` command and its own commands, below an argparse sub-parser."""
    lab = commands.add_parser("lab", help="the bundled tiny models: make problems, measure the effect, train them again")
    inner = lab.add_subparsers(required=True, metavar="COMMAND")
    problem = inner.add_parser("problem", help="print a fresh problem and its solution")
    problem.add_argument("--seed", metavar="S", help="a whole number; default: another one each time")
    problem.add_argument("--difficulty", default="medium", help=", ".join(DIFFICULTIES))
    problem.add_argument("--json", action="store_true")
    problem.set_defaults(command=_problem)
    report = inner.add_parser("report", help="measure the effect on fresh problems")
    report.add_argument("--suite", default="rescue", help=", ".join(SUITES))
    report.add_argument("--problems", default="500", metavar="N", help="problems per row (default 500)")
    report.add_argument("--seed", default="0", metavar="S", help="draws the problems; never those of the training (default 0)")
    report.add_argument("--budgets", default=",".join(map(str, BUDGETS)), help="KV budgets, with commas (default %(default)s)")
    report.add_argument("--policies", help="eviction policies, with commas (default: all for evicted, rkv for the rest)")
    report.add_argument("--methods", help="only these rows, with commas, such as full,evicted (default: every row of the suite)")
    report.add_argument("--n", default=",".join(map(str, NS)), help="candidates per source, with commas (default %(default)s)")
    report.add_argument("--difficulty", default="medium", help=", ".join(DIFFICULTIES))
    report.add_argument("--json", action="store_true", help="one JSON object a row on standard output, and nothing else")
    report.add_argument("--out", metavar="DIR", help="also write the tables and a page there; with the same folder it goes on where it was stopped")
    report.add_argument("--readme", metavar="FILE", help="also put the table between the marks in FILE")
    report.add_argument("--workers", metavar="K", help="processes (default: one a core)")
    report.set_defaults(command=_report)
    train = inner.add_parser("train", help="train the models again from nothing; stop and start it as you like")
    train.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    train.add_argument("--all", action="store_true", help="every model")
    train.add_argument("--out", metavar="DIR", help="where the models go (default: assets/lab)")
    train.add_argument("--work", default=".lab-training", metavar="DIR", help="where checkpoints lie (default %(default)s)")
    train.add_argument("--tokens", metavar="T", help="shorten the last phase to this many tokens, to try the path")
    train.add_argument("--problems", default="200", metavar="N", help="held-out problems per figure of the cards (default 200)")
    train.add_argument("--workers", metavar="K", help="processes while measuring (default: one a core)")
    train.set_defaults(command=_train)


def number(name: str, text: str | None, low: int, high: int) -> int:
    value = int(text) if text is not None and text.lstrip("-").isdigit() else None
    if value is None or not low <= value <= high:
        raise ConfigError(name, f"{name} is {text!r}; allowed: a whole number from {low:,} to {high:,}.")
    return value


def numbers(name: str, text: str, low: int, high: int) -> list[int]:
    return [number(name, part.strip(), low, high) for part in text.split(",")]


def _one_of(name: str, value: str, known: tuple[str, ...]) -> Any:
    if value not in known:
        raise ConfigError(name, f"{name} is {value!r}; allowed: {', '.join(known)}.")
    return value


def _workers(args: argparse.Namespace) -> int | None:
    return None if args.workers is None else number("workers", args.workers, 1, 256)


def _problem(args: argparse.Namespace) -> int:
    import random

    from kvrescue.lab.story import held_out, solution

    difficulty = _one_of("difficulty", args.difficulty, DIFFICULTIES)
    seed = random.SystemRandom().randrange(10**9) if args.seed is None else number("seed", args.seed, 0, 2**31 - 1)
    told = held_out(seed, 0, difficulty)
    if args.json:
        print(json.dumps({"seed": seed, "difficulty": difficulty, "problem": told.text, "answer": str(told.answer), "solution": solution(told)}))
    else:
        print("\n\n".join([told.text, *solution(told)]))
    return 0


def _report(args: argparse.Namespace) -> int:
    suite = _one_of("suite", args.suite, SUITES)
    problems, seed = number("problems", args.problems, 1, 100_000), number("seed", args.seed, 0, 2**31 - 1)
    budgets, ns = numbers("budgets", args.budgets, 4, 32_768), numbers("n", args.n, 1, 16)
    policies = None if args.policies is None else [_one_of("policies", name.strip(), POLICIES) for name in args.policies.split(",")]
    difficulty, workers = _one_of("difficulty", args.difficulty, DIFFICULTIES), _workers(args)

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from kvrescue.bench.store import Store
    from kvrescue.lab import report, report_output
    from kvrescue.models.load import environment, lab_fingerprint

    chosen = report.SUITES[suite]
    cells = chosen.cells(policies, budgets, ns)
    known = list(dict.fromkeys(cell.name.split()[0] for cell in cells))
    if args.methods:
        wanted = [_one_of("methods", name.strip(), tuple(known)) for name in args.methods.split(",")]
        cells = [cell for cell in cells if cell.name.split()[0] in wanted]
    about = {
        "suite": suite,
        "seed": seed,
        "difficulty": difficulty,
        "models": chosen.models,
        "weights": lab_fingerprint(model_set=chosen.models),
    }
    rows = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        Store(Path(args.out) / "runs", about) if args.out else contextlib.nullcontext() as store,
        Progress(*columns, console=Console(stderr=True)) as progress,
    ):
        bar = progress.add_task("starting", total=len(cells) * problems)

        def tick(name: str, done: int) -> None:
            progress.update(bar, advance=done, description=name)

        for row in report.measure(cells, problems, seed, difficulty, workers, tick, chosen.row, store, chosen.models):
            rows.append(report.as_json(row))
            if args.json:
                print(json.dumps(rows[-1]), flush=True)
    about = {**about, "problems": problems, **environment()}
    if not args.json:
        print(report_output.markdown(rows), end="")
    if args.out:
        report_output.write(rows, about, Path(args.out))
    if args.readme:
        report_output.write_readme(Path(args.readme), suite, about, rows)
    return 0


def _train(args: argparse.Namespace) -> int:
    parts = list(PARTS) if args.all else [_one_of("part", part, PARTS) for part in args.parts]
    if not parts:
        raise ConfigError("part", f"Name what to train: --all, or some of {', '.join(PARTS)}.")
    tokens = None if args.tokens is None else number("tokens", args.tokens, 1_000, 10_000_000_000)
    problems, workers = number("problems", args.problems, 1, 100_000), _workers(args)

    from kvrescue.lab.make import make
    from kvrescue.models.load import LAB_FOLDER

    out = Path(args.out) if args.out else LAB_FOLDER
    make(parts, out, Path(args.work), lambda text: print(text, file=sys.stderr, flush=True), tokens=tokens, problems=problems, workers=workers)
    return 0
