"""Stories, their language, and the checker that reads them back."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvrescue.config import ConfigError
from kvrescue.lab import language, story
from kvrescue.lab.export import make_tokenizer
from kvrescue.lab.grade import Ledger, grade_steps, read_story

seeds = st.integers(0, 10**6)
levels = st.sampled_from(story.DIFFICULTIES)


@given(seeds, levels)
def test_a_story_is_solved_by_its_own_solution_and_read_back_from_its_text(seed, level):
    told = story.held_out(seed, 0, level)
    assert all(0 <= total <= story.TOP for total in (told.start, *told.totals))
    lines = story.solution(told, random.Random(seed), story.Manner(0.5, 0.5, (1, 3)))
    assert all(grade.right for grade in grade_steps(told, lines))
    assert replace(read_story(told.text), difficulty=level) == told
    assert lines[-1] == f"The answer is \\boxed{{ {told.answer} }}."


@given(seeds, levels)
def test_text_and_tokens_are_one_to_one(seed, level):
    told = story.held_out(seed, 1, level)
    text = " " + told.text + "\n\n" + "\n\n".join(story.solution(told, random.Random(seed), story.Manner(0.5, 0.5, (1, 3), 0.5)))
    ids = language.encode(text)
    tokenizer = make_tokenizer()
    assert tokenizer.encode(text, add_special_tokens=False) == ids
    assert tokenizer.decode(ids) == text
    assert language.foreign_words(told.text) == []


def test_the_prompt_is_what_the_models_were_trained_on():
    told = story.held_out(3, 0)
    untidy = "\n" + told.text.replace(" ", "  ", 3) + " "
    text = make_tokenizer().apply_chat_template([{"role": "system", "content": "x"}, {"role": "user", "content": untidy}], tokenize=False)
    assert text == f" {told.text}\n\n"


def test_problems_are_drawn_by_seed_and_never_from_the_training_stream():
    assert story.held_out(1, 2) == story.held_out(1, 2) != story.held_out(1, 3)
    assert story.held_out(1, 2).text != story.held_out(2, 2).text
    assert story.held_out(1, 2).text not in {story.make_story(random.Random(f"train {seed} 2 1"), story.DIALS["medium"]).text for seed in range(50)}


def test_difficulty_means_more_people_and_more_noise():
    sizes = {level: [story.held_out(5, i, level) for i in range(20)] for level in story.DIFFICULTIES}
    assert [len(sizes[level][0].facts) for level in story.DIFFICULTIES] == [3, 5, 7]
    lengths = [sum(len(language.encode(f" {told.text}")) for told in sizes[level]) for level in story.DIFFICULTIES]
    assert lengths == sorted(lengths)


def test_foreign_words_are_named_once_in_order():
    assert language.foreign_words("Pam eats 3 pears. A ferry with 142 pears and a ferry!") == ["ferry", "142", "!"]


TOLD = read_story(
    "Sue brings 8 pears. Today Bea takes 5 boxes of 7 pears after lunch. The bread is still warm. Kim adds 3 pears. "
    "The stall holds 34 pears. Count Sue and Bea. How many pears are in the stall at the end?"
)
DONE = ["At first there are 34 pears.", "First, Sue brings 8 pears.", "So 34 + 8 = 42 pears.", "Next, Bea takes 5 boxes of 7 pears."]


def test_reading_a_story_back():
    assert (TOLD.start, TOLD.totals, TOLD.item, TOLD.place) == (34, (42, 7), "pears", "stall")


@pytest.mark.parametrize(
    ("done", "step", "error"),
    [
        (0, "At first there are 34 pears.\n\n", None),
        (0, "At first there are 33 pears.", "recall"),
        (0, "First, Sue brings 8 pears.", "form"),
        (1, "First, Sue brings 8 pears.", None),
        (1, "First, Sue brings 9 pears.", "recall"),
        (1, "First, Sue takes 8 pears.", "recall"),
        (1, "First, Kim adds 3 pears.", "recall"),
        (1, "Next, Sue brings 8 pears.", "recall"),
        (1, "First, Sue brings 8 plums.", "recall"),
        (1, "First, Sue Sue Sue Sue", "form"),
        (2, "So 34 + 8 = 42 pears.", None),
        (2, "So 34 + 8 = 43 pears.", "arithmetic"),
        (2, "So 33 + 8 = 41 pears.", "recall"),
        (2, "So 34 - 8 = 26 pears.", "arithmetic"),
        (3, "Wait, 42 - 8 = 34, that is right.", None),
        (3, "Wait, 42 - 8 = 35, that is right.", "arithmetic"),
        (3, "Hmm, 34 + 8 = 42, that is right.", "form"),
        (3, "Next, Bea takes 5 boxes of 7 pears.", None),
        (3, "The answer is \\boxed{ 42 }.", "form"),
        (4, "That is 5 * 7 = 35 pears.", None),
        (4, "That is 5 * 7 = 36 pears.", "arithmetic"),
        (4, "That is 5 * 8 = 40 pears.", "recall"),
        (4, "So 42 - 35 = 7 pears.", "form"),
    ],
)
def test_steps_are_blamed_for_what_is_wrong_with_them(done, step, error):
    ledger = Ledger(TOLD)
    for line in DONE[:done]:
        assert ledger.commit(line).right
    assert ledger.grade(step).error == error


def test_a_wrong_total_is_blamed_once():
    steps = [*DONE[:2], "So 34 + 8 = 40 pears.", DONE[3], "That is 5 * 7 = 35 pears.", "So 40 - 35 = 5 pears.", "The answer is \\boxed{ 5 }."]
    assert [grade.error for grade in grade_steps(TOLD, steps)] == [None, None, "arithmetic", None, None, None, None]


def test_looks_back_take_turns_and_end():
    ledger = Ledger(TOLD)
    for line in DONE[:3]:
        ledger.commit(line)
    back, forth = "Wait, 42 - 8 = 34, that is right.", "Hmm, 34 + 8 = 42, that is right."
    for line in (back, forth, back):
        assert ledger.commit(line).right
    assert ledger.grade(forth).error == "form"
    assert ledger.grade(DONE[3]).right


def test_a_wordy_end_is_gone_through_once_begun():
    told = replace(TOLD, facts=TOLD.facts[:1], totals=TOLD.totals[:1])
    ledger = Ledger(told)
    first, second, *others = story.wrap_up(told)
    for line in (*DONE[:3], first):
        assert ledger.commit(line).right
    assert ledger.grade("The answer is \\boxed{ 42 }.").error == ledger.grade(first).error == "form"
    assert ledger.grade(second.replace("42", "41")).error == ledger.grade(second.replace("stall", "barn")).error == "recall"
    for line in (second, *others, second, *others):
        assert ledger.commit(line).right, "it may go round"
    assert ledger.grade(others[0]).error == "form"
    for line in (second, *others, "The answer is \\boxed{ 42 }."):
        assert ledger.commit(line).right


def test_a_wandering_mind_says_nothing_and_finds_back():
    solver = story.Manner(strays=1.0)
    lines = story.solution(TOLD, random.Random(0), solver)
    strays = [line for line in lines if line in story.STRAYS]
    assert 3 <= len(strays) <= 5 and lines[lines.index(strays[-1]) + 1] == "Hmm, there are 42 pears."
    for line, grade in zip(lines, grade_steps(TOLD, lines), strict=True):
        assert (grade.error, grade.kind) == ("form", "stray") if line in strays else grade.right
    ledger = Ledger(TOLD)
    for line in DONE[:3]:
        ledger.commit(line)
    assert ledger.grade("Hmm, there are 41 pears.").error == "recall"


@pytest.mark.parametrize("text", ["What is 3 + 4?", "Sue brings 8 pears.", TOLD.text.replace("Count Sue", "Count Zoe")])
def test_what_is_no_story_is_refused(text):
    with pytest.raises(ConfigError) as caught:
        read_story(text)
    assert caught.value.field == "problem"


@given(st.text(max_size=200))
def test_any_text_can_be_graded_and_asked_for_foreign_words(text):
    Ledger(TOLD).commit(text)
    assert all(word.strip() for word in language.foreign_words(text))
