"""Fit and measure the lab's process reward model: what its language model reads of graded steps, turned into a calibrated score.

The steps are real ones (all candidates of evicted bases and helpers, in trajectories that also take wrong turns), right ones and
corrupted ones (a right step with one number or name exchanged). The task's own checker grades them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kvrescue import presets
from kvrescue.config import make_config
from kvrescue.engine.run import run
from kvrescue.lab import language, story
from kvrescue.lab.grade import Grade, Ledger
from kvrescue.models.load import Pair, Prm
from kvrescue.ranking import auc
from kvrescue.rewards.base import Reward, Step
from kvrescue.rewards.prm import PrmScorer
from kvrescue.rewards.reading import Calibration, Reading, features


@dataclass(frozen=True)
class Sample:
    """One judged step: what the verifier read, and what the checker says of it."""

    worst: float
    mean: float
    error: str | None
    kind: str
    corrupted: bool
    derailed: bool = False
    """An earlier committed step was none of the lab's, or out of turn: the checker took nothing in from it, so what is right from there on
    is a matter of taste, and the checker's word is no measure of a judge."""


class _Recorder(PrmScorer):
    """The PRM, writing down what it reads and what is true."""

    def __init__(self, pair: Pair, told: story.Story, rng: random.Random) -> None:
        assert isinstance(pair.prm, Prm)
        super().__init__(pair.prm)
        self._ledger, self._rng = Ledger(told), rng
        self._readings: list[Reading] = []
        self._derailed = False
        self.samples: list[Sample] = []

    def rate(self, reading: Reading) -> Reward:
        self._readings.append(reading)
        return super().rate(reading)

    def score(self, steps: Sequence[Step]) -> list[Reward]:
        graded = [self._ledger.grade(step.text) for step in steps]
        made = [one for step, grade in zip(steps, graded, strict=True) if grade.right for one in [corrupted(step, self._rng)] if one]
        self._readings = []
        rewards = super().score([*steps, *made])
        graded += [self._ledger.grade(step.text) for step in made]
        for at, (reading, grade) in enumerate(zip(self._readings, graded, strict=True)):
            self.samples.append(_sample(reading, grade, at >= len(steps), self._derailed))
        return rewards[: len(steps)]

    def commit(self, step: Step) -> None:
        super().commit(step)
        grade = self._ledger.commit(step.text)
        self._derailed |= grade.error == "form" and grade.kind != "stray"


def _sample(reading: Reading, grade: Grade, made: bool, derailed: bool) -> Sample:
    worst, mean = features(reading)
    return Sample(worst, mean, grade.error, grade.kind, made, derailed)


def corrupted(step: Step, rng: random.Random) -> Step | None:
    """The step with one number or one name exchanged for another; None when it has neither."""
    ids, known = list(step.ids), language.vocabulary()
    tokens = {index: token.strip() for token, index in known.items()}
    places = [at for at, one in enumerate(ids) if tokens[one].isdigit() or tokens[one] in story.NAMES]
    if not places:
        return None
    at = rng.choice(places)
    word = tokens[ids[at]]
    if word.isdigit():
        near = rng.random() < 0.5
        other = (int(word) + rng.choice([-10, -2, -1, 1, 2, 10])) % 100 if near else rng.randrange(100)
    new = f" {other}" if word.isdigit() else f" {rng.choice(story.NAMES)}"
    if new.strip() == word:
        return None
    ids[at] = known[new]
    back = {index: token for token, index in known.items()}
    return Step("".join(back[one] for one in ids if back[one] != language.END), tuple(ids))


