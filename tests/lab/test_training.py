"""Training texts, the recipe, checkpoints, and the whole path of ``lab train`` in short."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
import torch

from kvrescue.lab import language, story, texts
from kvrescue.lab.make import RECIPES, make
from kvrescue.lab.train import Recipe, learning_rate, make_batch, new_model, train
from kvrescue.models.load import load_lab
from kvrescue.presets import MODEL_SETS

SMALL = Recipe(hidden=16, layers=1, heads=2, seed=9, tokens=6_000, enough=0.0)


def shown(batch: texts.Batch, row: int = 0) -> tuple[str, str]:
    """The text of a row, and the part of it that is learned."""
    back = {index: token for token, index in language.vocabulary().items()}
    ids, labels = batch.ids[row].tolist(), batch.labels[row].tolist()
    return "".join(back[one] for one in ids), "".join(back[one] for one in labels if one != texts.SKIP)


def test_only_what_can_be_known_is_learned():
    rng = random.Random(0)
    text, learned = shown(texts.drills(rng, 1, lines=3))
    assert learned.split() == [line.split(" = ")[1].split()[0].strip(".,") for line in text.split(".") if " = " in line]
    text, learned = shown(texts.recalls(rng, 1))
    assert learned.startswith("First, ") and "?\n\n" not in learned and learned.endswith(language.END) and learned in text
    text, learned = shown(texts.repeats(rng, 1))
    assert learned and text.endswith(learned)


def test_the_closing_prompt_is_never_learned_but_its_answer_is():
    for seed in range(20):
        text, learned = shown(texts.stories(random.Random(seed), 1, story.DIALS["easy"], closing=1.0))
        assert text.replace(language.PAD, "").endswith(learned)
        before = text[: text.rindex(learned)]
        assert before.endswith(language.CLOSING_PROMPT)
        told = before.split("?\n\n")[0] + "?"
        from kvrescue.lab.grade import read_story

        assert learned == f" {read_story(told).answer} }}.{language.END}"


def test_a_judge_reads_what_a_wandering_mind_writes_and_does_not_learn_to_expect_it():
    def strays(learned: str) -> int:
        return sum(learned.count(line) for line in story.STRAYS)

    rows = [make_batch(replace(SMALL, wordy=True, judge=judge), 2, step, 1.0) for judge in (False, True) for step in range(12)]
    solver, judge = ([shown(batch, row)[1] for batch in some for row in range(len(batch.ids))] for some in (rows[:12], rows[12:]))
    assert sum(map(strays, solver)) > 20 and not sum(map(strays, judge))
    assert any("Hmm, there are" in learned for learned in judge)


def test_data_of_a_step_depend_on_its_number_alone():
    one, other = (make_batch(SMALL, 2, 5, 0.5) for _ in range(2))
    assert torch.equal(one.ids, other.ids) and torch.equal(one.labels, other.labels)
    assert not torch.equal(one.ids[:1, :20], make_batch(SMALL, 2, 6, 0.5).ids[:1, :20])


def test_the_helper_is_weaker_only_by_size():
    base, helper = RECIPES["base"], RECIPES["helper"]
    assert replace(helper, hidden=base.hidden, layers=base.layers, heads=base.heads, mlp=base.mlp, seed=base.seed) == base
    sizes = [sum(p.numel() for p in new_model(recipe).parameters()) for recipe in (base, helper)]
    assert sizes[0] > 2 * sizes[1]


def test_the_learning_rate_falls_to_zero_once_a_cycle():
    once, twice = ([learning_rate(1_000, share * cycles) for share in (0.0, 0.25, 0.4999, 0.5, 0.9999)] for cycles in (1, 2))
    assert once == sorted(once, reverse=True) and once[0] == 1 and once[-1] < 1e-6
    assert twice[0] == twice[3] == 1 and max(twice[2], twice[4]) < 1e-6


def test_training_goes_on_where_it_stopped(tmp_path):
    class Killed(Exception):
        pass

    heard = []

    def kill(text: str) -> None:
        heard.append(text)
        if "recall done" in text:
            raise Killed

    whole, _ = train(SMALL, tmp_path / "whole", lambda _text: None, save_every=0.0)
    with pytest.raises(Killed):
        train(SMALL, tmp_path / "cut", kill, save_every=0.0)
    resumed, counters = train(SMALL, tmp_path / "cut", heard.append, save_every=0.0)
    assert any("going on" in text for text in heard)
    assert counters.tokens == 0 and counters.phase == 3
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_lab_train_from_nothing_in_short(tmp_path, monkeypatch):
    monkeypatch.setitem(MODEL_SETS["lab"].settings, "max_tokens", 40)  # untrained models never end by themselves
    said: list[str] = []
    make(["base", "helper", "prm", "estimator"], tmp_path / "out", tmp_path / "work", said.append, tokens=4_000, problems=6, workers=1)
    pair = load_lab(tmp_path / "out", say=said.append)
    assert pair.prm is not None and pair.base.info.parameters > pair.helper.info.parameters
    measured = json.loads((tmp_path / "out" / "prm" / "measured.json").read_text())
    assert measured["steps"] > 0
    assert pair.estimator is not None and pair.estimator.teacher == "lab-prm"
    card = (tmp_path / "out" / "prm" / "README.md").read_text()
    assert "seed 3" in card and "| medium |" in card and "As a judge" in card
    assert not list((tmp_path / "out").rglob("*.bin")), "no pickle"
