"""Plain records that both caches share: a model's cache sizes, and what one eviction did."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch


def backbone_of(model: Any) -> Any:
    """The decoder layers' owner: the model itself when it was loaded without a language model head."""
    return getattr(model, "model", model)


@dataclass(frozen=True)
class CacheShape:
    kv_heads: int
    query_heads: int
    head_dim: int
    dtype: torch.dtype
    devices: tuple[torch.device, ...]
    """Device of each decoder layer."""

    @property
    def layers(self) -> int:
        return len(self.devices)

    @property
    def slots(self) -> int:
        """(layer, KV head) pairs: each may hold or have lost a token."""
        return self.layers * self.kv_heads

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.slots * self.head_dim * self.dtype.itemsize

    def device_runs(self) -> list[tuple[torch.device, int]]:
        """Consecutive layers on one device: (device, how many)."""
        return [(device, len(list(group))) for device, group in groupby(self.devices)]

    @classmethod
    def of(cls, model: Any) -> CacheShape:
        config = model.config
        heads = config.num_attention_heads
        return cls(
            kv_heads=config.num_key_value_heads,
            query_heads=heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            dtype=model.dtype,
            devices=tuple(next(layer.parameters()).device for layer in backbone_of(model).layers),
        )


@dataclass(frozen=True)
class Compaction:
    """What one eviction did to every layer and head of every row."""

    rows: int
    before: int
    after: int
    seen: int
    seconds: float
