"""Run one lab problem and grade everything that was written."""

from __future__ import annotations

from dataclasses import replace

from kvrescue.bench.record import Record, Watcher
from kvrescue.config import RunConfig
from kvrescue.engine.run import run
from kvrescue.lab import grade, story
from kvrescue.lab.story import Difficulty, Story
from kvrescue.models.load import Pair


def solve(pair: Pair, index: int, seed: int, difficulty: Difficulty, config: RunConfig) -> Record:
    """Run held-out problem ``index`` of ``seed``; the samples are drawn by the settings' own seed."""
    told = story.held_out(seed, index, difficulty)
    watcher = Watcher(config)
    for event in run(told.text, config, pair):
        watcher.see(event)
    record = watcher.record(watcher.closing.answer == str(told.answer))
    return graded(record, told, [step["text"] for step in watcher.steps])


def graded(record: Record, told: Story, steps: list[str]) -> Record:
    """The record with what is wrong in each of its steps."""
    grades = grade.grade_steps(told, steps)
    wrong = [one.error for one in grades if one.error]
    kinds: dict[str, list[int]] = {}
    for one in grades:
        count = kinds.setdefault(one.kind or "none", [0, 0])
        count[0] += 1
        count[1] += one.right
    errors: dict[str, int] = {name: wrong.count(name) for name in ("recall", "arithmetic", "form") if name in wrong}
    return replace(record, first_error=wrong[0] if wrong else None, errors=errors, kinds=kinds)
