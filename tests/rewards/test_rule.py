from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvrescue.rewards.rule import claims, rule_score


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("so 34 + 8 = 42 .", [True]),
        ("so 34 + 8 = 43", [False]),
        ("4 x 12 = 48 apples, then 48 - 9 = 32 apples left", [True, False]),
        ("She earns $12 * 5 hours = $60.", [True]),
        ("1,200 / 4 = 300", [True]),
        ("10 / 3 = 3.33", [True]),
        ("10 / 3 = 3.34", [False]),
        ("$3 \\times 4 = 12$ and \\(2 \\cdot 5 = 11\\)", [True, False]),
        ("\\frac{1}{2} + \\frac{1}{4} = 0.75", [True]),
        ("2 ^ 10 = 1024", [True]),
        ("2 + 3 * 4 = 14", [True]),
        ("(2 + 3) * 4 = 20", [True]),
        ("5 + 5 = 10 = 2 * 5", [True, True]),
        ("−3 + 5 = 2", [True]),
        ("4 baskets * 12 apples per basket = 48 apples", [True]),
        ("(so 3 + 4 = 7) and (2 + 2 = 5)", [True, False]),
        ("x = 5", []),
        ("the answer is 42", []),
        ("1 / 0 = 5", []),
        ("9 ^ 99999 = 1", []),
        ("", []),
    ],
)
def test_claims(text, expected):
    assert [right for _, right in claims(text)] == expected


def test_scores_order_right_neutral_wrong():
    right, _ = rule_score("", [], "so 3 + 4 = 7")
    neutral, detail = rule_score("", [], "Let us think.")
    half, _ = rule_score("", [], "3 + 4 = 7 and 2 + 2 = 5")
    wrong, found = rule_score("", [], "so 3 + 4 = 8")
    assert right == pytest.approx(0.9) and neutral == 0.5 and half == pytest.approx(0.2) and wrong == pytest.approx(0.1)
    assert detail["claims"] == 0 and found["wrong"] == ["3 + 4 = 8"]


def test_boxes_and_repetition():
    assert rule_score("", [], "It is \\boxed{7}.")[0] == pytest.approx(0.6)
    assert rule_score("", [], "It is \\boxed{7")[0] == 0.15
    assert rule_score("", ["So we  add."], "so we add.")[1]["repeats"]
    assert rule_score("", [], "the sum of the sum of the sum of the sum of the sum of the")[1]["loops"]


@given(st.text(max_size=400))
@settings(max_examples=150)
def test_any_text_gets_a_score(text):
    score, detail = rule_score(text, [text], text)
    assert 0 <= score <= 1 and detail["claims"] >= len(detail["wrong"])


@pytest.mark.parametrize("hostile", ["1 + " * 4_000, "(" * 8_000 + "= 1", "= " * 4_000, "\\frac{" * 3_000, "9" * 8_000, "1^20" * 2_000 + "=1"])
def test_hostile_text_is_harmless(hostile):
    assert 0 <= rule_score("", [], hostile)[0] <= 1
