"""Run one lab problem and grade everything that was written. A record is what the report, the cards and the judge's training read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch

from kvrescue.config import RunConfig
from kvrescue.engine.run import run
from kvrescue.guards import rejudge
from kvrescue.guards.compression import gzip_ratio, tail_bytes
from kvrescue.lab import grade, story
from kvrescue.lab.story import Difficulty
from kvrescue.models.load import LAB_FOLDER, Pair, load_lab

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Record:
    """One finished run. Errors are those of committed steps, by what kind of step they are in."""

    right: bool
    answered: bool
    degenerate: bool
    """No answer at all, or the committed text trips a detector when it is read as a whole."""
    first_error: str | None
    errors: dict[str, int]
    base_steps: int
    helper_steps: int
    base_tokens: int
    """Everything the base wrote: committed, discarded and aborted."""
    helper_tokens: int
    committed_tokens: int
    peak_resident: int
    aborted: int
    mean_resident: float
    """Tokens held by each layer and head, over prompt and steps."""
    retention: float
    """Held over seen, likewise."""
    probes: int
    suppressed: int
    reward: float | None
    """Least reward of a committed step, when there was a judge."""
    seconds: float
    kinds: dict[str, list[int]] = field(default_factory=dict)
    """Per kind of committed step: how many, and how many of them right."""


def solve(pair: Pair, index: int, seed: int, difficulty: Difficulty, config: RunConfig) -> Record:
    """Run held-out problem ``index`` of ``seed``; the seed also draws the samples."""
    told = story.held_out(seed, index, difficulty)
    watcher = _Watcher(config)
    for event in run(told.text, config, pair):
        watcher.see(event)
    return watcher.record(told)


class _Watcher:
    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.steps: list[str] = []
        self.sources: list[str] = []
        self.rewards: list[float] = []
        self.entropies: list[float] = []
        self.residents: list[int] = []
        self._writing: dict[tuple[str, int], list[float]] = {}
        self.closing: Any = None

    def see(self, event: Any) -> None:
        if event.type == "step_begin":
            self._writing = {}
        elif event.type == "tokens":
            for row in event.rows:
                self._writing.setdefault((event.source, row.cand), []).extend(row.ent)
        elif event.type == "commit":
            self.steps.append(event.text)
            self.sources.append(event.source)
            self.entropies += self._writing.get((event.source, event.cand), [])
            if event.score is not None:
                self.rewards.append(event.score)
        elif event.type == "kv":
            self.residents.append(event.resident)
        elif event.type in ("end", "error"):
            self.closing = event

    def record(self, told: story.Story) -> Record:
        end = self.closing
        grades = grade.grade_steps(told, self.steps)
        wrong = [one.error for one in grades if one.error]
        kinds: dict[str, list[int]] = {}
        for one in grades:
            count = kinds.setdefault(one.kind or "none", [0, 0])
            count[0] += 1
            count[1] += one.right
        totals = {source: count.generated for source, count in end.totals.items()}
        return Record(
            right=end.answer == str(told.answer),
            answered=end.answer is not None,
            degenerate=end.answer is None or self._trips(),
            first_error=wrong[0] if wrong else None,
            errors={name: wrong.count(name) for name in ("recall", "arithmetic", "form") if name in wrong},
            base_steps=self.sources.count("base"),
            helper_steps=self.sources.count("helper"),
            base_tokens=totals.get("base", 0),
            helper_tokens=totals.get("helper", 0),
            committed_tokens=sum(count.committed for count in end.totals.values()),
            peak_resident=end.peak_resident,
            aborted=end.aborted_candidates,
            mean_resident=sum(self.residents) / max(1, len(self.residents)),
            retention=end.mean_retention,
            probes=end.probes,
            suppressed=end.suppressed,
            reward=min(self.rewards, default=None),
            seconds=end.seconds,
            kinds=kinds,
        )

    def _trips(self) -> bool:
        config, text = self.config, "".join(self.steps)
        ratios = []
        for end in range(config.cmp_window, len(text) + 1, 16):
            tail = tail_bytes(text[:end], config.cmp_window)
            if tail:
                ratios.append((end, gzip_ratio(tail)))
        return rejudge(self.entropies, ratios, ent_window=config.ent_window, tau_ent=config.tau_ent, tau_cmp=config.tau_cmp) is not None


# --- many at once ---------------------------------------------------------------------------------------------------------

_pair: Pair | None = None


def _start(folder: Path) -> None:
    global _pair
    torch.set_num_threads(1)
    _pair = load_lab(folder, say=lambda _text: None)


def _call(job: tuple[Callable[[Pair, Any], Any], Any]) -> Any:
    assert _pair is not None
    return job[0](_pair, job[1])


def spread(work: Callable[[Pair, T], R], tasks: Sequence[T], workers: int | None = None, folder: Path = LAB_FOLDER) -> Iterator[R]:
    """``work(pair, task)`` for every task, in order, in processes of one thread each (default: one a core). ``work`` is a module's function."""
    workers = workers or min(len(tasks), os.cpu_count() or 1)
    if workers <= 1:
        pair = load_lab(folder, say=lambda _text: None)
        yield from (work(pair, task) for task in tasks)
        return
    jobs = ((work, task) for task in tasks)
    with ProcessPoolExecutor(workers, get_context("spawn"), _start, (folder,)) as pool:
        yield from pool.map(_call, jobs, chunksize=max(1, min(8, len(tasks) // (4 * workers))))
