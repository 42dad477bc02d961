"""What a language model makes of a step, and how that becomes a reward (no torch)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

CALIBRATION_FILE = "calibration.json"
FLOOR = -12.0
"""Surprise beyond this tells nothing more."""


@dataclass
class Reading:
    """What a language model thinks of one step, token by token."""

    tokens: int = 0
    log_prob: float = 0.0
    """Sum over the tokens, natural logarithm."""
    worst: float = 0.0
    """Least log p(token) - max log p: how far the most surprising token is from what the model would have said; 0 at best."""
    second: float = 0.0
    """The same for the second most surprising token."""

    def add(self, log_probs: Sequence[float], gaps: Sequence[float]) -> None:
        self.tokens += len(log_probs)
        self.log_prob += sum(log_probs)
        self.worst, self.second = sorted([self.worst, self.second, *gaps])[:2]

    @property
    def mean(self) -> float:
        return self.log_prob / self.tokens if self.tokens else math.nan


@dataclass(frozen=True)
class Calibration:
    """reward = sigmoid(bias + worst * w + mean * m), features floored at -12 nats."""

    bias: float
    worst: float
    mean: float

    def __call__(self, reading: Reading) -> float:
        return self.of(*features(reading))

    def of(self, worst: float, mean: float) -> float:
        return 1 / (1 + math.exp(-(self.bias + self.worst * worst + self.mean * mean)))

    @classmethod
    def read(cls, folder: Path) -> Calibration:
        values = json.loads((folder / CALIBRATION_FILE).read_text(encoding="utf-8"))
        return cls(**{name: float(values[name]) for name in ("bias", "worst", "mean")})

    def write(self, folder: Path) -> None:
        (folder / CALIBRATION_FILE).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def features(reading: Reading) -> tuple[float, float]:
    return max(FLOOR, reading.worst), max(FLOOR, reading.mean)
