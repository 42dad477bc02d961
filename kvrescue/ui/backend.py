"""What the page needs from whoever runs models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from kvrescue.config import RunConfig
from kvrescue.events import AnyEvent
from kvrescue.opening import Opening
from kvrescue.stop import Stop


@dataclass(frozen=True)
class BackendStatus:
    ready: bool
    text: str
    """What it is doing, in a few words: ``"loading weights"``."""
    error: str | None = None
    models: str = ""
    note: str = ""
    """One sentence about the models, such as that base and helper are the same weights."""
    device: str = ""


NOT_LOADED = "not loaded"
"""The text of a backend that nobody has started yet, or that was given back."""


class Backend(Protocol):
    """One model set, or somebody's own models."""

    model_set: str | None
    """Name of the model set, None for somebody's own models."""
    base: str | None
    """Folder or hub id of somebody's own base."""

    def start(self) -> None:
        """Begin to load, unless that has begun already."""

    def release(self) -> bool:
        """Give the models' memory back when nobody uses them; ``start`` loads them again."""

    def status(self) -> BackendStatus: ...

    def count_tokens(self, problem: str) -> int | None:
        """None while the models are not there yet."""

    def check(self, problem: str) -> None:
        """ConfigError when these models can't read the problem at all. No compute."""

    def run(self, problem: str, config: RunConfig, stop: Stop, opening: Opening | None = None) -> Iterator[AnyEvent]:
        """Events from header to end or error. ConfigError before any compute for bad input. ``opening``: steps to go on from."""
