"""The report's figures, worked by hand on made-up records, and its command on bad input."""

from __future__ import annotations

import json

import pytest

from kvrescue.bench.cells import Cell
from kvrescue.bench.record import Record
from kvrescue.bench.runner import choose
from kvrescue.cli import main
from kvrescue.lab import report, report_output


def record(right: bool = True, *, answered: bool = True, error: str | None = None, base: int = 6, helper: int = 2, **other) -> Record:
    values = {
        "right": right, "answered": answered, "degenerate": not answered, "first_error": error, "errors": {}, "base_steps": base,
        "helper_steps": helper, "base_tokens": 100, "helper_tokens": 50, "committed_tokens": 80, "peak_resident": 80, "aborted": 0,
        "mean_resident": 60.0, "retention": 0.4, "probes": 1, "suppressed": 2, "reward": 0.5, "seconds": 1.0,
    }  # fmt: skip
    return Record(**{**values, **other})


def test_wilson_interval_by_hand():
    assert report.wilson(0, 10) == (0.0, pytest.approx(0.27753, abs=1e-4))
    low, high = report.wilson(5, 10)
    assert (low, high) == (pytest.approx(0.23659, abs=1e-4), pytest.approx(0.76341, abs=1e-4))


def test_recovery_is_none_where_nothing_was_lost():
    full = report._row(Cell("full"), [record()] * 10, [])
    same = report._row(Cell("evicted", "rkv", 64), [record()] * 10, [full])
    assert report._row(Cell("kv-rescue", "rkv", 64, 4), [record()] * 10, [full, same]).recovery is None
    lost = report._row(Cell("evicted", "rkv", 64), [record(i < 2) for i in range(10)], [full])
    rescued = report._row(Cell("kv-rescue", "rkv", 64, 4), [record(i < 8) for i in range(10)], [full, lost])
    assert rescued.recovery == pytest.approx(0.75) and rescued.helper_share == 0.25
    assert report._row(Cell("kv-rescue", "rkv", 48, 4), [record()] * 10, [full, lost]).recovery is None, "another budget"


def test_saving_is_against_as_many_samples_a_step():
    many = report._row(Cell("evicted-stepwise", "rkv", 64, 8), [record(base_tokens=400)], [])
    assert report._row(Cell("kv-rescue", "rkv", 64, 4), [record()], [many]).saving == 0.75
    assert report._row(Cell("kv-rescue", "rkv", 64, 2), [record()], [many]).saving is None


def test_rates_by_hand():
    rows = [record(), record(False, error="recall"), record(False, error="recall"), record(False, answered=False, error="form")]
    row = report._row(Cell("evicted", "rkv", 64), rows, [])
    assert (row.accuracy, row.recall_errors, row.arithmetic_errors, row.form_errors) == (0.25, 0.5, 0.0, 0.25)
    assert (row.unfinished, row.degenerate, row.helper_share) == (0.25, 0.25, None)


def test_best_of_n_prefers_an_answer_and_pays_for_all():
    runs = [record(False, rewards=[0.9, 0.2]), record(True, rewards=[0.8, 0.7]), record(False, answered=False, rewards=[1.0])]
    chosen = choose(runs)
    assert chosen.right and chosen.base_tokens == 300 and chosen.seconds == 3.0


def test_oracle_choice_takes_the_better_run():
    evicted, helper = [record(False), record(True)], [record(True), record(False)]
    assert [one.right for one in report._oracle(evicted, helper)] == [True, True]


def test_the_suite_measures_baselines_before_what_is_compared_with_them():
    cells = report.rescue_cells(["rkv", "snapkv"], [64, 96], [1, 4])
    names = [(cell.method, cell.policy, cell.budget, cell.n) for cell in cells]
    assert len(names) == len(set(names))
    for policy in ("rkv", "snapkv"):
        for budget in (64, 96):
            first = names.index(("kv-rescue", policy, budget, 1))
            assert names.index(("evicted", policy, budget, 1)) < first and names.index(("evicted-stepwise", policy, budget, 8)) < first
    assert {cell.policy for cell in report.rescue_cells(None, [64], [1]) if cell.method == "evicted"} == set(report.POLICIES)


def test_a_reco_row_by_hand():
    row = report._reco_row(Cell("reco", settings={"method": "reco"}), [record(), record(False, committed_tokens=40)], [])
    assert (row.accuracy, row.tokens, row.mean_kv, row.peak_kv, row.retention_mean) == (0.5, 60.0, 60.0, 80.0, 0.4)
    assert (row.probes, row.penalised, row.policy, row.helper_share) == (1.0, 2.0, "snapkv-decode", None)
    assert "`reco`" in report_output.markdown([report.as_json(row)]) and "Committed tokens" in report_output.page([report.as_json(row)], {})


def test_every_part_of_reco_is_switched_off_and_left_alone_once():
    from kvrescue.config import make_config

    cells = {cell.method: make_config(**cell.config_values("lab")) for cell in report.reco_cells(None, [], [2])}
    assert cells["full-cot"].method == "full"
    full = cells["reco"]
    assert full.delta > 0 and full.beta > 0 and full.tau_p > 1
    assert (cells["reco-no-adaptation"].delta, cells["reco-no-reflection"].beta, cells["reco-no-exit"].tau_p) == (0, 0, 0)
    for name, kept in {"retention-only": "delta", "reflection-only": "beta", "exit-only": "tau_p"}.items():
        assert [field for field in ("delta", "beta", "tau_p") if getattr(cells[name], field)] == [kept]


def test_files_of_a_report(tmp_path):
    rows = [report.as_json(report._row(Cell("full"), [record()], [])), report.as_json(report._row(Cell("evicted", "rkv", 64), [record(False)], []))]
    report_output.write(rows, {"note": "<b>"}, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "rows.json").read_text())["rows"] == rows
    page = (tmp_path / "out" / "report.html").read_text()
    assert "&lt;b&gt;" in page and 'src="http' not in page
    assert (tmp_path / "out" / "table.md").read_text().count("\n") == 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["report", "--problems", "0"], "problems is '0'; allowed: a whole number from 1 to 100,000."),
        (["report", "--budgets", "64,x"], "budgets is 'x'"),
        (["report", "--policies", "rkv,none"], "policies is 'none'; allowed: snapkv,"),
        (["report", "--methods", "magic"], "methods is 'magic'; allowed: full, helper, evicted,"),
        (["report", "--suite", "all"], "suite is 'all'; allowed: rescue, reco."),
        (["report", "--difficulty", "odd"], "difficulty is 'odd'; allowed: easy, medium, hard."),
        (["report", "--budgets", "8"], "budget is 8; it must be larger than the window"),
        (["problem", "--seed", "-1"], "seed is '-1'"),
        (["train"], "Name what to train"),
        (["train", "judge"], "part is 'judge'; allowed: base, wordy, helper, prm, wordy-prm, estimator."),
    ],
)
def test_bad_input_gets_a_sentence(arguments, sentence, capsys):
    assert main(["lab", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_a_problem_in_the_terminal(capsys):
    assert main(["lab", "problem", "--seed", "5", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["problem"].endswith("at the end?") and first["solution"][-1] == f"The answer is \\boxed{{ {first['answer']} }}."
    main(["lab", "problem", "--seed", "5", "--json"])
    assert json.loads(capsys.readouterr().out) == first
