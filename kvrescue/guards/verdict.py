"""What a guard says when it trips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Verdict:
    guard: Literal["entropy", "gzip"]
    position: int
    """Tokens of the candidate when it tripped: the tripping token, counted from 1."""
    value: float
    threshold: float
