"""Problems by name, and what is said when a name is wrong."""

from __future__ import annotations

import json

import pytest

from kvrescue.bench.problems import HUB_SETS, find, find_sets
from kvrescue.config import ConfigError
from kvrescue.lab.story import held_out


def test_stories_are_those_of_the_seed():
    found = find("lab:3:hard", 5)
    assert [one.text for one in found] == [held_out(5, at, "hard").text for at in range(3)]
    assert [one.id for one in found] == ["lab/hard/5/0", "lab/hard/5/1", "lab/hard/5/2"]
    assert find("lab:2", 5)[0].answer == str(held_out(5, 0).answer) and len(find("lab")) == 100


def test_a_file(tmp_path):
    file = tmp_path / "mine.jsonl"
    rows = [
        {"id": "x", "problem": "1+1?", "answer": 2},
        {"question": "2+2?", "answer": ["4", "5"]},
        {"problem": "A or B?", "answer": "A", "kind": "choice", "id": "y"},
    ]
    file.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    found = find(str(file))
    assert [(one.id, one.answer, one.kind) for one in found] == [("x", "2", "math"), ("mine.jsonl/2", "4, 5", "math"), ("y", "A", "choice")]
    assert len(find(f"{file}:2")) == 2


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "Line 1 of mine.jsonl is no JSON object"),
        ("[1]", "Line 1 of mine.jsonl is no JSON object"),
        ('{"problem": "a"}', "needs a 'problem'"),
        ('{"problem": "a", "answer": 1, "kind": "essay"}', "has the kind 'essay'"),
        ('{"problem": "a", "answer": 1, "id": 1}\n{"problem": "a", "answer": 1, "id": 1}', "Line 2 of mine.jsonl has the id '1'"),
        ("", "holds no problems"),
        ('{"problem": " ", "answer": 1}', "The problem is empty"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, sentence):
    file = tmp_path / "mine.jsonl"
    file.write_text(line)
    with pytest.raises(ConfigError, match=sentence):
        find(str(file))


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("nowhere.jsonl", "no file and no set; known sets: lab, gsm8k, math500"),
        ("lab:0", "with a count from 1"),
        ("lab:3:odd", "the difficulty is one of easy, medium, hard"),
        ("gsm8k:3:hard", "only the lab has difficulties"),
    ],
)
def test_a_bad_name_is_told(spec, sentence):
    with pytest.raises(ConfigError, match=sentence):
        find(spec)


def test_without_a_network_it_says_so(monkeypatch):
    import datasets

    def unreachable(*_args, **_more):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(ConfigError, match="could not be fetched"):
        find("gsm8k:2")


def test_rows_of_the_hub_are_read(monkeypatch):
    import datasets

    rows = {
        "gsm8k": {"question": "How many?", "answer": "It is so.\n#### 1,234"},
        "math500": {"problem": "x?", "answer": "\\frac12"},
        "aime24": {"problem": "x?", "answer": "204"},
        "aime25": {"problem": "x?", "answer": "70"},
        "amc23": {"question": "x?", "answer": 27.0},
        "olympiadbench": {"question": "x?", "final_answer": ["3", "4"]},
        "gpqa-diamond": {
            "Question": "Which?",
            "Correct Answer": "w",
            "Incorrect Answer 1": "x",
            "Incorrect Answer 2": "y",
            "Incorrect Answer 3": "z",
        },
    }
    assert set(rows) == set(HUB_SETS)
    for name, row in rows.items():
        monkeypatch.setattr(datasets, "load_dataset", lambda *_a, row=row, **_k: datasets.Dataset.from_list([row]))
        (found,) = find(name)
        if name == "gpqa-diamond":
            assert found.kind == "choice" and f"{found.answer}) w" in found.text
        else:
            assert found.answer == {"gsm8k": "1234", "math500": "\\frac12", "amc23": "27.0", "olympiadbench": "3, 4"}.get(
                name, str(row.get("answer"))
            )


def test_several_sets(tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text('{"problem": "1+1?", "answer": "2"}\n')
    sets = find_sets(f"lab:2:easy, {file}", seed=3)
    assert list(sets) == ["lab:2:easy", str(file)] and [problem.id for problem in sets["lab:2:easy"]] == ["lab/easy/3/0", "lab/easy/3/1"]
    with pytest.raises(ConfigError, match="two of its sets hold a problem called 'lab/medium/0/0'"):
        find_sets("lab:2,lab:3")
