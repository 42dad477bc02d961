"""The bundled models show what the papers describe. Small samples with wide margins; the figures themselves come from ``lab report``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kvrescue import presets
from kvrescue.bench.record import Record
from kvrescue.cli import main
from kvrescue.config import ConfigError, make_config
from kvrescue.engine.run import run
from kvrescue.lab import judge, story
from kvrescue.lab.evaluate import solve
from kvrescue.models.load import LAB_FOLDER, Pair, load_lab, vocabularies_agree

COUNT = 12
SEED = 31


@pytest.fixture(scope="module")
def lab() -> Pair:
    return load_lab(LAB_FOLDER, say=lambda _text: None)


@pytest.fixture(scope="module")
def measured(lab) -> dict[str, list[Record]]:
    """Each method on the same problems, at the smallest budget of the report where one evicts."""
    found = {}
    for name, settings in {
        "full": {"method": "full", "scorer": "none"},
        "evicted": {"method": "evicted", "scorer": "none", "budget": 64},
        "helper": {"method": "helper", "scorer": "none"},
        "kv-rescue": {"method": "kv-rescue"},
    }.items():
        config = make_config(**{**presets.default_settings("lab"), **settings})
        found[name] = [solve(lab, index, SEED, "medium", config) for index in range(COUNT)]
    return found


def right(records: list[Record]) -> float:
    return sum(one.right for one in records) / len(records)


def first_errors(records: list[Record]) -> Counter:
    return Counter(one.first_error for one in records if one.first_error)


def test_the_base_forgets_when_it_is_evicted_and_is_rescued(measured):
    full, evicted, helper, rescued = (right(measured[name]) for name in ("full", "evicted", "helper", "kv-rescue"))
    assert full >= 0.9 and evicted <= full - 0.4 and helper <= full - 0.3
    assert rescued >= max(evicted, helper) + 0.3, "two parts that fail alone succeed together"


def test_the_evicted_base_misremembers_and_the_helper_miscalculates(measured):
    assert first_errors(measured["evicted"]).most_common(1)[0][0] == "recall"
    assert first_errors(measured["helper"]).most_common(1)[0][0] == "arithmetic"


def test_the_helper_writes_a_minority_of_the_steps(measured):
    helper = sum(one.helper_steps for one in measured["kv-rescue"])
    assert 0 < helper < sum(one.base_steps for one in measured["kv-rescue"])


def test_memory_stays_within_budget_and_buffer(measured):
    settings = presets.default_settings("lab")
    assert max(one.peak_resident for one in measured["kv-rescue"]) <= settings["budget"] + settings["buffer"]
    assert max(one.peak_resident for one in measured["evicted"]) <= 64 + settings["buffer"]


def test_the_judge_tells_right_from_wrong(lab):
    samples = [sample for index in range(10) for sample in judge.collect(lab, ("a test", index))]
    found = judge.measured(samples, lab.prm.calibration)
    assert found["steps"] > 100 and found["auc"] > 0.96 and found["accuracy"] > 0.95, "a small sample with hard stories; the card has the figure"


def test_the_perfect_judge_blames_nothing_that_is_right(lab):
    told = story.held_out(SEED, 3, "easy")
    config = make_config(**{**presets.default_settings("lab"), "scorer": "checker", "n": 2})
    stream = list(run(told.text, config, lab))
    assert stream[0].scorer == "the lab's own checker (a perfect judge, no model)"
    scores = [event.score for event in stream if event.type == "commit"]
    if stream[-1].answer == str(told.answer):
        assert min(scores) >= 0.9
    else:
        assert min(scores) <= 0.1


@pytest.mark.parametrize("scorer", ["prm", "estimator", "likelihood"])
def test_every_judge_names_itself(lab, scorer):
    config = make_config(**{**presets.default_settings("lab"), "scorer": scorer, "n": 1, "max_steps": 2})
    stream = list(run(story.held_out(1, 0, "easy").text, config, lab))
    assert {"prm": "lab-prm", "estimator": "estimator", "likelihood": "stand-in"}[scorer] in stream[0].scorer
    assert all(0 <= event.score <= 1 for event in stream if event.type == "commit")


def test_text_outside_the_language_is_refused_before_any_compute(lab):
    with pytest.raises(ConfigError, match="know only the words of their stories") as caught:
        run("A ferry carries 142 cars.", make_config(**presets.default_settings("lab")), lab)
    assert caught.value.field == "problem"


def test_a_judge_that_is_not_there_is_refused(lab):
    from dataclasses import replace

    for scorer, without in (("prm", {"prm": None}), ("estimator", {"estimator": None})):
        with pytest.raises(ConfigError, match=f"scorer is '{scorer}'"):
            run(story.held_out(1, 0).text, make_config(**{**presets.default_settings("lab"), "scorer": scorer}), replace(lab, **without))


def test_the_models_share_a_vocabulary_and_are_small():
    files = [path for path in LAB_FOLDER.rglob("*") if path.is_file()]
    weights = [path for path in files if path.suffix == ".safetensors"]
    assert sum(path.stat().st_size for path in files if "report" not in path.parts) < 20e6
    assert {path.parent.name for path in weights} == {"base", "wordy", "helper", "prm", "wordy-prm", "estimator"}
    assert not [path for path in files if path.suffix in (".bin", ".pt", ".pth", ".pkl")]


def test_steps_travel_as_ids(lab):
    assert vocabularies_agree(lab.base, lab.helper) and vocabularies_agree(lab.base, lab.prm.loaded)


def test_missing_models_say_how_to_make_them(tmp_path):
    with pytest.raises(ConfigError, match="lab train --all"):
        load_lab(Path(tmp_path), say=lambda _text: None)


def test_the_command_line_solves_a_story_with_the_bundled_models(capsys):
    told = story.held_out(SEED, 0, "easy")
    assert main(["run", told.text, "--method", "full"]) == 0
    out = capsys.readouterr().out
    assert "lab-base" in out and "answer:" in out
    assert main(["run", "What is a ferry?"]) == 2
    assert "switch the models to SmolLM2" in capsys.readouterr().err
