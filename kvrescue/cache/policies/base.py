"""What a policy sees and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class LayerState:
    """Layers at compaction time, stacked along the batch: b = layers * rows."""

    keys: Tensor
    """(b, Hk, n, d), after RoPE"""
    values: Tensor
    """(b, Hk, n, d)"""
    positions: Tensor
    """(b, Hk, n) int64 logical index of each slot, ascending"""
    queries: Tensor | None
    """(b, Hq, w, d) post-RoPE queries of the newest w tokens, oldest first; fewer when fewer were seen"""
    scaling: float
    """of the attention logits"""
    mass: Tensor | None = None
    """(b, Hk, n) float32, attention that each slot has received so far, summed over the GQA group (H2O)"""


@dataclass(frozen=True)
class Policy:
    """A policy scores tokens; which are kept is decided once for all policies in selection.py."""

    name: ClassVar[str]
    needs_mass: ClassVar[bool] = False

    @property
    def query_window(self) -> int:
        """How many of the newest queries :meth:`score` wants; 0 for none."""
        return 0

    def recent(self, keep: int) -> int:
        """Newest tokens that are kept whatever their score, when ``keep`` tokens stay."""
        return 0

    def sinks(self) -> int:
        """First resident tokens that are kept whatever their score."""
        return 0

    def score(self, layer: LayerState) -> Tensor:
        """(b, Hk, n) float32, higher is kept. Pure."""
        raise NotImplementedError


@dataclass(frozen=True)
class WindowedPolicy(Policy):
    """Judges the past by the queries of the newest ``window`` tokens, which are kept themselves."""

    window: int = 8
    kernel: int = 7

    @property
    def query_window(self) -> int:
        return self.window

    def recent(self, keep: int) -> int:
        return self.window


def grouped_logits(layer: LayerState) -> Tensor:
    """Scaled attention logits of the observed queries: (b, Hk, g, w, n) float32."""
    assert layer.queries is not None
    batch, kv_heads, total, dim = layer.keys.shape
    window = layer.queries.shape[2]
    queries = layer.queries.float().reshape(batch, kv_heads, -1, dim)
    logits = (queries @ layer.keys.float().transpose(-1, -2)) * layer.scaling
    return logits.view(batch, kv_heads, -1, window, total)


def max_pool(scores: Tensor, kernel: int) -> Tensor:
    """Stride 1, same length, along the last axis of (b, Hk, n)."""
    return F.max_pool1d(scores, kernel, stride=1, padding=kernel // 2) if scores.shape[-1] else scores


def with_window(scores: Tensor, total: int) -> Tensor:
    """Scores of the past (b, Hk, n - w) back to (b, Hk, n); the window's places are 0, they are kept anyway."""
    return F.pad(scores, (0, total - scores.shape[-1]))
