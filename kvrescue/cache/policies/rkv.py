"""R-KV: importance (as in decode-time SnapKV) against redundancy, the cosine similarity to other keys (algorithms.md 2.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from kvrescue.cache.policies.base import LayerState, max_pool, with_window
from kvrescue.cache.policies.snapkv_decode import SnapKVDecode

SIMILAR = 0.5


@dataclass(frozen=True)
class RKV(SnapKVDecode):
    name: ClassVar[str] = "rkv"
    weight: float = 0.1
    """lambda: 1 is importance only, 0 redundancy only."""

    def score(self, layer: LayerState) -> Tensor:
        importance = max_pool(self.importance(layer), self.kernel)
        repeated = redundancy(layer.keys)[..., : importance.shape[-1]]
        return with_window(self.weight * importance - (1 - self.weight) * repeated, layer.keys.shape[2])


def redundancy(keys: Tensor) -> Tensor:
    """(b, Hk, n) float32, sums to 1: how much each key repeats the others, its most recent near-duplicate per row spared."""
    similarity = cosine_similarity(keys)
    similarity.scatter_(-1, spared_columns(similarity).unsqueeze(-1), 0.0)
    return similarity.mean(dim=-2).softmax(-1)


def cosine_similarity(keys: Tensor) -> Tensor:
    """(b, Hk, n, n) with a zero diagonal."""
    keys = keys.float()
    keys = keys / (keys.norm(dim=-1, keepdim=True) + 1e-8)
    similarity = keys @ keys.transpose(-1, -2)
    similarity.diagonal(dim1=-2, dim2=-1).zero_()
    return similarity


def spared_columns(similarity: Tensor) -> Tensor:
    """(b, Hk, n): for each row the newest column above the threshold; 0 when none is, which spares the sink token."""
    columns = torch.arange(similarity.shape[-1], dtype=similarity.dtype, device=similarity.device)
    return ((similarity > SIMILAR) * columns).argmax(dim=-1)
