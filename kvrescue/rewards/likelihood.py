"""``likelihood``: how probable a full-context model finds a step. A stand-in for a trained PRM, and it says so.

reward = exp(mean log p(token)), the geometric mean probability of the step's tokens at temperature 1. It favours the sampling of the
model that judges (feasibility.md 2), so results always name that model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from kvrescue.cache.prefix import PrefixBranch, PrefixCache
from kvrescue.cache.shape import CacheShape
from kvrescue.engine.proposer import PIECE_TOKENS, forward
from kvrescue.models.load import Loaded
from kvrescue.rewards.base import Reward, Step
from kvrescue.stop import Stop

_TOKENS_PER_FORWARD = {"cpu": 128}
"""Rows times columns of one scoring forward, so that a stop is felt; accelerators take 4096."""


class LikelihoodScorer:
    name = "likelihood"

    def __init__(self, loaded: Loaded, who: str) -> None:
        """``who``: the judge's name in words, ``"helper"`` or ``"base"``."""
        self.label = f"likelihood under the {who} with full context (a stand-in, not a trained PRM)"
        self._loaded = loaded
        self._per_forward = _TOKENS_PER_FORWARD.get(loaded.model.device.type, 4096)

    def begin(self, problem: str, prompt: Sequence[int], stop: Stop) -> None:
        self._stop = stop
        self.cache = PrefixCache(CacheShape.of(self._loaded.model))
        self._scored: dict[tuple[int, ...], tuple[PrefixBranch, Tensor]] = {}
        self._read(prompt)

    @torch.no_grad()
    def score(self, steps: Sequence[Step]) -> list[Reward]:
        self._scored = {}
        sums = [0.0] * len(steps)
        branch = self.cache.fork(len(steps))
        live, last = list(range(len(steps))), self._next.expand(len(steps), -1)
        start = 0
        while live:
            self._stop.check()
            columns = max(4, self._per_forward // len(live))
            block = self._block(steps, live, start, columns)
            logits = forward(self._loaded, branch, block)
            branch.advance(block.shape[1])
            left = [len(steps[i].ids) - start for i in live]
            first = _log_probs(last.unsqueeze(1), block[:, :1], left)
            others = _log_probs(logits[:, :-1], block[:, 1:], [count - 1 for count in left])
            for i, one, more in zip(live, first, others, strict=True):
                sums[i] += one + more
            start += block.shape[1]
            going = self._retire(steps, live, branch, logits, start)
            last = logits[going, -1]
            live = [live[row] for row in going]
            branch = branch.select(going) if live else branch
        return [_reward(total, len(step.ids)) for total, step in zip(sums, steps, strict=True)]

    def commit(self, step: Step) -> None:
        known = self._scored.pop(step.ids, None)
        self._scored = {}
        if known is None:
            self._read(step.ids)
            return
        branch, self._next = known
        self.cache.adopt(branch, len(step.ids))

    def _block(self, steps: Sequence[Step], live: list[int], start: int, columns: int) -> Tensor:
        """The next columns of the live steps; a step that ends earlier is padded, which causal attention cannot see."""
        width = min(columns, max(len(steps[i].ids) for i in live) - start)
        rows = [list(steps[i].ids[start : start + width]) for i in live]
        return torch.tensor([row + [0] * (width - len(row)) for row in rows])

    def _retire(self, steps: Sequence[Step], live: list[int], branch: PrefixBranch, logits: Tensor, start: int) -> list[int]:
        """Remember complete rows for :meth:`commit`; returns the rows that go on."""
        for row, i in enumerate(live):
            length = len(steps[i].ids)
            if length <= start:
                self._scored[steps[i].ids] = (branch.select([row]), logits[row : row + 1, length - start - 1])
        return [row for row, i in enumerate(live) if len(steps[i].ids) > start]

    @torch.no_grad()
    def _read(self, ids: Sequence[int]) -> None:
        for start in range(0, len(ids), PIECE_TOKENS):
            self._stop.check()
            branch = self.cache.grow()
            block = torch.tensor([list(ids[start : start + PIECE_TOKENS])])
            self._next = forward(self._loaded, branch, block, keep=1)[:, -1]
            branch.advance(block.shape[1])
            self.cache.adopt(branch)


def _log_probs(logits: Tensor, targets: Tensor, lengths: list[int]) -> list[float]:
    """Sum of log p(target) over the first ``lengths[row]`` columns of each row; logits (rows, columns, vocab)."""
    picked = logits.gather(-1, targets.to(logits.device).unsqueeze(-1)).squeeze(-1).float()
    log_probs = picked - logits.float().logsumexp(-1)
    return [float(row[: max(0, length)].sum()) for row, length in zip(log_probs, lengths, strict=True)]


def _reward(total: float, tokens: int) -> Reward:
    mean = total / tokens if tokens else math.nan
    if not math.isfinite(mean):
        return Reward(None, {"tokens": tokens})
    return Reward(math.exp(mean), {"mean_logprob": round(mean, 4), "tokens": tokens})
