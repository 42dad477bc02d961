"""Incoherence: the moving average of token entropy rises above tau_ent (algorithms.md 5.1)."""

from __future__ import annotations

import math
from collections import deque

from kvrescue.guards.verdict import Verdict


class EntropyGuard:
    """Entropies in nats, at temperature 1, from the raw logits. No verdict before the window is full."""

    def __init__(self, window: int, tau: float) -> None:
        self._recent: deque[float] = deque(maxlen=window)
        self._tau = tau
        self._tokens = 0

    def update(self, entropy: float) -> Verdict | None:
        self._recent.append(entropy)
        self._tokens += 1
        if self._tokens < (self._recent.maxlen or 0):
            return None
        # fsum over the window instead of a running sum: no drift, so recorded signals give the same verdict.
        average = math.fsum(self._recent) / len(self._recent)
        return Verdict("entropy", self._tokens, average, self._tau) if average > self._tau else None
