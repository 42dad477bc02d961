"""``python -m kvrescue lab report``: the effect, measured on fresh problems, as a table, JSON lines and a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kvrescue.bench.cells import ANSWER_LEVEL, KINDS, ORACLE, Cell
from kvrescue.bench.record import Record, as_value, from_value
from kvrescue.bench.runner import choose
from kvrescue.bench.spread import completed, lab_loader
from kvrescue.bench.store import Store, digest
from kvrescue.config import POLICIES, make_config
from kvrescue.lab.evaluate import solve
from kvrescue.lab.story import Difficulty
from kvrescue.models.load import Pair

EVALUATED_POLICY = "rkv"
"""The policy of the rows other than ``evicted`` when none is asked for."""


@dataclass(frozen=True)
class Row:
    """One measured row; what the columns mean is told in report_output.COLUMNS."""

    method: str
    policy: str | None
    budget: int | None
    n: int
    problems: int
    accuracy: float
    ci_low: float
    ci_high: float
    unfinished: float
    degenerate: float
    base_tokens: float
    helper_tokens: float
    helper_share: float | None
    recovery: float | None
    seconds: float
    saving: float | None
    recall_errors: float
    arithmetic_errors: float
    form_errors: float
    peak_resident: int


def _cell(method: str, policy: str | None = None, budget: int | None = None, n: int = 1, more: dict[str, Any] | None = None) -> Cell:
    return Cell(method, policy, budget, n, {**KINDS[method].settings, **(more or {})})


def rescue_cells(policies: Sequence[str] | None, budgets: Sequence[int], ns: Sequence[int]) -> list[Cell]:
    """The rescue suite. Without ``policies``: every policy for ``evicted``, R-KV for the rest."""
    cells = [_cell("full"), _cell("helper")]
    for policy in policies or POLICIES:
        cells += [_cell("evicted", policy, budget) for budget in budgets]
    most = max(ns)
    for policy in policies or [EVALUATED_POLICY]:
        for budget in budgets:
            cells += [_cell(method, policy, budget, 2 * most) for method in (ANSWER_LEVEL, "evicted-stepwise")]
            cells += [_cell("kv-rescue", policy, budget, n) for n in ns]
            cells += [_cell(method, policy, budget, most) for method in ("kv-rescue-no-exit", "kv-rescue-checker")]
    return cells


@dataclass(frozen=True)
class _Task:
    cell: Cell
    index: int
    seed: int
    difficulty: Difficulty
    models: str

    @property
    def values(self) -> dict[str, Any]:
        return self.cell.config_values(self.models)

    @property
    def key(self) -> str:
        """Tells this run from every other one with the same models."""
        return f"{self.cell.name} {self.index} {digest(self.values)}"


def _work(pair: Pair, task: _Task) -> Record:
    values = {**task.values, "seed": task.index}
    if task.cell.method != ANSWER_LEVEL:
        return solve(pair, task.index, task.seed, task.difficulty, make_config(**values))
    configs = [make_config(**{**values, "seed": task.index + 100_003 * k}) for k in range(task.cell.n)]
    return choose([solve(pair, task.index, task.seed, task.difficulty, config) for config in configs])


def measure(
    cells: Sequence[Cell],
    problems: int,
    seed: int,
    difficulty: Difficulty = "medium",
    workers: int | None = None,
    tick: Callable[[str, int], None] = lambda _row, _done: None,
    build: Callable[[Cell, Sequence[Record], Sequence[Any]], Any] | None = None,
    store: Store | None = None,
    models: str = "lab",
) -> Iterator[Any]:
    """Rows in the order of ``cells``, each as soon as it is measured; ``build`` makes one of its cell, its records and the rows before.

    After ``evicted-stepwise`` the row of oracle choice follows, which costs nothing. With a ``store``, what it holds is not run
    again, and what is run goes into it.
    """
    for cell in cells:
        make_config(**cell.config_values(models))  # what can be refused is refused before any compute
    tasks = [_Task(cell, index, seed, difficulty, models) for cell in cells for index in range(problems)]
    kept = store.done if store else {}
    known = {at: from_value(kept[task.key]) for at, task in enumerate(tasks) if task.key in kept}
    missing = [at for at in range(len(tasks)) if at not in known]
    if known:
        tick("kept from before", len(known))
    results = completed(_work, [tasks[at] for at in missing], lab_loader(model_set=models), workers)
    found: dict[tuple[str, str | None, int | None], list[Record]] = {}
    done: list[Any] = []
    for number, cell in enumerate(cells):
        mine = range(number * problems, (number + 1) * problems)
        while not all(at in known for at in mine):
            index, record = next(results)
            known[missing[index]] = record
            task = tasks[missing[index]]
            if store:
                store.add(task.key, as_value(record))
            tick(task.cell.name, 1)
        records = [known.pop(at) for at in mine]
        found.setdefault((cell.method, cell.policy, cell.budget), records)
        done.append((build or _row)(cell, records, done))
        yield done[-1]
        if cell.method == "evicted-stepwise":
            choice = _oracle(found["evicted", cell.policy, cell.budget], found["helper", None, None])
            yield _row(Cell(ORACLE, cell.policy, cell.budget), choice, done)


def _oracle(evicted: Sequence[Record], helper: Sequence[Record]) -> list[Record]:
    """Per problem the better of two whole runs, as if somebody knew."""
    return [one if one.right or not other.right else other for one, other in zip(evicted, helper, strict=True)]


def _row(cell: Cell, records: Sequence[Record], before: Sequence[Row]) -> Row:
    count = len(records)
    right = sum(one.right for one in records)
    low, high = wilson(right, count)
    steps = sum(one.base_steps + one.helper_steps for one in records)
    base_tokens = _mean(records, "base_tokens")
    rescue = cell.method.startswith("kv-rescue")
    twin = ("evicted-stepwise", cell.policy, cell.budget, 2 * cell.n)
    same = next((row for row in before if (row.method, row.policy, row.budget, row.n) == twin), None)
    return Row(
        method=cell.method,
        policy=cell.policy,
        budget=cell.budget,
        n=cell.n,
        problems=count,
        accuracy=right / count,
        ci_low=low,
        ci_high=high,
        unfinished=sum(not one.answered for one in records) / count,
        degenerate=sum(one.degenerate for one in records) / count,
        base_tokens=base_tokens,
        helper_tokens=_mean(records, "helper_tokens"),
        helper_share=sum(one.helper_steps for one in records) / max(1, steps) if rescue else None,
        recovery=_recovery(cell, right / count, count, before),
        seconds=_mean(records, "seconds"),
        saving=1 - base_tokens / same.base_tokens if rescue and same else None,
        recall_errors=_first(records, "recall"),
        arithmetic_errors=_first(records, "arithmetic"),
        form_errors=_first(records, "form"),
        peak_resident=max(one.peak_resident for one in records),
    )


def _mean(records: Sequence[Record], name: str) -> float:
    return sum(getattr(one, name) for one in records) / len(records)


def _first(records: Sequence[Record], error: str) -> float:
    return sum(one.first_error == error for one in records) / len(records)


def _recovery(cell: Cell, accuracy: float, problems: int, before: Sequence[Row]) -> float | None:
    full = next((row.accuracy for row in before if row.method == "full"), None)
    evicted = next((row.accuracy for row in before if (row.method, row.policy, row.budget) == ("evicted", cell.policy, cell.budget)), None)
    if cell.method in ("full", "helper", "evicted") or full is None or evicted is None or full - evicted < 0.5 / problems:
        return None
    return (accuracy - evicted) / (full - evicted)


def wilson(right: int, count: int, z: float = 1.96) -> tuple[float, float]:
    """95 % interval of a share."""
    share, square = right / count, z * z / count
    middle = (share + square / 2) / (1 + square)
    half = z * math.sqrt(share * (1 - share) / count + square / (4 * count)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


# --- the ReCo suite --------------------------------------------------------------------------------------------------------

# Sampled, because the most probable text has no looks back that could be spared.
_SAMPLED: dict[str, Any] = {"greedy_first": False}
RECO_MODELS = "lab-wordy"


def reco_cells(policies: Sequence[str] | None, budgets: Sequence[int], ns: Sequence[int]) -> list[Cell]:
    """The ReCo suite: the full chain, fixed shares, ReCo, ReCo without each of its parts, each part alone, and ReCo with KV-Rescue."""
    fixed = [_cell("reco-uniform", policy, more=_SAMPLED) for policy in policies or ("snapkv-decode", "rkv")]
    parts = ("reco", "reco-no-adaptation", "reco-no-reflection", "reco-no-exit", "retention-only", "reflection-only", "exit-only")
    return [
        replace(_cell("full", more=_SAMPLED), method="full-cot"),
        *fixed,
        *(_cell(part, more=_SAMPLED) for part in parts),
        *(_cell("reco+rescue", n=n, more=_SAMPLED) for n in ns),
    ]


@dataclass(frozen=True)
class RecoRow:
    """One measured row of the ReCo suite."""

    method: str
    policy: str | None
    n: int
    problems: int
    accuracy: float
    ci_low: float
    ci_high: float
    tokens: float
    """Committed per problem; those of probes are generated by the base and not among them unless accepted."""
    mean_kv: float
    peak_kv: float
    seconds: float
    retention_mean: float
    probes: float
    penalised: float
    helper_share: float | None


def _reco_row(cell: Cell, records: Sequence[Record], _before: Sequence[Any]) -> RecoRow:
    count, right = len(records), sum(one.right for one in records)
    low, high = wilson(right, count)
    helped = sum(one.helper_steps for one in records)
    return RecoRow(
        method=cell.method,
        policy=None if cell.method == "full-cot" else make_config(**cell.config_values(RECO_MODELS)).policy,
        n=cell.n,
        problems=count,
        accuracy=right / count,
        ci_low=low,
        ci_high=high,
        tokens=_mean(records, "committed_tokens"),
        mean_kv=_mean(records, "mean_resident"),
        peak_kv=_mean(records, "peak_resident"),
        seconds=_mean(records, "seconds"),
        retention_mean=_mean(records, "retention"),
        probes=_mean(records, "probes"),
        penalised=_mean(records, "suppressed"),
        helper_share=helped / max(1, helped + sum(one.base_steps for one in records)) if cell.method == "reco+rescue" else None,
    )


@dataclass(frozen=True)
class Suite:
    models: str
    """Which of the lab's model sets it runs."""
    cells: Callable[[Sequence[str] | None, Sequence[int], Sequence[int]], list[Cell]]
    row: Callable[[Cell, Sequence[Record], Sequence[Any]], Any]


SUITES = {"rescue": Suite("lab", rescue_cells, _row), "reco": Suite(RECO_MODELS, reco_cells, _reco_row)}


def as_json(row: Row | RecoRow) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(row).items()}
