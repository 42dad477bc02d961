"""``prm``: a process reward model that comes with a model set: a language model that verifies, and a calibration of what it reads.

The verifier reads the trajectory with full context and its own weights. A right step never surprises it; a wrong number does, at the
token that carries it. The step's score is a logistic function, fitted on graded steps, of two things only: the most surprising token
(log p minus the best token's, so that several good ways to go on cost nothing) and the mean log-probability.
"""

from __future__ import annotations

import math

from kvrescue.models.load import Prm
from kvrescue.rewards.base import Reward
from kvrescue.rewards.likelihood import ReadingScorer
from kvrescue.rewards.reading import Reading


class PrmScorer(ReadingScorer):
    name = "prm"

    def __init__(self, prm: Prm) -> None:
        super().__init__(prm.loaded)
        self.label = f"process reward model {prm.loaded.info.id} with full context"
        self._calibration = prm.calibration

    def rate(self, reading: Reading) -> Reward:
        if not math.isfinite(reading.mean):
            return Reward(None, {"tokens": reading.tokens})
        detail = {"worst_gap": round(reading.worst, 4), "mean_logprob": round(reading.mean, 4), "tokens": reading.tokens}
        return Reward(self._calibration(reading), detail)
