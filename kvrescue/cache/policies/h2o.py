"""H2O: half of the budget for the newest tokens, half for those that gathered the most attention so far.

The running sum covers every query since the token arrived and is kept across evictions; query heads of a GQA group are
summed (algorithms.md 2.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from kvrescue.cache.policies.base import LayerState, Policy


@dataclass(frozen=True)
class H2O(Policy):
    name: ClassVar[str] = "h2o"
    needs_mass: ClassVar[bool] = True

    def recent(self, keep: int) -> int:
        return keep // 2

    def score(self, layer: LayerState) -> Tensor:
        assert layer.mass is not None
        return layer.mass
