"""KeyDiff: keys unlike the average direction of all keys are kept. Newest ``window`` protected (our option)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from kvrescue.cache.policies.base import LayerState
from kvrescue.cache.policies.knorm import Knorm


@dataclass(frozen=True)
class KeyDiff(Knorm):
    name: ClassVar[str] = "keydiff"

    def score(self, layer: LayerState) -> Tensor:
        directions = F.normalize(layer.keys.float(), dim=-1)
        anchor = F.normalize(directions.mean(dim=-2, keepdim=True), dim=-1)
        return -(directions * anchor).sum(-1)
