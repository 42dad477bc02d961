"""StreamingLLM: the first tokens (attention sinks) and the newest ones. Positions stay absolute, as in R-KV's port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from kvrescue.cache.policies.base import LayerState, Policy


@dataclass(frozen=True)
class StreamingLLM(Policy):
    name: ClassVar[str] = "streaming-llm"
    n_sink: int = 4

    def sinks(self) -> int:
        return self.n_sink

    def score(self, layer: LayerState) -> Tensor:
        """The logical position itself: the newest win."""
        return layer.positions.float()
