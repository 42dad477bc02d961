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

from kvrescue.engine.proposer import forward
from kvrescue.models.load import Loaded
from kvrescue.rewards.base import Reward, Step
from kvrescue.rewards.reader import PrefixReader
from kvrescue.rewards.reading import Reading
from kvrescue.stop import Stop


class ReadingScorer:
    """The prefix-cached reading of a step's log-probabilities that such judges share; they differ in :meth:`rate`."""

    name: str
    label: str

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self.reader = PrefixReader(loaded, forward)

    def begin(self, problem: str, prompt: Sequence[int], stop: Stop) -> None:
        self.reader.begin(stop)
        self.reader.read(prompt)

    def rate(self, reading: Reading) -> Reward:
        raise NotImplementedError

    def score(self, steps: Sequence[Step]) -> list[Reward]:
        readings = [Reading() for _ in steps]
        for block in self.reader.alternatives([step.ids for step in steps]):
            predicting = torch.cat([block.before.unsqueeze(1), block.outputs[:, :-1]], dim=1)
            log_probs, gaps = _surprise(predicting, block.ids)
            for row, i in enumerate(block.rows):
                left = len(steps[i].ids) - block.start
                readings[i].add(log_probs[row][:left], gaps[row][:left])
        return [self.rate(reading) for reading in readings]

    def commit(self, step: Step) -> None:
        self.reader.adopt(step.ids)


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
