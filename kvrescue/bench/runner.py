"""Run a grid: every cell on every problem, here, in processes, or on a Ray cluster, with results that do not depend on where."""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kvrescue.bench.cells import ANSWER_LEVEL, PICKS, Cell
from kvrescue.bench.grading import marked
from kvrescue.bench.problems import Problem
from kvrescue.bench.record import Record, Watcher, WrittenStep, as_value
from kvrescue.bench.spread import Loader, completed
from kvrescue.bench.store import digest
from kvrescue.config import make_config
from kvrescue.engine.run import run
from kvrescue.events import from_line, to_line
from kvrescue.lab.evaluate import graded
from kvrescue.lab.grade import read_story
from kvrescue.models.load import Pair

Tasks = Callable[[Sequence["Task"]], Iterator[tuple[int, "list[Ran]"]]]
"""Carries out tasks; (index, its runs) as they are done, in any order."""


@dataclass(frozen=True)
class Task:
    """One cell on one problem. It can be sent to another process or machine."""

    cell: Cell
    problem: Problem
    index: int
    """Of the problem in its set; with the cell's seed it decides every sample."""
    values: dict[str, Any]
    """RunConfig fields."""
    traced: bool = False
    set: str = ""
    """Name of the problem's set."""

    @property
    def key(self) -> str:
        return f"{self.cell.name} | {self.problem.id} | {digest([self.values, self.problem.text])}"

    def seeds(self) -> list[int]:
        """Of each of its runs: one, or N for whole trajectories to choose from."""
        first = (1_000_003 * self.cell.seed + self.index) % 2**31
        return [(first + 100_003 * k) % 2**31 for k in range(self.cell.n if self.cell.method == ANSWER_LEVEL else 1)]


@dataclass(frozen=True)
class Ran:
    """One run, not graded yet."""

    record: Record
    steps: list[WrittenStep]
    trace: bytes = b""
    """Its events, gzipped NDJSON."""


def carry_out(pair: Pair, task: Task) -> list[Ran]:
    return [_once(pair, task, seed) for seed in task.seeds()]


def _once(pair: Pair, task: Task, seed: int) -> Ran:
    config = make_config(**{**task.values, "seed": seed})
    watcher = Watcher(config)
    lines: list[str] = []
    for event in run(task.problem.text, config, pair):
        watcher.see(event)
        if task.traced:
            lines.append(to_line(event) + "\n")
    record = watcher.record(False)
    if task.problem.kind == "lab":
        record = graded(record, read_story(task.problem.text), [step["text"] for step in watcher.steps])
    return Ran(record, watcher.steps, gzip.compress("".join(lines).encode(), 6, mtime=0) if lines else b"")


def in_processes(load: Loader, workers: int | None) -> Tasks:
    return lambda tasks: completed(carry_out, tasks, load, workers)


# --- several trajectories of one problem -----------------------------------------------------------------------------------


def choose(runs: Sequence[Record]) -> Record:
    """Best of N at the level of answers: the trajectory whose weakest step is best, at the price of all of them.

    ``picks`` says for each rule whether its choice is right. A run without an answer is never preferred to one with an answer.
    """
    picked = {rule: max(range(len(runs)), key=lambda at: (runs[at].answered, _worth(runs, at, rule), -at)) for rule in PICKS}
    chosen = runs[picked["min"]]
    paid = ("base_tokens", "helper_tokens", "seconds", "aborted", "candidates", "evictions")
    return replace(
        chosen,
        picks={rule: runs[at].right for rule, at in picked.items()},
        **{name: sum(getattr(one, name) for one in runs) for name in paid},
    )


def _worth(runs: Sequence[Record], at: int, rule: str) -> float:
    one = runs[at]
    if rule == "majority":
        return Counter(other.answer for other in runs if other.answered)[one.answer]
    if not one.rewards:
        return -1.0
    if rule == "last":
        return one.rewards[-1]
    if rule == "mean":
        return sum(one.rewards) / len(one.rewards)
    return math.prod(one.rewards) if rule == "prod" else min(one.rewards)


# --- traces ---------------------------------------------------------------------------------------------------------------


def write_trace(folder: Path, key: str, run: int, data: bytes, reference: str, right: bool) -> str:
    """With its grade, whole or not at all; returns the file's name."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = gzip.decompress(data).splitlines(keepends=True)
    for at in (0, -1):
        lines[at] = (to_line(marked(from_line(lines[at]), reference, lambda _answer: right)) + "\n").encode()
    data = gzip.compress(b"".join(lines), 6, mtime=0)
    name = f"{digest(key)}-{run}.jsonl.gz"
    fresh = folder / f"{name}.new"
    fresh.write_bytes(data)
    fresh.replace(folder / name)
    return name


def as_line(task: Task, runs: list[Ran], record: Record, traces: list[str]) -> dict[str, Any]:
    """What a results file keeps of a task."""
    cell = asdict(task.cell)
    return {
        "cell": {name: cell[name] for name in ("method", "policy", "budget", "n", "seed")},
        "problem": task.problem.id,
        "record": as_value(record),
        "lanes": [ran.steps for ran in runs],
        "traces": traces,
    }
