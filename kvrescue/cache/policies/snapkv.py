"""SnapKV, reduced as in kvpress: softmax over all columns, mean over queries, average pooling, mean over the GQA group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from kvrescue.cache.policies.base import LayerState, WindowedPolicy, grouped_logits, with_window


@dataclass(frozen=True)
class SnapKV(WindowedPolicy):
    name: ClassVar[str] = "snapkv"

    def score(self, layer: LayerState) -> Tensor:
        logits = grouped_logits(layer)
        window, total = logits.shape[-2:]
        future = torch.ones(window, total, dtype=torch.bool, device=logits.device).triu(total - window + 1)
        attention = logits.masked_fill(future, -torch.inf).softmax(-1).mean(dim=-2)[..., : total - window]
        # The zero padding counts in the average, so both ends read a little low, as in the original.
        pooled = F.avg_pool1d(attention.flatten(0, 1), self.kernel, stride=1, padding=self.kernel // 2) if total > window else attention
        return with_window(pooled.view_as(attention).mean(dim=2), total)
