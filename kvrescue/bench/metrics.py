"""Figures of a results table (algorithms.md 7). All take records grouped by problem; a problem may have been run with several seeds.

Intervals are bootstrapped over problems, so that runs of one problem are not counted as independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvrescue.bench.cells import ORACLE, PICKS
from kvrescue.bench.record import Record

Groups = Sequence[Sequence[Record]]
"""Per problem, in one order for all rows of a table: its runs."""
_RESAMPLES = 2_000


def shares(groups: Groups, of: Callable[[Record], bool]) -> np.ndarray:
    """Per problem: the share of its runs that ``of`` holds for."""
    return np.array([sum(map(of, runs)) / len(runs) for runs in groups])


def bootstrap(per_problem: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """95 % percentile interval of the mean over problems."""
    drawn = _drawn(len(per_problem), seed)
    low, high = np.percentile(per_problem[drawn].mean(1), [2.5, 97.5])
    return float(low), float(high)


def _drawn(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, count, (_RESAMPLES, count))


def recovery(accuracy: float, evicted: float, full: float, problems: int) -> float | None:
    """(accuracy - evicted) / (full - evicted); None when eviction lost less than half a problem. May exceed 1 or be negative."""
    lost = full - evicted
    return None if lost < 0.5 / problems - 1e-12 else (accuracy - evicted) / lost


def recovery_interval(mine: np.ndarray, evicted: np.ndarray, full: np.ndarray, seed: int = 0) -> tuple[float, float] | None:
    """95 % interval of recovery, resampling problems for all three at once; None when it is undefined in one resample of twenty or more."""
    drawn = _drawn(len(mine), seed)
    ours, low, high = (values[drawn].mean(1) for values in (mine, evicted, full))
    lost = high - low
    defined = lost >= 0.5 / len(mine) - 1e-12
    if defined.mean() <= 0.95:
        return None
    ends = np.percentile((ours[defined] - low[defined]) / lost[defined], [2.5, 97.5])
    return float(ends[0]), float(ends[1])


def pass_at(k: int, right: Sequence[int], runs: int) -> float | None:
    """Unbiased pass@k: the mean over problems of 1 - C(runs - right, k) / C(runs, k); None with fewer than ``k`` runs."""
    if runs < k or not right:
        return None
    return sum(1 - math.comb(runs - good, k) / math.comb(runs, k) for good in right) / len(right)


@dataclass(frozen=True)
class Table:
    """Rows of a finished or unfinished grid."""

    rows: list[dict[str, Any]]

    def row(self, **wanted: Any) -> dict[str, Any] | None:
        return next((row for row in self.rows if all(row[name] == value for name, value in wanted.items())), None)


Key = tuple[str, str | None, int | None, int]
"""Method, policy, budget, N."""


def tabulate(cells: dict[Key, dict[str, list[Record]]], oracle: bool = False) -> Table:
    """Rows from records: per cell, per problem id, one record for each seed. Problems that a row lacks are left out of that row only."""
    rows: list[dict[str, Any]] = []
    for key, found in cells.items():
        rows.append(_row(key, found, cells))
        rows += _picked(key, found, cells)
    if oracle:
        for key in [key for key in cells if key[0] == "evicted"]:
            choice = _oracle(cells[key], next((found for other, found in cells.items() if other[0] == "helper"), {}))
            if choice:
                rows.append(_row((ORACLE, *key[1:]), choice, cells))
    return Table(rows)


def _oracle(evicted: dict[str, list[Record]], helper: dict[str, list[Record]]) -> dict[str, list[Record]]:
    return {
        problem: [one if one.right or not other.right else other for one, other in zip(runs, helper[problem], strict=False)]
        for problem, runs in evicted.items()
        if problem in helper
    }


def _picked(key: Key, found: dict[str, list[Record]], cells: dict[Key, dict[str, list[Record]]]) -> list[dict[str, Any]]:
    """Rows of the other rules that choose one of several trajectories."""
    if not all(one.picks for runs in found.values() for one in runs):
        return []
    made = []
    for rule in PICKS[1:]:
        chosen = {problem: [replace(one, right=one.picks[rule], picks={}) for one in runs] for problem, runs in found.items()}
        made.append(_row((f"{key[0]}/{rule}", *key[1:]), chosen, cells))
    return made


def _row(key: Key, found: dict[str, list[Record]], cells: dict[Key, dict[str, list[Record]]]) -> dict[str, Any]:
    method, policy, budget, n = key
    groups = list(found.values())
    flat = [one for runs in groups for one in runs]
    right = shares(groups, lambda one: one.right)
    low, high = bootstrap(right)
    steps = sum(one.base_steps + one.helper_steps for one in flat)
    committed = sum(one.committed_tokens for one in flat)
    candidates = sum(one.candidates for one in flat)
    helped = any(one.helper_steps for one in flat) and method != "helper"
    least = min(len(runs) for runs in groups)
    row: dict[str, Any] = {
        "method": method,
        "policy": policy,
        "budget": budget,
        "n": n,
        "problems": len(groups),
        "runs": len(flat),
        "accuracy": float(right.mean()),
        "ci_low": low,
        "ci_high": high,
        "pass_at_all": pass_at(least, [sum(one.right for one in runs) for runs in groups], least) if least > 1 else None,
        "unfinished": _share(flat, lambda one: not one.answered),
        "unparsed": _share(flat, lambda one: not one.parsed),
        "degenerate": _share(flat, lambda one: one.degenerate),
        "aborted": sum(one.aborted for one in flat) / candidates if candidates else 0.0,
        "tokens": _mean(flat, lambda one: one.committed_tokens),
        "base_tokens": _mean(flat, lambda one: one.base_tokens),
        "helper_tokens": _mean(flat, lambda one: one.helper_tokens),
        "helper_share": sum(one.helper_steps for one in flat) / steps if helped and steps else None,
        "helper_share_tokens": sum(one.committed_by.get("helper", 0) for one in flat) / committed if helped and committed else None,
        "retention": _mean(flat, lambda one: one.retention),
        "mean_kv": _mean(flat, lambda one: one.mean_resident),
        "peak_kv": max(one.peak_resident for one in flat),
        "peak_kv_bytes": max(one.peak_bytes for one in flat),
        "evictions": _mean(flat, lambda one: one.evictions),
        "probes": _mean(flat, lambda one: one.probes),
        "suppressed": _mean(flat, lambda one: one.suppressed),
        "seconds": _mean(flat, lambda one: one.seconds),
    }
    return {**row, **_against_others(key, found, cells, row)}


def _against_others(key: Key, found: dict[str, list[Record]], cells: dict[Key, dict[str, list[Record]]], row: dict[str, Any]) -> dict[str, Any]:
    """Recovery against the full and the evicted base, saving against the evicted base with as many samples, on the problems all have."""
    method, policy, budget, n = key
    answer: dict[str, Any] = {
        "recovery": None,
        "recovery_low": None,
        "recovery_high": None,
        "evicted_accuracy": None,
        "full_accuracy": None,
        "saving": None,
    }
    full, evicted = cells.get(("full", None, None, 1)), cells.get(("evicted", policy, budget, 1))
    if method not in ("full", "helper", "evicted") and full and evicted:
        common = [problem for problem in found if problem in full and problem in evicted]
        if common:
            mine, low, high = (shares([of[problem] for problem in common], lambda one: one.right) for of in (found, evicted, full))
            answer["evicted_accuracy"], answer["full_accuracy"] = float(low.mean()), float(high.mean())
            answer["recovery"] = recovery(float(mine.mean()), answer["evicted_accuracy"], answer["full_accuracy"], len(common))
            ends = recovery_interval(mine, low, high)
            if ends and answer["recovery"] is not None:
                answer["recovery_low"], answer["recovery_high"] = ends
    twin = cells.get(("evicted-stepwise", policy, budget, 2 * n))
    if method.startswith("kv-rescue") and twin:
        spent = _mean([one for runs in twin.values() for one in runs], lambda one: one.base_tokens)
        answer["saving"] = 1 - row["base_tokens"] / spent if spent else None
    return answer


def _mean(records: Sequence[Record], of: Callable[[Record], float]) -> float:
    return sum(map(of, records)) / len(records)


def _share(records: Sequence[Record], of: Callable[[Record], bool]) -> float:
    return sum(map(of, records)) / len(records)


AVERAGE = "all, averaged"
KEY = ("method", "policy", "budget", "n")
COUNTED = ("problems", "runs", "peak_kv", "peak_kv_bytes")


def averages(sets: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Rows over several data sets, each set counting the same, for the cells that all sets have: plain means, without intervals.

    ``recovery`` is the mean of the sets' recoveries, over those that have one; ``recovery_of_means`` is the recovery of their mean accuracies.
    The two differ, and papers rarely say which one they tell. Problems and runs are summed; of peaks the largest is kept.
    """
    made = []
    for row in sets[0]:
        twins = [next((other for other in rows if all(other[name] == row[name] for name in KEY)), None) for rows in sets]
        found = [twin for twin in twins if twin is not None]
        if len(found) == len(sets):
            made.append({**{name: row[name] for name in KEY}, **_averaged(found)})
    return made


def _averaged(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    means: dict[str, Any] = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name in KEY or name.endswith(("_low", "_high")):
            continue
        whole = None not in values
        means[name] = (sum(values) / len(values)) if whole else None
    means.update({name: (sum if name in ("problems", "runs") else max)(row[name] for row in rows) for name in COUNTED})
    recoveries = [row["recovery"] for row in rows if row["recovery"] is not None]
    means["recovery"] = sum(recoveries) / len(recoveries) if recoveries else None
    low, high = means["evicted_accuracy"], means["full_accuracy"]
    means["recovery_of_means"] = None if low is None or high is None else recovery(means["accuracy"], low, high, means["problems"])
    return {**means, "ci_low": None, "ci_high": None, "recovery_low": None, "recovery_high": None}
