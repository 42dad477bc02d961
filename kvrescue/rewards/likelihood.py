"""Judges that read a step with a full-context language model: one forward over the step's tokens, behind a cached prefix.

``likelihood``: reward = exp(mean log p(token)), the geometric mean probability of the step's tokens at temperature 1. A stand-in for a
trained PRM, and it says so: it favours the sampling of the model that judges, so results always name that model. The
``prm`` of a model set (:mod:`kvrescue.rewards.prm`) reads the same way with weights of its own.
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
from kvrescue.rewards.reading import Reading
from kvrescue.stop import Stop

_TOKENS_PER_FORWARD = {"cpu": 128}
"""Rows times columns of one scoring forward, so that a stop is felt; accelerators take 4096."""


class ReadingScorer:
    """The prefix-cached reading that such judges share; they differ in :meth:`rate`."""

    name: str
    label: str

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._per_forward = _TOKENS_PER_FORWARD.get(loaded.model.device.type, 4096)

    def begin(self, problem: str, prompt: Sequence[int], stop: Stop) -> None:
        self._stop = stop
        self.cache = PrefixCache(CacheShape.of(self._loaded.model))
        self._scored: dict[tuple[int, ...], tuple[PrefixBranch, Tensor]] = {}
        self._read(prompt)

    def rate(self, reading: Reading) -> Reward:
        raise NotImplementedError

    @torch.no_grad()
    def score(self, steps: Sequence[Step]) -> list[Reward]:
        self._scored = {}
        readings = [Reading() for _ in steps]
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
            log_probs, gaps = _surprise(torch.cat([last.unsqueeze(1), logits[:, :-1]], dim=1), block)
            for row, i in enumerate(live):
                readings[i].add(log_probs[row][: left[row]], gaps[row][: left[row]])
            start += block.shape[1]
            going = self._retire(steps, live, branch, logits, start)
            last = logits[going, -1]
            live = [live[row] for row in going]
            branch = branch.select(going) if live else branch
        return [self.rate(reading) for reading in readings]

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


def _surprise(logits: Tensor, targets: Tensor) -> tuple[list[list[float]], list[list[float]]]:
    """log p(target) and its distance from the best token's, (rows, columns) each; logits (rows, columns, vocab)."""
    picked = logits.gather(-1, targets.to(logits.device).unsqueeze(-1)).squeeze(-1).float()
    return (picked - logits.float().logsumexp(-1)).tolist(), (picked - logits.float().amax(-1)).tolist()


class LikelihoodScorer(ReadingScorer):
    name = "likelihood"

    def __init__(self, loaded: Loaded, who: str) -> None:
        """``who``: the judge's name in words, ``"helper"`` or ``"base"``."""
        super().__init__(loaded)
        self.label = f"likelihood under the {who} with full context (a stand-in, not a trained PRM)"

    def rate(self, reading: Reading) -> Reward:
        if not math.isfinite(reading.mean):
            return Reward(None, {"tokens": reading.tokens})
        return Reward(math.exp(reading.mean), {"mean_logprob": round(reading.mean, 4), "tokens": reading.tokens})
