"""Knorm: keys of small norm are kept. The newest ``window`` tokens are protected (our option, not the paper's)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from kvrescue.cache.policies.base import LayerState, Policy


@dataclass(frozen=True)
class Knorm(Policy):
    name: ClassVar[str] = "knorm"
    protect_recent: int = 8
    protect_sink: int = 0

    def recent(self, keep: int) -> int:
        return self.protect_recent

    def sinks(self) -> int:
        return self.protect_sink

    def score(self, layer: LayerState) -> Tensor:
        return -layer.keys.float().norm(dim=-1)
