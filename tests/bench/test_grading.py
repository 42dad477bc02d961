"""Right answers in other words are right, and nothing that an answer does can stop the grader."""

from __future__ import annotations

import time

import pytest

from kvrescue.bench.grading import Grader, Verdict, choice_of


@pytest.fixture(scope="module")
def grader():
    with Grader() as made:
        yield made


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ("18", "18", True),
        ("18.0", "18", True),
        ("$18", "18", True),
        (r"\frac{1}{2}", "0.5", True),
        (r"\dfrac{2}{4}", r"\frac{1}{2}", True),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)", True),
        ("1,000", "1000", True),
        ("19", "18", False),
        (r"\frac{1}{3}", "0.5", False),
        (r"x^2+1", "1+x^2", True),
    ],
)
def test_mathematics(grader, answer, gold, right):
    assert grader.grade(answer, gold, "math").right is right


def test_no_answer_is_never_right(grader):
    assert grader.grade(None, "18", "math") == Verdict(False)
    assert grader.grade(None, "A", "choice") == Verdict(False)


def test_what_cannot_be_read_is_counted_apart(grader):
    # Even words are read as a product of letters; what is left is what has no content for mathematics at all.
    assert grader.grade(r"\text{}", "18", "math") == Verdict(False, False)
    assert grader.grade("maybe", "B", "choice") == Verdict(False, False)


@pytest.mark.parametrize(
    ("answer", "letter"),
    [("B", "B"), ("(c)", "C"), (r"\text{D}", "D"), ("A)", "A"), ("B or C", None), ("Because", None), ("", None), (r"\mathrm{a}", "A")],
)
def test_letters(answer, letter):
    assert choice_of(answer) == letter


def test_an_endless_answer_is_cut_off_and_the_next_one_is_graded(monkeypatch):
    with Grader(seconds=3.0) as grader:
        assert grader.grade("2.0", "2", "math").right, "the child has started"
        began = time.monotonic()
        found = grader.grade("9^{9^{9^{9}}}", "1", "math")
        assert not found.right and time.monotonic() - began < 30
        assert grader.grade("2.0", "2", "math").right


def test_it_works_in_a_thread():
    """There Math-Verify's own limits would make everything wrong."""
    from concurrent.futures import ThreadPoolExecutor

    with Grader() as grader, ThreadPoolExecutor(1) as pool:
        assert pool.submit(grader.grade, "0.5", r"\frac{1}{2}", "math").result().right
