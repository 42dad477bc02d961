"""A method is a row of this table: who proposes, and whether the base forgets. The loop is the same for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvrescue.config import Method, Source


@dataclass(frozen=True)
class Parts:
    sources: tuple[Source, ...]
    """In order of preference when scores tie."""
    evicting: bool
    """The base's cache is compacted to the budget; otherwise it keeps everything."""
    control: Literal["none", "uniform", "reco"] = "none"
    """Who decides after a step what is kept: nobody, a fixed share, or the reward (kvrescue/reco)."""


PARTS: dict[Method, Parts] = {
    "full": Parts(("base",), False),
    "evicted": Parts(("base",), True),
    "evicted-stepwise": Parts(("base",), True),
    "helper": Parts(("helper",), False),
    "kv-rescue": Parts(("base", "helper"), True),
    "reco-uniform": Parts(("base",), True, "uniform"),
    "reco": Parts(("base",), True, "reco"),
    "reco+rescue": Parts(("base", "helper"), True, "reco"),
}
