"""``estimator``: a light stand-in for a process reward model, in the role of the paper's Pilot (whose weights nobody has).

A small language model of the set (the lab's helper, 0.07 M parameters) reads the step with full context; a network of 4 inputs, 16 tanh
units and one logistic output turns what it reads (the two most surprising tokens, the mean log-probability, the length) into a reward.
Only the network is trained: it learns the scores of a teacher, which may be any scorer, by binary cross entropy against
them. It estimates the teacher, mistakes included, and is called nothing but an estimator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from kvrescue.models.load import Loaded
from kvrescue.reco.head import Head, inputs
from kvrescue.rewards.base import Reward, Scorer, Step
from kvrescue.rewards.likelihood import ReadingScorer
from kvrescue.rewards.reading import Reading
from kvrescue.stop import Stop


class EstimatorScorer(ReadingScorer):
    name = "estimator"

    def __init__(self, reader: Loaded, head: Head) -> None:
        super().__init__(reader)
        self.label = f"a light estimator that reads with {reader.info.id} and was distilled from {head.teacher}"
        self._head = head

    def rate(self, reading: Reading) -> Reward:
        if not math.isfinite(reading.mean):
            return Reward(None, {"tokens": reading.tokens})
        value = float(self._head(torch.tensor([inputs(reading)])).sigmoid())
        return Reward(value, {"worst_gap": round(reading.worst, 4), "mean_logprob": round(reading.mean, 4), "tokens": reading.tokens})


class Distiller(ReadingScorer):
    """A teacher that judges as always, while the small reader reads the same steps: pairs of inputs and scores pile up."""

    def __init__(self, teacher: Scorer, reader: Loaded) -> None:
        super().__init__(reader)
        self.teacher, self.name, self.label = teacher, teacher.name, teacher.label
        self.pairs: list[tuple[list[float], float]] = []
        self._readings: list[Reading] = []

    def rate(self, reading: Reading) -> Reward:
        self._readings.append(reading)
        return Reward(None)

    def begin(self, problem: str, prompt: Sequence[int], stop: Stop) -> None:
        """``prompt`` is the teacher's; the reader makes its own of the problem."""
        from kvrescue.engine.proposer import prompt_ids

        self.teacher.begin(problem, prompt, stop)
        super().begin(problem, prompt_ids(self._loaded, problem, ""), stop)

    def score(self, steps: Sequence[Step]) -> list[Reward]:
        rewards = self.teacher.score(steps)
        self._readings = []
        super().score([self._own(step) for step in steps])
        for reward, reading in zip(rewards, self._readings, strict=True):
            if reward.value is not None and math.isfinite(reading.mean):
                self.pairs.append((inputs(reading), reward.value))
        return rewards

    def commit(self, step: Step) -> None:
        self.teacher.commit(step)
        super().commit(self._own(step))

    def _own(self, step: Step) -> Step:
        ids = self._loaded.tokenizer.encode(step.text, add_special_tokens=False)
        return Step(step.text, tuple(ids) or (int(self._loaded.tokenizer.eos_token_id or 0),))
