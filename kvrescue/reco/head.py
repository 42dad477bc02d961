"""The estimator's network: what it sees, how it is trained, and how good it is. It needs no language model at hand."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from kvrescue.ranking import spearman
from kvrescue.rewards.reading import FLOOR, Reading

WEIGHTS, NOTES = "estimator.safetensors", "estimator.json"
_UNITS = 16


def inputs(reading: Reading) -> list[float]:
    """What the network sees, each about in [-1, 1]."""
    floored = (max(FLOOR, value) / -FLOOR for value in (reading.worst, reading.second, reading.mean))
    return [*floored, math.log1p(reading.tokens) / 5 - 0.5]


@dataclass(frozen=True)
class Head:
    """The trained network: w1 (4, 16), b1 (16,), w2 (16, 1), b2 (1,)."""

    weights: dict[str, Tensor]
    teacher: str

    def __call__(self, x: Tensor) -> Tensor:
        """(n, 4) -> logits (n,)"""
        w = self.weights
        return ((x @ w["w1"] + w["b1"]).tanh() @ w["w2"] + w["b2"]).squeeze(-1)

    def write(self, folder: Path, measured: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: value.detach().contiguous() for name, value in self.weights.items()}, folder / WEIGHTS)
        (folder / NOTES).write_text(json.dumps({"teacher": self.teacher, **measured}, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Head:
        notes = json.loads((folder / NOTES).read_text(encoding="utf-8"))
        return cls(load_file(folder / WEIGHTS), str(notes["teacher"]))


def fit(pairs: Sequence[tuple[list[float], float]], teacher: str, seed: int = 0) -> Head:
    """Binary cross entropy against the teacher's scores, by L-BFGS; ``pairs`` are (inputs, score)."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.tensor([one for one, _ in pairs]), torch.tensor([score for _, score in pairs])
    shapes = {"w1": (4, _UNITS), "b1": (_UNITS,), "w2": (_UNITS, 1), "b2": (1,)}
    weights = {name: (0.5 * torch.randn(shape, generator=generator)).requires_grad_() for name, shape in shapes.items()}
    head = Head(weights, teacher)
    optimiser = torch.optim.LBFGS(list(weights.values()), max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        decay = sum((value.square().sum() for value in weights.values()), torch.zeros(()))
        value = torch.nn.functional.binary_cross_entropy_with_logits(head(x), y) + 1e-5 * decay
        value.backward()
        return value

    optimiser.step(loss)
    return Head({name: value.detach() for name, value in weights.items()}, teacher)


def measured(head: Head, pairs: Sequence[tuple[list[float], float]]) -> dict[str, Any]:
    """Rank correlation (Spearman) with the teacher and mean absolute error, on other problems than the fit's."""
    guesses = head(torch.tensor([one for one, _ in pairs])).sigmoid().tolist()
    scores = [score for _, score in pairs]
    error = sum(abs(a - b) for a, b in zip(guesses, scores, strict=True)) / max(1, len(scores))
    return {"steps": len(scores), "rank_correlation": spearman(guesses, scores), "mean_absolute_error": error}
