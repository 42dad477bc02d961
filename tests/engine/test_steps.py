from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvrescue.engine.steps import StepDetector, boxed_answer, is_empty


def feed(pieces: list[str], delimiter: str = "\n\n") -> int | None:
    """Index of the piece that ends the step."""
    detector = StepDetector(delimiter)
    return next((i for i, piece in enumerate(pieces) if detector.update(piece)), None)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["So", " 4", ".\n\n"], 2),
        (["So", "\n", "\n"], 2),
        (["So.\n", "\nNext"], 1),  # text behind the delimiter stays with the step
        (["\n\n", "\n", "So", ".\n\n"], 3),  # nothing visible yet
        (["\n\nSo", ".\n\n"], 1),
        (["So", "\n", "x", "\n"], None),
        (["So", "", "\n", "", "\n"], 4),
        ([], None),
    ],
)
def test_where_a_step_ends(pieces, expected):
    assert feed(pieces) == expected


def test_other_delimiters():
    assert feed(["one", " #", "#", "#"], "###") == 3
    assert feed(["one", "\n"], "\n") == 1


@given(st.text(alphabet="ab\n ", max_size=40), st.data())
def test_detection_does_not_depend_on_the_cuts(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert (feed(pieces) is not None) == ("\n\n" in text.lstrip())


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{5}", "5"),
        (r"\boxed{1} then \boxed {7}", "7"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\boxed{3}}", r"\boxed{3}"),
        (r"\boxed{ \boxed{5}", "5"),
        (r"\boxed{a} \boxed{b", "a"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{}", None),
        (r"\boxed", None),
        (r"boxed{5}", None),
        (r"<think>\boxed{1}</think> nothing", None),
        (r"<think>\boxed{1}", None),
        (r"<think>\boxed{1}</think> \boxed{2}", "2"),
        (r"\boxed{2} <think>\boxed{3}", "2"),
        ("", None),
    ],
)
def test_boxed_answer(text, answer):
    assert boxed_answer(text) == answer


@pytest.mark.parametrize(
    "hostile", ["\\boxed{" * 50_000, "\\boxed{" * 20_000 + "}" * 20_000, "{" * 100_000, "\\" * 100_001, "\\boxed" + " " * 100_000]
)
def test_hostile_text_is_read_in_one_pass(hostile):
    boxed_answer(hostile)


def test_empty_means_nothing_visible():
    assert is_empty(" \n\t") and not is_empty(" . ")
