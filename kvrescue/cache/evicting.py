"""The base's cache: a fixed number of slots per layer and KV head, emptied by a policy when they are full.

``budget`` tokens stay after a compaction, ``buffer`` more may arrive before the next one, so a cache never holds more than
``budget + buffer`` and its storage never grows with the trajectory. Every layer and head keeps the same number of
tokens; which ones may differ. Keys keep the rotation of their original position; ``positions`` remembers it.
Compaction happens between forwards only (algorithms.md 1.3), at a resident count that does not depend on how tokens
arrive: a chunk, cut to :attr:`room`, leaves the same cache as its tokens one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kvrescue.cache.attention import attention_probabilities, causal_attention
from kvrescue.cache.policies import LayerState, Policy, compact_indices
from kvrescue.cache.shape import CacheShape, Compaction

_SCORE_BYTES = 64 << 20
"""Layers are scored together as long as R-KV's (n, n) matrices stay below this."""


@dataclass
class _Block:
    """Storage of consecutive layers that live on one device; leading axes (layers, rows)."""

    keys: Tensor
    """(l, b, Hk, capacity, d)"""
    values: Tensor
    positions: Tensor
    """(l, b, Hk, capacity) int64, logical index of each slot"""
    queries: Tensor
    """(l, b, Hq, w, d) ring of the newest post-RoPE queries"""
    mass: Tensor
    """(l, b, Hk, capacity) float32 accumulated attention; capacity 0 unless the policy needs it"""

    def map(self, change: Callable[[Tensor], Tensor]) -> _Block:
        return _Block(change(self.keys), change(self.values), change(self.positions), change(self.queries), change(self.mass))


