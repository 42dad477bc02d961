"""Decode-time SnapKV as R-KV's code reduces it: group maximum of the logits, softmax over the past only, max pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from kvrescue.cache.policies.base import LayerState, WindowedPolicy, grouped_logits, max_pool, with_window


@dataclass(frozen=True)
class SnapKVDecode(WindowedPolicy):
    name: ClassVar[str] = "snapkv-decode"

    def importance(self, layer: LayerState) -> Tensor:
        """(b, Hk, n - w): attention of the window's queries to the past, before pooling."""
        logits = grouped_logits(layer).amax(dim=2)
        past = logits.shape[-1] - logits.shape[-2]
        return logits[..., :past].softmax(-1).mean(dim=-2)

    def score(self, layer: LayerState) -> Tensor:
        return with_window(max_pool(self.importance(layer), self.kernel), layer.keys.shape[2])
