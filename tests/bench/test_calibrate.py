"""Thresholds from healthy runs: worked by hand, then on the bundled models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvrescue import presets
from kvrescue.bench.calibrate import Signals, Thresholds, Watched, thresholds, tripped
from kvrescue.cli import main
from kvrescue.config import make_config

ROOT = Path(__file__).resolve().parents[2]


def test_windows_by_hand():
    assert Signals([1.0, 2.0, 3.0, 6.0]).averages(3) == [2.0, pytest.approx(11 / 3)]
    assert Signals([1.0]).averages(3) == []


def test_thresholds_are_percentiles_of_healthy_windows():
    healthy = [Watched([Signals([value / 1000], [(4, 1 + value / 1000)]) for value in range(1001)], True)]
    found = thresholds(healthy, 1)
    assert (found.tau_ent, found.tau_cmp) == (pytest.approx(0.999), pytest.approx(1.001))
    assert thresholds([Watched([Signals([0.1])], True)], 4) == Thresholds(None, None)


def test_what_trips_by_hand():
    config = make_config(ent_window=2)
    runs = [
        Watched([Signals([3.0, 3.0]), Signals([0.0, 0.0])], False),
        Watched([Signals([0.0, 0.0], [(4, 0.1)]), Signals([9.0])], False),
        Watched([Signals([0.0, 0.0])], True),
    ]
    assert tripped(runs, Thresholds(2.0, 0.3), config) == (2 / 5, 2 / 3)
    assert tripped(runs, Thresholds(None, None), config) == (0.0, 0.0)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KVRESCUE_CACHE", str(tmp_path))
    return tmp_path


def test_the_app_offers_what_was_measured_for_its_settings_only(cache):
    assert presets.measured_thresholds("lab") == {}
    assert main(["calibrate", "--problems", "lab:6:easy", "--json"]) == 0
    measured = presets.measured_thresholds("lab")
    stored = json.loads(presets.calibration_file("lab").read_text())
    assert measured == {"tau_ent": stored["tau_ent"], "tau_cmp": stored["tau_cmp"]} or stored["tau_cmp"] is None
    assert presets.default_config("lab").tau_ent == stored["tau_ent"] and stored["false_aborts"] < 0.05
    assert "tau_ent" in presets.calibration_file("lab").with_suffix(".html").read_text()
    stored["settings"]["ent_window"] += 1
    presets.calibration_file("lab").write_text(json.dumps(stored))
    assert presets.measured_thresholds("lab") == {}
    for damaged in ("{", "[]", '{"settings": {}}', json.dumps({**stored, "tau_ent": "high"})):
        presets.calibration_file("lab").write_text(damaged)
        assert presets.measured_thresholds("lab") == {}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--models", "smollm2"], "Name problems that suit these models"),
        (["--base", "x"], "Name problems that suit these models"),
        (["--set", "ent_window=0"], "ent_window is 0"),
    ],
)
def test_bad_input_gets_a_sentence(arguments, sentence, cache, capsys):
    assert main(["calibrate", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_thresholds_of_an_own_base_are_its_own(cache, monkeypatch):
    """Found again by the folder's place, however it was named."""
    base = str(ROOT / "assets" / "lab" / "base")
    assert main(["calibrate", "--base", base, "--problems", "lab:2:easy", "--json"]) == 0
    stored = json.loads(presets.calibration_file(None, base).read_text())
    assert stored["tau_ent"] is None and presets.measured_thresholds(None, base) == {}  # its steps are shorter than the usual window
    presets.calibration_file(None, base).write_text(json.dumps({**stored, "tau_ent": 1.23}))
    monkeypatch.chdir(ROOT)
    assert presets.measured_thresholds(None, "assets/lab/base") == {"tau_ent": 1.23}
    assert presets.default_config(None, base).tau_ent == 1.23 != presets.default_config(None, "other/model").tau_ent
