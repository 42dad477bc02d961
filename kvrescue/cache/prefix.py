"""Full-context cache: one committed prefix, read by every candidate, and each candidate's own suffix.

The helper, the full-KV base and the scorer use it. Nothing is ever evicted. Forking N candidates copies nothing: each branch
holds only its own suffix and attends over the shared prefix (attention.shared_prefix_attention). A branch of one row
writes straight behind the committed prefix, so that adopting it costs nothing.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from kvrescue.cache.attention import causal_attention, shared_prefix_attention
from kvrescue.cache.shape import CacheShape, Compaction

FIRST_CAPACITY = 256


class _LayerBuffers:
    """Growing (rows, Hk, capacity, d) buffers of one layer; capacity doubles, so appending is amortised O(1)."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def write(self, start: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write at [start, start + q) and return views of everything up to there."""
        end = start + keys.shape[2]
        self.keys = self._with_room(self.keys, keys, start, end)
        self.values = self._with_room(self.values, values, start, end)
        self.keys[:, :, start:end] = keys
        self.values[:, :, start:end] = values
        return self.keys[:, :, :end], self.values[:, :, :end]

    @staticmethod
    def _with_room(buffer: Tensor | None, new: Tensor, start: int, end: int) -> Tensor:
        if buffer is not None and buffer.shape[2] >= end:
            return buffer
        capacity = max(FIRST_CAPACITY, 1 << (end - 1).bit_length())
        grown = new.new_empty(new.shape[0], new.shape[1], capacity, new.shape[3])
        if buffer is not None and start:
            grown[:, :, :start] = buffer[:, :, :start]
        return grown

    def select(self, rows: Tensor, length: int) -> _LayerBuffers:
        chosen = _LayerBuffers()
        if self.keys is not None and self.values is not None:
            index = rows.to(self.keys.device)
            chosen.keys = self.keys[:, :, :length].index_select(0, index)
            chosen.values = self.values[:, :, :length].index_select(0, index)
        return chosen


class PrefixCache:
    """The committed trajectory of one full-context model. ``length`` tokens, batch 1."""

    def __init__(self, shape: CacheShape) -> None:
        self.shape = shape
        self.length = 0
        self.buffers = [_LayerBuffers() for _ in range(shape.layers)]

    @property
    def resident(self) -> int:
        return self.length

    @property
    def seen(self) -> int:
        return self.length

    @property
    def peak(self) -> int:
        return self.length

    @property
    def bytes(self) -> int:
        return self.shape.bytes_per_token * self.length

    def fork(self, rows: int) -> PrefixBranch:
        return PrefixBranch(self, rows)

    def grow(self) -> PrefixBranch:
        """Where committed tokens are read into."""
        return PrefixBranch(self, 1)

    def adopt(self, branch: PrefixBranch, tokens: int | None = None) -> PrefixCache:
        """Make a one-row branch (or its first ``tokens`` tokens) part of the committed prefix."""
        assert branch.rows == 1 and branch.shared is self
        taken = branch.length if tokens is None else tokens
        if not branch.inline:
            for target, suffix in zip(self.buffers, branch.buffers, strict=True):
                if suffix.keys is not None and suffix.values is not None and taken:
                    target.write(self.length, suffix.keys[:, :, :taken], suffix.values[:, :, :taken])
        self.length += taken
        return self

    def held(self) -> Tensor:
        """How many KV heads of each layer hold each position: (layers, seen) int64; here all of them."""
        return torch.full((self.shape.layers, self.length), self.shape.kv_heads, dtype=torch.int64)


class PrefixBranch:
    """Rows that grow from a shared committed prefix. Passed to the model as ``cache=branch, kv=branch``."""

    room = sys.maxsize
    """No limit on how many tokens one forward may add."""

    def __init__(self, shared: PrefixCache, rows: int) -> None:
        self.compactions: list[Compaction] = []
        self.shared = shared
        self.rows = rows
        self.inline = rows == 1
        self.length = 0
        self.buffers = shared.buffers if self.inline else [_LayerBuffers() for _ in shared.buffers]

    @property
    def seen(self) -> int:
        return self.shared.length + self.length

    def update(self, keys: Tensor, values: Tensor, layer: int, **_: object) -> tuple[Tensor, Tensor]:
        start = self.seen if self.inline else self.length
        return self.buffers[layer].write(start, keys, values)

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        prefix, end = self.buffers[layer] if self.inline else self.shared.buffers[layer], self.shared.length
        if not end or (self.inline and query.shape[2] == 1):
            return causal_attention(query, keys, values, scaling)
        assert prefix.keys is not None and prefix.values is not None
        if self.inline:
            keys, values = keys[:, :, end:], values[:, :, end:]
        return shared_prefix_attention(query, prefix.keys[:, :, :end], prefix.values[:, :, :end], keys, values, scaling)

    def advance(self, tokens: int) -> None:
        self.length += tokens

    def select(self, rows: list[int]) -> PrefixBranch:
        """A branch with only these rows (in this order); the shared prefix is not touched."""
        if rows == list(range(self.rows)):
            return self
        branch = PrefixBranch.__new__(PrefixBranch)
        branch.shared, branch.rows, branch.inline, branch.length = self.shared, len(rows), False, self.length
        branch.compactions = []
        index = torch.tensor(rows)
        branch.buffers = [buffer.select(index, self.length) for buffer in self.buffers]
        return branch
