"""Every figure of a results table, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kvrescue.bench.cells import METHODS, grid
from kvrescue.bench.metrics import averages, bootstrap, pass_at, recovery, recovery_interval, tabulate
from kvrescue.bench.record import Record
from kvrescue.bench.runner import choose


def record(right: bool = True, **other) -> Record:
    values = {
        "right": right, "answered": True, "degenerate": False, "first_error": None, "errors": {}, "base_steps": 6, "helper_steps": 2,
        "base_tokens": 100, "helper_tokens": 50, "committed_tokens": 80, "peak_resident": 80, "aborted": 1, "mean_resident": 60.0,
        "retention": 0.4, "probes": 1, "suppressed": 2, "reward": 0.5, "seconds": 1.0, "candidates": 10, "answer": "1",
        "committed_by": {"base": 60, "helper": 20}, "peak_bytes": 4096, "evictions": 3,
    }  # fmt: skip
    return Record(**{**values, **other})


def many(*right: bool, **other) -> dict[str, list[Record]]:
    return {f"p{at}": [record(one, **other)] for at, one in enumerate(right)}


FULL, EVICTED = ("full", None, None, 1), ("evicted", "rkv", 64, 1)
RESCUE, TWIN = ("kv-rescue", "rkv", 64, 4), ("evicted-stepwise", "rkv", 64, 8)


@pytest.mark.parametrize(
    ("accuracy", "evicted", "full", "problems", "wanted"),
    [
        (0.7, 0.2, 0.9, 10, 5 / 7),
        (1.0, 0.2, 0.9, 10, 8 / 7),
        (0.1, 0.2, 0.9, 10, -1 / 7),
        (0.9, 0.9, 0.9, 10, None),
        (0.9, 0.95, 0.9, 10, None),
        (0.5, 0.4, 0.45, 10, 2.0),
        (0.5, 0.4, 0.449, 10, None),
    ],
)
def test_recovery(accuracy, evicted, full, problems, wanted):
    assert recovery(accuracy, evicted, full, problems) == (None if wanted is None else pytest.approx(wanted))


def test_recovery_over_data_sets_is_told_both_ways():
    """Three sets of ten: eviction takes 4, 4 and none; rescue wins back 4 and 1."""

    def table(full: int, evicted: int, mine: int) -> list[dict]:
        rights = {FULL: full, EVICTED: evicted, RESCUE: mine}
        return tabulate({key: many(*(at < right for at in range(10)), base_tokens=100 * right) for key, right in rights.items()}).rows

    sets = [table(8, 4, 8), table(6, 2, 3), table(5, 5, 5)]
    rows = {row["method"]: row for row in averages(sets)}
    row = rows["kv-rescue"]
    assert row["recovery"] == pytest.approx((1.0 + 0.25) / 2)
    assert row["recovery_of_means"] == pytest.approx((16 - 11) / (19 - 11))
    assert row["accuracy"] == pytest.approx(16 / 30) and row["base_tokens"] == pytest.approx(1600 / 3)
    assert (row["problems"], row["peak_kv"], row["ci_low"], rows["full"]["recovery"]) == (30, 80, None, None)
    assert {row["recovery"] for row in averages(sets[2:]) if row["method"] == "kv-rescue"} == {None}
    assert [row["method"] for row in averages([sets[0], sets[1][:1]])] == ["full"]


def test_pass_at_k():
    assert pass_at(1, [1, 3], 4) == pytest.approx((0.25 + 0.75) / 2)
    assert pass_at(2, [1], 4) == pytest.approx(1 - 3 / 6)
    assert pass_at(4, [0, 1], 4) == 0.5
    assert pass_at(5, [1], 4) is None and pass_at(1, [], 4) is None


def test_bootstrap_covers_and_does_not_move():
    values = np.array([1.0] * 30 + [0.0] * 10)
    low, high = bootstrap(values)
    assert low < 0.75 < high and bootstrap(values) == (low, high)
    assert high - low == pytest.approx(2 * 1.96 * (0.75 * 0.25 / 40) ** 0.5, rel=0.15), "as wide as the normal approximation"
    assert bootstrap(np.ones(5)) == (1.0, 1.0)


def test_recovery_interval():
    full, evicted = np.ones(40), np.zeros(40)
    assert recovery_interval(full, evicted, full) == (1.0, 1.0)
    assert recovery_interval(full, full, full) is None
    low, high = recovery_interval(np.array([1.0] * 30 + [0.0] * 10), evicted, full)
    assert low < 0.75 < high


def test_a_row_by_hand():
    cells = {
        FULL: many(True, True, True, True),
        EVICTED: many(False, False, False, True),
        TWIN: many(False, False, False, True, base_tokens=400),
        RESCUE: many(True, True, False, True),
    }
    table = tabulate(cells)
    row = table.row(method="kv-rescue")
    assert (row["accuracy"], row["recovery"], row["saving"], row["helper_share"]) == (0.75, pytest.approx(2 / 3), 0.75, 0.25)
    assert (row["helper_share_tokens"], row["aborted"], row["tokens"], row["peak_kv"], row["peak_kv_bytes"]) == (0.25, 0.1, 80, 80, 4096)
    assert (row["retention"], row["mean_kv"], row["evictions"], row["problems"], row["runs"]) == (pytest.approx(0.4), 60, 3, 4, 4)
    assert table.row(method="full")["recovery"] is None and table.row(method="evicted")["saving"] is None
    assert row["ci_low"] <= 0.75 <= row["ci_high"]


def test_a_row_with_several_seeds_counts_problems_once():
    found = {"a": [record(True), record(False)], "b": [record(True), record(True)]}
    row = tabulate({FULL: found}).row(method="full")
    assert (row["accuracy"], row["problems"], row["runs"], row["pass_at_all"]) == (0.75, 2, 4, 1.0)


def test_recovery_uses_the_problems_that_all_three_have():
    cells = {FULL: many(True, True), EVICTED: many(False, False), RESCUE: many(True, True, False)}
    assert tabulate(cells).row(method="kv-rescue")["recovery"] == 1.0


def test_oracle_choice_is_read_off_two_rows():
    cells = {FULL: many(True, True, True), EVICTED: many(True, False, False), ("helper", None, None, 1): many(False, True, False)}
    row = tabulate(cells, oracle=True).row(method="oracle-choice")
    assert row["accuracy"] == pytest.approx(2 / 3) and row["recovery"] == pytest.approx(0.5)


def test_unread_and_missing_answers_are_told_apart():
    runs = {"a": [record(False, parsed=False)], "b": [record(False, answered=False)], "c": [record(True)], "d": [record(False)]}
    row = tabulate({EVICTED: runs}).row(method="evicted")
    assert (row["unparsed"], row["unfinished"], row["accuracy"]) == (0.25, 0.25, 0.25)


def test_whole_trajectories_are_chosen_by_each_rule():
    runs = [
        record(False, rewards=[0.9, 0.3, 0.9], answer="1", base_tokens=10),
        record(True, rewards=[0.5, 0.5], answer="2", base_tokens=20),
        record(False, rewards=[0.2, 0.95], answer="1", base_tokens=30),
        record(True, answered=False, rewards=[1.0], answer=None, base_tokens=40),
    ]
    chosen = choose(runs)
    assert chosen.picks == {"min": True, "last": False, "prod": True, "mean": False, "majority": False}
    assert chosen.answer == "2" and chosen.base_tokens == 100
    rows = {row["method"]: row["accuracy"] for row in tabulate({("evicted-best-of-n", "rkv", 64, 4): {"a": [chosen]}}).rows}
    assert rows == {
        "evicted-best-of-n": 1.0, "evicted-best-of-n/last": 0.0, "evicted-best-of-n/prod": 1.0,
        "evicted-best-of-n/mean": 0.0, "evicted-best-of-n/majority": 0.0,
    }  # fmt: skip


def test_the_grid_has_every_combination_once():
    cells = grid(METHODS, ["rkv", "snapkv"], [48, 64], [1, 4], [0, 1])
    names = [cell.name for cell in cells]
    assert len(names) == len(set(names))
    first = [(cell.method, cell.policy, cell.budget, cell.n) for cell in cells if cell.seed == 0]
    assert first.count(("full", None, None, 1)) == 1 and first.count(("kv-rescue", "snapkv", 48, 4)) == 1
    assert ("evicted-stepwise", "rkv", 64, 8) in first and ("reco+rescue", None, None, 4) in first
    assert {cell.method for cell in grid(["oracle-choice"], ["rkv"], [64], [4], [0])} == {"evicted", "helper"}