class EvictingCache:
    """``rows`` trajectories of equal length that share one policy. The committed cache has one row; :meth:`fork` makes N.

    The committed cache is a snapshot: forks copy it and never write to it, so restoring means dropping the fork.
    """

    def __init__(
        self, shape: CacheShape, policy: Policy, budget: int, buffer: int, *, longest: int | None = None, protected: int = 0, on_demand: bool = False
    ) -> None:
        """``longest``: tokens that will ever be seen, if known, so that a huge budget reserves no more storage than that.
        ``protected``: the first so many positions (the prompt) are never evicted. ``on_demand``: the owner may call
        :meth:`retain` at any time, so the newest queries are always kept at hand.
        """
        self.shape, self.policy, self.budget, self.buffer, self.protected = shape, policy, budget, buffer, protected
        self._on_demand = on_demand
        self.capacity = self.limit if longest is None else min(self.limit, longest)
        self._scaling = 1.0
        self.rows = 1
        self.resident = 0
        self.seen = 0
        self.peak = 0
        self.observed = 0
        self.compactions: list[Compaction] = []
        """Since the list was last emptied by the owner."""
        self.blocks = [self._empty(device, count) for device, count in shape.device_runs()]
        self._of_layer = [(block, layer) for block in self.blocks for layer in range(block.keys.shape[0])]

    def _empty(self, device: torch.device, layers: int) -> _Block:
        shape = self.shape
        kv = (layers, 1, shape.kv_heads, self.capacity)
        return _Block(
            keys=torch.zeros(*kv, shape.head_dim, dtype=shape.dtype, device=device),
            values=torch.zeros(*kv, shape.head_dim, dtype=shape.dtype, device=device),
            positions=torch.zeros(kv, dtype=torch.int64, device=device),
            queries=torch.zeros(layers, 1, shape.query_heads, self.policy.query_window, shape.head_dim, dtype=shape.dtype, device=device),
            mass=torch.zeros(*kv[:3], self.capacity if self.policy.needs_mass else 0, dtype=torch.float32, device=device),
        )

    @property
    def limit(self) -> int:
        return self.budget + self.buffer

    @property
    def room(self) -> int:
        """Tokens that may be fed in one forward before the cache must be compacted (at least 1)."""
        return self.limit - self.resident

    @property
    def bytes(self) -> int:
        """Bytes of the resident keys and values of one row."""
        return self.shape.bytes_per_token * self.resident

    # --- inside a forward -------------------------------------------------------------------------------------------------

    def update(self, keys: Tensor, values: Tensor, layer: int, **_: object) -> tuple[Tensor, Tensor]:
        """Store (b, Hk, q, d) behind the resident tokens; views (b, Hk, resident + q, d) come back."""
        end = self.resident + keys.shape[2]
        if end > self.capacity:
            raise ValueError(f"{keys.shape[2]} tokens do not fit: the cache has room for {self.capacity - self.resident}")
        block, index = self._of_layer[layer]
        block.keys[index, :, :, self.resident : end] = keys
        block.values[index, :, :, self.resident : end] = values
        return block.keys[index, :, :, :end], block.values[index, :, :, :end]

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        block, index = self._of_layer[layer]
        self._scaling = scaling
        if self.policy.needs_mass:
            probabilities = attention_probabilities(query, keys, scaling)
            block.mass[index, :, :, : keys.shape[2]] += probabilities.sum(dim=(2, 3))
        if self.policy.query_window:
            self._observe(block.queries[index], query, keys.shape[2])
        return causal_attention(query, keys, values, scaling)

    def _observe(self, ring: Tensor, query: Tensor, total: int) -> None:
        # Only the last w queries before a compaction are ever read, so earlier ones are not stored.
        window = ring.shape[2]
        if total <= self.limit - window and not self._on_demand:
            return
        newest = query[:, :, -window:]
        start = (self.seen + query.shape[2] - newest.shape[2]) % window
        head = min(newest.shape[2], window - start)
        ring[:, :, start : start + head] = newest[:, :, :head]
        ring[:, :, : newest.shape[2] - head] = newest[:, :, head:]

    # --- between forwards -------------------------------------------------------------------------------------------------

    def advance(self, tokens: int) -> None:
        """A forward over ``tokens`` tokens is complete: move on, and compact when the slots are full."""
        end = self.resident + tokens
        for block in self.blocks:
            block.positions[:, :, :, self.resident : end] = torch.arange(self.seen, self.seen + tokens, device=block.positions.device)
        self.resident, self.seen = end, self.seen + tokens
        self.peak = max(self.peak, end)
        if end >= self.limit:
            self._compact(self.budget)

    def retain(self, keep: int) -> None:
        """Compact to ``keep`` tokens now; nothing happens when no more are resident."""
        if keep < self.resident:
            self._compact(keep)

    def _compact(self, keep: int) -> None:
        began, before = time.perf_counter(), self.resident
        for block in self.blocks:
            for first in range(0, block.keys.shape[0], self._layers_at_once()):
                layers = slice(first, first + self._layers_at_once())
                self._keep(block, layers, compact_indices(self.policy, self._state(block, layers), keep, self._forced(block, layers)))
        self.resident = keep
        self.compactions.append(Compaction(self.rows, before, self.resident, self.seen, time.perf_counter() - began))

    def _layers_at_once(self) -> int:
        per_layer = self.rows * self.shape.kv_heads * self.resident * self.resident * 4
        return max(1, _SCORE_BYTES // per_layer)

    def _state(self, block: _Block, layers: slice) -> LayerState:
        """The chosen layers as one batch of (layers * rows)."""
        full = slice(0, self.resident)
        return LayerState(
            keys=block.keys[layers, :, :, full].flatten(0, 1),
            values=block.values[layers, :, :, full].flatten(0, 1),
            positions=block.positions[layers, :, :, full].flatten(0, 1),
            queries=self._newest_queries(block.queries[layers]) if self.policy.query_window else None,
            scaling=self._scaling,
            mass=block.mass[layers, :, :, full].flatten(0, 1) if self.policy.needs_mass else None,
        )

    def _newest_queries(self, ring: Tensor) -> Tensor:
        """Oldest first; fewer than w when fewer tokens were ever seen."""
        window = ring.shape[3]
        ordered = ring.roll(-(self.seen % window), dims=3)[:, :, :, -min(window, self.seen) :]
        return ordered.flatten(0, 1)

    def _forced(self, block: _Block, layers: slice) -> Tensor | None:
        if not self.protected:
            return None
        return block.positions[layers, :, :, : self.resident].flatten(0, 1) < self.protected

    def _keep(self, block: _Block, layers: slice, kept: Tensor) -> None:
        """Move the kept slots (layers * rows, Hk, keep) to the front."""
        index = kept.view(-1, self.rows, *kept.shape[1:])
        wide = index.unsqueeze(-1).expand(*index.shape, self.shape.head_dim)
        for storage, where in ((block.keys, wide), (block.values, wide), (block.positions, index), (block.mass, index)):
            if storage.shape[3]:
                storage[layers, :, :, : kept.shape[-1]] = storage[layers].gather(3, where)

    # --- candidates -------------------------------------------------------------------------------------------------------

    def fork(self, rows: int) -> EvictingCache:
        """A cache with this one's only row ``rows`` times; this one stays as it is."""
        return self._with(lambda tensor: tensor.expand(-1, rows, *tensor.shape[2:]).clone(), rows)

    def grow(self) -> EvictingCache:
        """Where committed tokens are read into: this cache itself."""
        return self

    def select(self, rows: list[int]) -> EvictingCache:
        """A cache with only these rows, in this order."""
        if rows == list(range(self.rows)):
            return self
        index = torch.tensor(rows)
        return self._with(lambda tensor: tensor.index_select(1, index.to(tensor.device)), len(rows))

    def adopt(self, branch: EvictingCache) -> EvictingCache:
        """The committed cache after this one-row candidate won: the branch itself."""
        assert branch.rows == 1
        branch.peak = max(branch.peak, self.peak)
        return branch

    def _with(self, change: Callable[[Tensor], Tensor], rows: int) -> EvictingCache:
        other = EvictingCache.__new__(EvictingCache)
        other.__dict__.update(self.__dict__)
        other.rows = rows
        other.compactions = []
        other.blocks = [block.map(change) for block in self.blocks]
        other._of_layer = [(block, layer) for block in other.blocks for layer in range(block.keys.shape[0])]
        return other

    def held(self) -> Tensor:
        """How many KV heads of each layer hold each position, in row 0: (layers, seen) int64 on the CPU."""
        counts = []
        for block in self.blocks:
            positions = block.positions[:, 0, :, : self.resident]
            layers = torch.arange(positions.shape[0], device=positions.device)[:, None, None]
            flat = (positions + layers * self.seen).flatten()
            counts.append(torch.bincount(flat, minlength=positions.shape[0] * self.seen).view(-1, self.seen).cpu())
        return torch.cat(counts)

    def kept_positions(self, layer: int) -> Tensor:
        """(b, Hk, resident) logical positions in a layer, for inspection and tests."""
        block, index = self._of_layer[layer]
        return block.positions[index, :, :, : self.resident]
