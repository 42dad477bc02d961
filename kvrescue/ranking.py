"""Statistics of ranks, ties sharing their mean rank."""

from __future__ import annotations

import math
from collections.abc import Sequence


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Correlation of ranks, ties sharing their mean rank; None when one side is constant."""
    middle = (len(a) - 1) / 2
    x, y = ([rank - middle for rank in ranks(values)] for values in (a, b))
    norm = math.hypot(*x) * math.hypot(*y)
    return sum(one * other for one, other in zip(x, y, strict=True)) / norm if norm else None


def ranks(values: Sequence[float]) -> list[float]:
    """From 0."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, at = [0.0] * len(values), 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for index in order[at:end]:
            ranks[index] = (at + end - 1) / 2
        at = end
    return ranks


def auc(right: Sequence[float], wrong: Sequence[float]) -> float | None:
    """Chance that a right one scores above a wrong one (ties count half); None without either."""
    if not right or not wrong:
        return None
    n, m = len(right), len(wrong)
    above = sum(ranks([*right, *wrong])[:n]) - n * (n - 1) / 2
    return above / (n * m)
