"""The page's examples and their recordings belong together."""

from __future__ import annotations

import json

import pytest

from kvrescue import presets
from kvrescue.cli import main
from kvrescue.config import ConfigError, make_config
from kvrescue.trace import read_runs, read_trace
from kvrescue.ui.words import words

TRACES = presets.EXAMPLES.parent / "traces"
INDEX = json.loads((TRACES / "index.json").read_text(encoding="utf-8"))
EXAMPLES = {one["id"]: one for one in presets.load_examples()}


def test_every_example_of_the_lab_has_a_recording_and_nothing_else_lies_there():
    assert [one["id"] for one in INDEX] == [name for name, one in EXAMPLES.items() if one["models"] in presets.LAB_SETS]
    compared = [one["compare"]["file"] for one in INDEX if "compare" in one]
    assert {path.name for path in TRACES.iterdir()} == {"index.json", *(one["file"] for one in INDEX), *compared}


@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["id"])
def test_a_recording_is_a_whole_trace_of_its_example(entry):
    example, trace = EXAMPLES[entry["id"]], read_trace(TRACES / entry["file"])
    header = trace[0]
    assert header.problem == example["problem"] and entry["title"] == words("en")(f"example.{entry['id']}.title")
    assert {name: header.config[name] for name in example["settings"]} == example["settings"]
    assert entry["command"] == f"python -m kvrescue run example:{entry['id']} --trace {entry['file']}"
    assert trace[-1].type == "end" and header.reference == example["answer"]
    assert trace[-1].correct is (trace[-1].answer == example["answer"])


@pytest.mark.parametrize("entry", [one for one in INDEX if "compare" in one], ids=lambda entry: entry["id"])
def test_a_recorded_comparison_is_one_problem_by_several_methods(entry):
    example, runs = EXAMPLES[entry["id"]], read_runs(TRACES / entry["compare"]["file"])
    methods = [run[0].config["method"] for run in runs]
    assert entry["compare"]["command"] == (
        f"python -m kvrescue run example:{entry['id']} --compare {','.join(methods)} --trace {entry['compare']['file']}"
    )
    assert {run[0].problem for run in runs} == {example["problem"]} and len({run[0].config["seed"] for run in runs}) == 1


def test_an_example_runs_by_its_name(capsys, tmp_path):
    file = tmp_path / "again.ndjson"
    assert main(["run", "example:lab-easy", "--trace", str(file)]) == 0
    again, kept = read_trace(file), read_trace(TRACES / "lab-easy.ndjson")
    # Not the texts: another processor may round otherwise, and a sampled token tip over. A setting that came later has its default.
    assert (again[0].problem, again[0].config) == (kept[0].problem, make_config(**kept[0].config).model_dump()) and again[-1].type == "end"
    capsys.readouterr()


def test_an_example_that_is_not_there_or_not_for_these_models_is_refused(capsys):
    assert main(["run", "example:nope"]) == 2
    assert "known: lab-rescue" in capsys.readouterr().err
    with pytest.raises(ConfigError) as refused:
        presets.example_of("example:ferry", "lab")
    assert refused.value.field == "models"
    assert presets.example_of("A ferry carries 18 cars.", "lab") is None