_FREELY: dict[str, Any] = {"temperature": 0.6, "top_p": 1.0, "beta": 8.0}
"""A wordy solver drawn from its whole distribution, so that a judge sees what goes wrong."""
METHODS: dict[str, tuple[dict[str, Any], ...]] = {
    "lab": (
        {"method": "kv-rescue", "n": 3, "temperature": 0.8, "budget": 64},
        {"method": "kv-rescue", "n": 2, "temperature": 1.0, "budget": 48, "policy": "snapkv"},
        {"method": "evicted-stepwise", "n": 4, "temperature": 0.8, "budget": 64},
        {"method": "evicted", "temperature": 0.8, "budget": 96},
        {"method": "helper", "temperature": 0.8},
    ),
    "lab-wordy": (
        {**_FREELY, "method": "full", "greedy_first": False},
        {**_FREELY, "method": "reco", "greedy_first": False, "temperature": 0.8},
        {**_FREELY, "method": "reco+rescue", "n": 2, "temperature": 0.8},
        {**_FREELY, "method": "kv-rescue", "n": 3, "temperature": 0.8, "budget": 128},
        {**_FREELY, "method": "evicted", "temperature": 0.8, "budget": 160},
    ),
}


def collect(pair: Pair, task: tuple[str, int]) -> list[Sample]:
    """Samples of one problem of a split (``"train"`` or ``"test"``): ``task`` is (split, index)."""
    split, index = task
    rng = random.Random(f"judge {split} {index}")
    level = rng.choice(story.DIFFICULTIES)
    told = story.make_story(random.Random(f"judge {split} {index} story"), story.DIALS[level])
    methods = METHODS[pair.name]
    chosen = methods[index % len(methods)]
    values = {**presets.default_settings(pair.name, chosen["method"]), **chosen, "seed": index}
    recorder = _Recorder(pair, told, rng)
    for _event in run(told.text, make_config(**values), pair, scorer=recorder):
        pass
    return recorder.samples


def fit(samples: Sequence[Sample]) -> Calibration:
    """Logistic regression with equal weight for right and wrong steps (L-BFGS), on what the checker can follow."""
    samples = [one for one in samples if not one.derailed]
    x = torch.tensor([[1.0, one.worst, one.mean] for one in samples], dtype=torch.float64)
    y = torch.tensor([one.error is None for one in samples], dtype=torch.float64)
    weight = torch.where(y > 0, 0.5 / y.mean(), 0.5 / (1 - y).mean())
    w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([w], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = torch.nn.functional.binary_cross_entropy_with_logits(x @ w, y, weight) + 1e-4 * w.square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    return Calibration(*(round(value, 5) for value in w.tolist()))


def measured(samples: Sequence[Sample], calibration: Calibration) -> dict[str, Any]:
    """AUC and accuracy on graded steps that the checker can follow: real ones all together and by what is wrong with them, and corrupted
    ones apart; then the real steps after a derailment, and everything real together."""
    everything = [(calibration.of(one.worst, one.mean), one) for one in samples]
    scored = [(score, one) for score, one in everything if not one.derailed]
    right = [score for score, one in scored if one.error is None]
    real = [(score, one) for score, one in scored if not one.corrupted]
    found: dict[str, Any] = _auc_of(real)
    good = [score for score, one in real if one.error is None]
    found["accuracy"] = sum((score >= 0.5) == (one.error is None) for score, one in real) / max(1, len(real))
    for error in ("recall", "arithmetic", "form"):
        wrong = [score for score, one in real if one.error == error]
        found[error] = {"steps": len(wrong), "auc": auc(good, wrong)}
    made = [score for score, one in scored if one.corrupted and one.error]
    found["corrupted"] = {"steps": len(made), "auc": auc(right, made)}
    found["derailed"] = _auc_of([(score, one) for score, one in everything if one.derailed and not one.corrupted])
    found["all"] = _auc_of([(score, one) for score, one in everything if not one.corrupted])
    return found


def _auc_of(real: Sequence[tuple[float, Sample]]) -> dict[str, Any]:
    good = [score for score, one in real if one.error is None]
    return {"steps": len(real), "right": len(good), "auc": auc(good, [score for score, one in real if one.error])}
