"""Codec of the memory map: levels 0..15 over positions as a run-length string.

A run is one hex digit (the level) and, when longer than one, its length in base 36, runs joined by spaces:
``[15]*96 + [0, 0, 0] + [10]`` is ``"f2o 03 a"``. Level 0 means no (layer, head) slot holds the token, 15 all of them.
The viewer has the same codec in assets/js/rle.mjs; both are tested against one table.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

LEVELS = 15
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_MAX_POSITIONS = 1 << 20


def level(held: int, slots: int) -> int:
    """Quantise ``held`` of ``slots`` so that only an empty token is 0 and only a full one is 15."""
    if held <= 0:
        return 0
    if held >= slots:
        return LEVELS
    return min(LEVELS - 1, max(1, round(held / slots * LEVELS)))


def encode(levels: Iterable[int]) -> str:
    runs = []
    for value, group in groupby(levels):
        if not 0 <= value <= LEVELS:
            raise ValueError(f"level {value} is outside 0..{LEVELS}")
        length = sum(1 for _ in group)
        runs.append(_DIGITS[value] + (_base36(length) if length > 1 else ""))
    return " ".join(runs)


def decode(text: str) -> list[int]:
    """Inverse of :func:`encode`; ValueError on anything else."""
    levels: list[int] = []
    for run in text.split(" ") if text else []:
        value = int(run[:1] or "?", 16)
        length = int(run[1:], 36) if run[1:] else 1
        if length < 1 or len(levels) + length > _MAX_POSITIONS:
            raise ValueError("a run of the memory map has an impossible length")
        levels.extend([value] * length)
    return levels


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits
