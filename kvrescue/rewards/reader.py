"""What every judging model shares: one full-context prefix cache, read ahead over alternative next steps, so that a step costs its own
tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kvrescue.cache.prefix import PrefixBranch, PrefixCache
from kvrescue.cache.shape import CacheShape
from kvrescue.engine.proposer import PIECE_TOKENS
from kvrescue.models.load import Loaded
from kvrescue.stop import Stop

Forward = Callable[[Loaded, PrefixBranch, Tensor, int], Tensor]
"""What is read of a token: (model, branch, ids (rows, q), keep) -> (rows, q or the newest ``keep``, width); the caller advances the branch."""


def tokens_per_forward(device: str) -> int:
    """Rows times columns of one forward. A CPU takes few, so that a stop is felt; an accelerator 1,024, which keeps the attention logits of a 7B
    judge at 4,000 tokens below 1 GB."""
    return 128 if device == "cpu" else 1024


@dataclass(frozen=True)
class Block:
    """The next columns of the alternatives that are still being read."""

    start: int
    """Column of the alternatives that the block begins with."""
    rows: list[int]
    """Which alternatives its rows are."""
    ids: Tensor
    """(rows, q), padded with zeros on the right, where causal attention cannot see them."""
    outputs: Tensor
    """(rows, q, width)."""
    before: Tensor
    """(rows, width): the output at the column before."""


class PrefixReader:
    def __init__(self, loaded: Loaded, forward: Forward) -> None:
        self.loaded, self._forward = loaded, forward
        self.per_forward = tokens_per_forward(loaded.model.device.type)

    def begin(self, stop: Stop) -> None:
        self._stop = stop
        self.cache = PrefixCache(CacheShape.of(self.loaded.model))
        self._known: dict[tuple[int, ...], tuple[PrefixBranch, Tensor]] = {}
        self._last: Tensor | None = None

    @torch.no_grad()
    def read(self, ids: Sequence[int]) -> None:
        """Make ``ids`` part of the prefix."""
        for start in range(0, len(ids), PIECE_TOKENS):
            self._stop.check()
            branch = self.cache.grow()
            block = torch.tensor([list(ids[start : start + PIECE_TOKENS])])
            self._last = self._forward(self.loaded, branch, block, 1)[:, -1]
            branch.advance(block.shape[1])
            self.cache.adopt(branch)

    @torch.no_grad()
    def alternatives(self, steps: Sequence[tuple[int, ...]]) -> Iterator[Block]:
        """Read ``steps`` side by side behind the prefix. Each must have a token; the prefix stays as it is."""
        self._known = {}
        if not steps:
            return
        branch = self.cache.fork(len(steps))
        live, before = list(range(len(steps))), None if self._last is None else self._last.expand(len(steps), -1)
        start = 0
        while live:
            self._stop.check()
            ids = self._block(steps, live, start, max(4, self.per_forward // len(live)))
            outputs = self._forward(self.loaded, branch, ids, 0)
            branch.advance(ids.shape[1])
            yield Block(start, live, ids, outputs, torch.zeros_like(outputs[:, 0]) if before is None else before)
            start += ids.shape[1]
            going = self._retire(steps, live, branch, outputs, start)
            before = outputs[going, -1]
            live = [live[row] for row in going]
            branch = branch.select(going) if live else branch

    def adopt(self, ids: tuple[int, ...]) -> None:
        """Make one of the alternatives, or anything else, part of the prefix."""
        known = self._known.pop(ids, None)
        self._known = {}
        if known is None:
            self.read(ids)
            return
        branch, self._last = known
        self.cache.adopt(branch, len(ids))

    def _block(self, steps: Sequence[tuple[int, ...]], live: list[int], start: int, columns: int) -> Tensor:
        width = min(columns, max(len(steps[i]) for i in live) - start)
        rows = [list(steps[i][start : start + width]) for i in live]
        return torch.tensor([row + [0] * (width - len(row)) for row in rows])

    def _retire(self, steps: Sequence[tuple[int, ...]], live: list[int], branch: PrefixBranch, outputs: Tensor, start: int) -> list[int]:
        """Remember complete rows for :meth:`adopt`; returns the rows that go on."""
        for row, i in enumerate(live):
            length = len(steps[i])
            if length <= start:
                self._known[steps[i]] = (branch.select([row]), outputs[row : row + 1, length - (start - outputs.shape[1]) - 1])
        return [row for row, i in enumerate(live) if len(steps[i]) > start]
