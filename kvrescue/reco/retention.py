"""How much of the cache is kept, from the rewards so far (algorithms.md 6.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence

FLAT = 1e-6
"""Rewards closer together than this say nothing: the ratio stays at lambda."""


def asked_ratio(rewards: Sequence[float], ratio: float, delta: float) -> float:
    """lambda_i = lambda - delta * (v_i - mean) / (max - min) over all rewards, the newest included; within lambda +- delta and at most 1.

    A good step lets more be forgotten, a bad one keeps more. ``rewards`` .3, .5, .9 with .25 and .1 give .25, .20, .194444.
    """
    if not rewards:
        return ratio
    low, high = min(rewards), max(rewards)
    if high - low < FLAT:
        return ratio
    asked = ratio - delta * (rewards[-1] - sum(rewards) / len(rewards)) / (high - low)
    return min(max(asked, ratio - delta), min(1.0, ratio + delta))


def tokens_to_keep(asked: float, length: int, least: int) -> int:
    """m_i = ceil(lambda_i * L), at least ``least`` (the window and one more), never more than L tokens."""
    return min(length, max(least, math.ceil(asked * length - 1e-9)))
