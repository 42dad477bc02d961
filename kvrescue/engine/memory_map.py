"""Which positions a cache still holds, as the run-length strings of a ``kv`` event."""

from __future__ import annotations

from torch import Tensor

from kvrescue import rle
from kvrescue.cache.evicting import EvictingCache
from kvrescue.cache.prefix import PrefixCache

MOST_GROUPS = 8


def memory_maps(cache: EvictingCache | PrefixCache) -> tuple[str, list[str]]:
    """Who holds each position: over all slots, and over each of at most MOST_GROUPS groups of neighbouring layers (none while nothing is lost)."""
    by_layer = cache.held()
    heads = cache.shape.kv_heads

    def encoded(held: Tensor) -> str:
        slots = held.shape[0] * heads
        return rle.encode(rle.level(count, slots) for count in held.sum(0).tolist())

    whole = encoded(by_layer)
    if cache.resident >= cache.seen:
        return whole, []
    return whole, [encoded(group) for group in by_layer.tensor_split(min(MOST_GROUPS, by_layer.shape[0]))]
