"""The rows of a results table before they are measured: methods by the names that tables use, and the grid of their settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kvrescue.presets import default_settings

ANSWER_LEVEL = "evicted-best-of-n"
"""Whole trajectories of the evicted base; one of them is chosen at the end."""
ORACLE = "oracle-choice"
"""Per problem the better of the evicted base and the helper, as if somebody knew. It is read off their rows and costs nothing."""


@dataclass(frozen=True)
class Cell:
    """One row: ``method`` as the table names it, and the settings that differ from the model set's."""

    method: str
    policy: str | None = None
    budget: int | None = None
    n: int = 1
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    """Which of the grid's seeds its samples are drawn by."""

    def config_values(self, model_set: str | None) -> dict[str, Any]:
        """RunConfig fields for a model set, or for other models."""
        defaults = default_settings(model_set, self.settings["method"])
        given: dict[str, Any] = {"policy": self.policy, "budget": self.budget, "n": self.n, **self.settings}
        return {**defaults, **{name: value for name, value in given.items() if value is not None}}

    @property
    def name(self) -> str:
        parts = (self.method, self.policy, self.budget, f"N={self.n}", f"seed {self.seed}" if self.seed else None)
        return " ".join(str(part) for part in parts if part is not None)


@dataclass(frozen=True)
class _Kind:
    """How a named method becomes cells: what of the grid it varies with, and its settings."""

    settings: dict[str, Any]
    evicts: bool = True
    n: bool = False
    samples: bool = False
    """Its N is twice the grid's: as many samples as KV-Rescue's two sources write."""


_PLAIN = {"scorer": "none", "early_exit": False}
_RECO = {"method": "reco"}
_KEEP_ALL = {**_RECO, "retention_ratio": 1.0, "delta": 0.0}
KINDS: dict[str, _Kind] = {
    "full": _Kind({"method": "full", **_PLAIN}, evicts=False),
    "helper": _Kind({"method": "helper", **_PLAIN}, evicts=False),
    "evicted": _Kind({"method": "evicted", **_PLAIN}),
    ANSWER_LEVEL: _Kind({"method": "evicted", "early_exit": False, "greedy_first": False}, samples=True),
    "evicted-stepwise": _Kind({"method": "evicted-stepwise", "early_exit": False}, samples=True),
    "kv-rescue": _Kind({"method": "kv-rescue"}, n=True),
    "kv-rescue-no-exit": _Kind({"method": "kv-rescue", "early_exit": False}, n=True),
    "kv-rescue-checker": _Kind({"method": "kv-rescue", "scorer": "checker"}, n=True),
    "reco-uniform": _Kind({"method": "reco-uniform", "scorer": "none"}, evicts=False),
    "reco": _Kind(_RECO, evicts=False),
    "reco-no-adaptation": _Kind({**_RECO, "delta": 0.0}, evicts=False),
    "reco-no-reflection": _Kind({**_RECO, "beta": 0.0}, evicts=False),
    "reco-no-exit": _Kind({**_RECO, "tau_p": 0.0}, evicts=False),
    "retention-only": _Kind({**_RECO, "beta": 0.0, "tau_p": 0.0}, evicts=False),
    "reflection-only": _Kind({**_KEEP_ALL, "tau_p": 0.0}, evicts=False),
    "exit-only": _Kind({**_KEEP_ALL, "beta": 0.0}, evicts=False),
    "reco+rescue": _Kind({"method": "reco+rescue"}, evicts=False, n=True),
}
METHODS = (*KINDS, ORACLE)
PICKS = ("min", "last", "prod", "mean", "majority")
"""How one of several whole trajectories is chosen: by its weakest, last or average step, by the product, or by the commonest answer."""


def grid(methods: Sequence[str], policies: Sequence[str], budgets: Sequence[int], ns: Sequence[int], seeds: Sequence[int]) -> list[Cell]:
    """Cells of every combination that has a meaning, baselines first. The oracle brings the two rows that it is read off."""
    wanted = set(methods) | ({"evicted", "helper"} if ORACLE in methods else set())
    cells: list[Cell] = []
    for seed in seeds:
        for name, kind in KINDS.items():
            if name in wanted:
                cells += _cells(name, kind, policies, budgets, ns, seed)
    return cells


def _cells(name: str, kind: _Kind, policies: Sequence[str], budgets: Sequence[int], ns: Sequence[int], seed: int) -> list[Cell]:
    counts = [2 * n for n in ns] if kind.samples else list(ns) if kind.n else [1]
    if not kind.evicts:
        return [Cell(name, None, None, n, kind.settings, seed) for n in counts]
    return [Cell(name, policy, budget, n, kind.settings, seed) for policy in policies for budget in budgets for n in counts]
