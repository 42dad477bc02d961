"""TOVA: what the newest query attends to, averaged over all query heads; every head of a layer keeps the same tokens.

The current token is not forced in, as in the original.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from kvrescue.cache.policies.base import LayerState, Policy, grouped_logits


@dataclass(frozen=True)
class Tova(Policy):
    name: ClassVar[str] = "tova"

    @property
    def query_window(self) -> int:
        return 1

    def score(self, layer: LayerState) -> Tensor:
        newest = grouped_logits(layer)[:, :, :, -1].softmax(-1)
        return newest.mean(dim=(1, 2)).unsqueeze(1).expand(-1, layer.keys.shape[1], -1)
