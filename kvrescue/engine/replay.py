"""A run that begins with another run's committed steps: every memory reads them again before anything new is written."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from kvrescue import events
from kvrescue.config import ConfigError
from kvrescue.engine import control
from kvrescue.engine.proposer import Candidate, pieces
from kvrescue.engine.steps import boxed_answer
from kvrescue.opening import Opening, OpeningStep

if TYPE_CHECKING:
    from kvrescue.engine.run import _Run


def check_opening(run: _Run, opening: Opening) -> list[Candidate]:
    """The steps as candidates of these models; ConfigError when nothing is left to be written behind them."""
    candidates = [_candidate(run, step) for step in opening.steps]
    if boxed_answer(run.opening + "".join(step.text for step in opening.steps)) is not None:
        raise ConfigError("opening", "The run had its answer by then; continue from an earlier step.")
    tokens = sum(len(candidate.ids) for candidate in candidates)
    if tokens >= run.token_limit:
        raise ConfigError("max_tokens", f"The steps to continue from have {tokens:,} tokens; at most {run.token_limit:,} can be written.")
    if len(candidates) >= run.config.max_steps:
        raise ConfigError("max_steps", f"max_steps is {run.config.max_steps}; the run continues after step {len(candidates)}.")
    return candidates


def _candidate(run: _Run, step: OpeningStep) -> Candidate:
    """Tokens as they were written where they are this vocabulary's; else the text's."""
    loaded = run._loaded(step.source)
    ids = list(step.ids)
    if not ids or min(ids) < 0 or max(ids) >= len(loaded.tokenizer) or "".join(pieces(loaded, ids, skip_special=True)) != step.text:
        ids = list(loaded.tokenizer.encode(step.text, add_special_tokens=False))
    if not ids:
        raise ConfigError("opening", "One of the steps to continue from is empty.")
    return Candidate(step.source, step.cand, ids=ids, text=step.text, finish="delimiter")


def replay(run: _Run, opening: Opening, candidates: list[Candidate]) -> Generator[Any, None, int]:
    """Commit the steps as if they had just been chosen; returns how many there are.

    Eviction depends on how many tokens are resident, not on how they arrive, so with the same tokens and settings the memory becomes the
    parent's; whether it did is told by the maps, not assumed.
    """
    began = time.perf_counter()
    run.begin_judging()
    for index, (step, candidate) in enumerate(zip(opening.steps, candidates, strict=True)):
        run.stop.check()
        run.totals.generate(candidate.source, len(candidate.ids))
        run.totals.replayed += len(candidate.ids)
        yield run.event(events.StepBegin, step=index)
        yield from run.commit(index, candidate, step.score)
        if run.control:
            yield from control.after_step(run, run.control, index, step.score, asks=False)
    exact = None if opening.map is None else run.last_map == opening.map
    yield run.event(
        events.Resumed, parent=opening.run, steps=len(candidates), tokens=run.totals.replayed, exact=exact, seconds=time.perf_counter() - began
    )
    return len(candidates)
