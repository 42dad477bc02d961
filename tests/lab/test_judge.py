"""The PRM's calibration and figures, worked by hand."""

from __future__ import annotations

import random

import pytest

from kvrescue.lab import language
from kvrescue.lab.judge import Sample, corrupted, fit, measured
from kvrescue.ranking import auc, spearman
from kvrescue.rewards.base import Step
from kvrescue.rewards.reading import Calibration, Reading


def test_auc_by_hand():
    assert auc([0.9, 0.8], [0.1, 0.2]) == 1.0
    assert auc([0.1], [0.9]) == 0.0
    assert auc([0.5, 0.5], [0.5]) == 0.5
    assert auc([0.9, 0.4], [0.5, 0.3]) == 0.75
    assert auc([], [0.5]) is None


def test_rank_correlation_by_hand():
    assert spearman([1, 2, 3], [10, 20, 90]) == pytest.approx(1.0)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert spearman([1, 2, 3, 4], [1, 2, 2, 9]) == pytest.approx(0.948683, abs=1e-6)
    assert spearman([1, 1], [1, 2]) is None


def test_a_reading_keeps_the_sum_and_the_worst_gap():
    reading = Reading()
    reading.add([-0.1, -3.0], [0.0, -2.5])
    reading.add([-0.5], [-0.4])
    assert (reading.tokens, reading.worst, reading.second) == (3, -2.5, -0.4) and reading.mean == pytest.approx(-1.2)


def test_calibration_is_a_logistic_function(tmp_path):
    calibration = Calibration(bias=2.0, worst=1.0, mean=0.0)
    assert calibration.of(-2.0, -9.0) == 0.5
    assert calibration.of(0.0, 0.0) == pytest.approx(0.880797)
    calibration.write(tmp_path)
    assert Calibration.read(tmp_path) == calibration


def test_fitting_separates_right_from_wrong():
    rng = random.Random(0)
    right = [Sample(-rng.random(), -0.2 * rng.random(), None, "sum", False) for _ in range(200)]
    wrong = [Sample(-4 - rng.random(), -1 - rng.random(), "arithmetic", "sum", False) for _ in range(50)]
    calibration = fit(right + wrong)
    assert calibration.of(0.0, 0.0) > 0.9 and calibration.of(-5.0, -1.5) < 0.1
    found = measured(right + wrong, calibration)
    assert (found["steps"], found["right"], found["auc"], found["arithmetic"]["steps"]) == (250, 200, 1.0, 50)
    assert found["recall"] == {"steps": 0, "auc": None}


def test_steps_after_a_derailment_are_measured_apart_and_not_learned_from():
    right = [Sample(-0.1, -0.1, None, "sum", False) for _ in range(20)]
    wrong = [Sample(-5.0, -2.0, "recall", "sum", False) for _ in range(20)]
    after = [Sample(-0.1, -0.1, "form", "sum", False, derailed=True) for _ in range(60)]
    calibration = fit(right + wrong + after)
    assert calibration == fit(right + wrong)
    found = measured(right + wrong + after, calibration)
    assert (found["steps"], found["auc"], found["form"]["steps"]) == (40, 1.0, 0)
    assert found["derailed"] == {"steps": 60, "right": 0, "auc": None}
    assert found["all"]["steps"] == 100 and found["all"]["auc"] == pytest.approx((20 * 20 + 20 * 60 * 0.5) / (20 * 80))


def test_a_corrupted_step_differs_in_one_number_or_name():
    ids = language.encode("Next, Bea takes 5 boxes of 7 pears.\n\n")
    step = Step("Next, Bea takes 5 boxes of 7 pears.\n\n", tuple(ids))
    for seed in range(30):
        other = corrupted(step, random.Random(seed))
        if other is not None:
            assert sum(a != b for a, b in zip(step.ids, other.ids, strict=True)) == 1
            assert language.encode(other.text) == list(other.ids)
    line = "To be sure, all of them are counted.\n\n"
    assert corrupted(Step(line, tuple(language.encode(line))), random.Random(0)) is None
