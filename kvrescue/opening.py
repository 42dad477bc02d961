"""Committed steps of an earlier run, for a run that continues it: a fork with other settings, or the next segment of a long one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kvrescue.config import ConfigError, Source
from kvrescue.events import AnyEvent, Commit, Kv

MOST_STEPS = 1_024
MOST_CHARS = 400_000


class OpeningStep(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    source: Source
    cand: int = Field(default=0, ge=0, lt=256)
    score: float | None = Field(default=None, ge=0, le=1)
    text: str = Field(max_length=MOST_CHARS)
    ids: list[int] = Field(default=[], max_length=65_536)
    """The step's tokens for the model that wrote it; empty when the trace does not have them."""


class Opening(BaseModel):
    """What a run begins with. Its texts may come from anybody's trace file."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: str = Field(max_length=64)
    """Id of the run that it continues."""
    steps: list[OpeningStep] = Field(min_length=1, max_length=MOST_STEPS)
    map: str | None = Field(default=None, max_length=1 << 20)
    """The base's memory map behind the last of the steps: the continuation compares its own with it."""


def make_opening(given: Any) -> Opening:
    """Validate what a page, a client or a file says; ConfigError in one sentence."""
    try:
        opening = Opening.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "opening"
        raise ConfigError("opening", f"The steps to continue from are not valid ({place}: {first['msg']}).") from None
    if sum(len(step.text) for step in opening.steps) > MOST_CHARS:
        raise ConfigError("opening", f"The steps to continue from are longer than {MOST_CHARS:,} characters.")
    return opening


def opening_of(events: Sequence[AnyEvent], steps: int | None = None) -> Opening:
    """The first ``steps`` committed steps of a trace (all of them: None); ConfigError when it has fewer, or none."""
    commits = [event for event in events if isinstance(event, Commit)]
    if not commits or (steps is not None and not 1 <= steps <= len(commits)):
        raise ConfigError("steps", f"steps is {steps}; this trace has {len(commits)} committed steps to continue from.")
    kept = commits[: steps if steps is not None else len(commits)]
    maps = [event.map for event in events if isinstance(event, Kv) and event.step == kept[-1].step]
    return Opening(run=events[0].run, steps=[OpeningStep(**step.model_dump()) for step in kept], map=maps[-1] if maps else None)
