"""ZeroGPU, where a Space is lent a GPU for seconds at a time: imported first, so that ``spaces`` sees CUDA before anybody else does.

Everything under a GPU call is one decorated generator. It runs in a forked process, so what goes in and comes out is plain JSON text, and
the models are found by name among those that the main process has loaded.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kvrescue.config import ConfigError, RunConfig
from kvrescue.events import AnyEvent, from_line, to_line
from kvrescue.opening import Opening
from kvrescue.segments import joined
from kvrescue.stop import Stop

if TYPE_CHECKING:
    from kvrescue.models.load import Pair

ACTIVE = bool(os.environ.get("SPACES_ZERO_GPU"))
SEGMENT_SECONDS = 25.0
"""A call begins no step later than this after its start."""
SLOW = 25.0
"""Tokens a second that the slowest set writes at least."""
READ_AGAIN = 4_000.0
"""Characters a second that are read again at least."""
MOST_SECONDS = 75.0
"""A visitor without an account can ask for 80."""
BATCH_SECONDS = 0.1
NO_TIME = "Today's free GPU time does not suffice for this run; look at the recordings, log in to the Hub, or duplicate the Space."
NOTE = f"A run borrows the GPU for at most {MOST_SECONDS:.0f} s at a time."

_pairs: dict[str, Pair] = {}


def serve(name: str, pair: Pair) -> None:
    """Make models known to GPU calls, which find them by name after the fork."""
    _pairs[name] = pair


def duration(_name: str, _problem: str, config: str, opening: str, seconds: float) -> int:
    """Seconds of GPU to ask for: for the writing, for the step that is under way when it ends, and for reading what was written before."""
    settings = RunConfig.model_validate_json(config)
    writing = min(seconds, 5 + settings.max_tokens / SLOW)
    last = min(settings.max_step_tokens, settings.max_tokens) / SLOW
    return int(min(MOST_SECONDS, 5 + writing + last + len(opening) / READ_AGAIN))


def without_time(error: Exception) -> bool:
    """``spaces`` says in words of its own that a visitor's time, or the Space's, is used up."""
    return any(word in str(error).lower() for word in ("quota", "gpu limit", "gpu time"))


def segment(name: str, problem: str, config: str, opening: str, seconds: float) -> Iterator[str]:
    """One GPU call: lines of events, some at a time. Takes and gives text only."""
    from kvrescue.engine.run import run

    stop = Stop()
    stop.pause_after(seconds)
    begins = Opening.model_validate_json(opening) if opening else None
    lines, due = "", time.monotonic()
    for event in run(problem, RunConfig.model_validate_json(config), _pairs[name], stop, opening=begins):
        lines += to_line(event) + "\n"
        if time.monotonic() >= due:
            yield lines
            lines, due = "", time.monotonic() + BATCH_SECONDS
    if lines:
        yield lines


def decorated(spaces: Any) -> Callable[..., Iterator[str]]:
    call: Callable[..., Iterator[str]] = spaces.GPU(duration=duration)(segment)
    return call


_call = decorated(importlib.import_module("spaces")) if ACTIVE else segment


def run_in_segments(name: str, problem: str, config: RunConfig, stop: Stop, opening: Opening | None = None) -> Iterator[AnyEvent]:
    """A run in GPU calls of some seconds each; a stop is felt between two batches of events."""

    def call(begins: Opening | None) -> Iterator[AnyEvent]:
        calls = _call(name, problem, config.model_dump_json(), begins.model_dump_json() if begins else "", SEGMENT_SECONDS)
        try:
            for lines in calls:
                stop.check()
                yield from map(from_line, lines.splitlines())
        except Exception as error:
            if without_time(error):
                raise ConfigError("gpu", NO_TIME) from None
            raise
        finally:
            calls.close()  # type: ignore[attr-defined]

    stop.start_clock(config.deadline_s)
    yield from joined(call, opening)
