"""ReCo's formulas, with the golden numbers of the design, and their bounds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvrescue.config import ConfigError, make_config
from kvrescue.lab.export import make_tokenizer
from kvrescue.reco.controller import Controller
from kvrescue.reco.early_exit import ExitWatch, accepted, answer_pieces, closing_text, hopeless, perplexity
from kvrescue.reco.reflection import band_of, penalty_of, reflection_tokens
from kvrescue.reco.retention import asked_ratio, tokens_to_keep

rewards = st.lists(st.floats(0, 1), min_size=1, max_size=40)


def test_retention_by_hand():
    asked = [asked_ratio([0.3, 0.5, 0.9][: k + 1], 0.25, 0.10) for k in range(3)]
    assert asked == pytest.approx([0.25, 0.20, 0.194444], abs=1e-6)


@given(rewards, st.floats(0.11, 1), st.floats(0, 0.1))
def test_retention_stays_within_delta(values, ratio, delta):
    asked = asked_ratio(values, ratio, delta)
    assert ratio - delta <= asked <= min(1.0, ratio + delta) or asked == ratio


@given(st.floats(0, 1), st.integers(1, 30))
def test_a_constant_reward_gives_exactly_lambda(value, count):
    assert asked_ratio([value] * count, 0.25, 0.1) == 0.25


@given(st.floats(0.01, 1), st.integers(1, 5000), st.integers(2, 64))
def test_tokens_to_keep(asked, length, least):
    kept = tokens_to_keep(asked, length, least)
    assert kept <= length and kept >= min(length, least) and kept >= min(length, math.floor(asked * length))


@pytest.mark.parametrize(
    ("asked", "length", "least", "kept"), [(0.25, 400, 9, 100), (0.25, 401, 9, 101), (0.25, 20, 9, 9), (0.25, 5, 9, 5), (1.0, 7, 2, 7)]
)
def test_tokens_to_keep_by_hand(asked, length, least, kept):
    assert tokens_to_keep(asked, length, least) == kept


@pytest.mark.parametrize(
    ("reward", "band", "penalty"),
    [(0.0, "low", 0.0), (0.4, "low", 0.0), (0.41, "middle", 2.0), (0.79, "middle", 2.0), (0.8, "high", 4.0), (1.0, "high", 4.0)],
)
def test_bands(reward, band, penalty):
    assert band_of(reward, 0.4, 0.8) == band and penalty_of(band, 4.0) == penalty


def test_two_high_steps_in_a_row_ask_and_a_rejected_question_waits_for_two_new_ones():
    watch = ExitWatch(tau_h=0.8, most_probes=2)
    seen = [watch.see(value) for value in (0.9, 0.7, 0.8, 0.9, 0.9, 0.9, None, 0.9, 0.9, 0.9, 0.9)]
    assert seen == [False, False, False, True, False, True, False, False, False, False, False]


@pytest.mark.parametrize(
    ("answer", "ppl", "verdict"),
    [("42", 1.03, True), ("42", 1.1, True), ("42", 1.31, False), ("", 1.0, False), ("  ", 1.0, False), ("42", None, False), ("42", math.nan, False)],
)
def test_truth_table_of_early_exit(answer, ppl, verdict):
    assert accepted(answer, ppl, 1.1) is verdict


def test_perplexity_by_hand():
    assert perplexity([]) is None
    assert perplexity([math.log(0.5), math.log(0.5)]) == pytest.approx(2.0)
    assert perplexity([-0.0953]) == pytest.approx(1.09999, abs=1e-4)


def test_an_answer_is_given_up_only_when_nothing_can_save_it():
    limit = 20 * math.log(1.1)  # 1.906: what twenty tokens may lose together
    assert not hopeless([-9.0] * 2, 20, 1.1)
    assert hopeless([-limit / 3 - 0.001] * 3, 20, 1.1) and not hopeless([-limit / 3 + 0.001] * 3, 20, 1.1)
    assert not accepted("1", perplexity([-limit / 6 - 0.001] * 6 + [0.0] * 14), 1.1)


@pytest.mark.parametrize(
    ("pieces", "count"),
    [
        ([" 42", " }"], 1),
        (["4", "2", "}."], 2),
        (["42}"], 1),
        (["}"], 0),
        ([], None),
        (["4"], None),
        (["\\frac{", "1", "}", "{2}", "}"], 4),
        (["{}", " }"], 1),
    ],
)
def test_only_answer_tokens_are_counted(pieces, count):
    assert answer_pieces(pieces) == count


def test_the_think_block_is_closed_only_if_it_is_open():
    prompt = "Done.\n</think>\n\n\\boxed{"
    assert closing_text(prompt, "<think>\nhm") == "\n\n" + prompt
    assert closing_text(prompt, "<think>hm</think>so\n\n") == "Done.\n\n\\boxed{"
    assert closing_text(prompt, "plain\n\n") == "Done.\n\n\\boxed{"


def test_reflection_words_of_the_lab():
    tokenizer = make_tokenizer()
    found = reflection_tokens(tokenizer, "Wait, Hmm, Alternatively")
    assert sorted(found.values()) == ["Hmm", "Wait"]
    assert reflection_tokens(tokenizer, "") == {}


def test_decisions_wait_until_enough_was_added():
    control = Controller(make_config(method="reco", scorer="rule", reco_every=50, retention_ratio=0.5, delta=0.2))
    assert control.after_step(0.9, 40, 40, 40).retention is None
    first = control.after_step(0.9, 60, 60, 60).retention
    assert (first.asked, first.target, first.reason) == (0.5, 30, "flat")
    later = control.after_step(0.3, 120, 90, 60).retention
    assert later.reason == "reward" and later.asked > 0.5 and later.length == 120
    resident = Controller(make_config(method="reco", scorer="rule", reco_every=50, ratio_of="resident"))
    assert resident.after_step(0.5, 400, 100, 60).retention.length == 100


def test_a_fixed_share_neither_penalises_nor_asks():
    control = Controller(make_config(method="reco-uniform", reco_every=50), uniform=True)
    for _ in range(5):
        directive = control.after_step(0.95, 100, 100, 50)
        assert (directive.penalty, directive.probe, directive.retention.asked, directive.retention.reason) == (0.0, False, 0.25, "uniform")


@pytest.mark.parametrize(
    ("settings", "field", "sentence"),
    [
        ({"tau_l": 0.9}, "tau_l", "tau_l is 0.9; it must not be above tau_h (0.8)."),
        ({"delta": 0.25}, "delta", "delta is 0.25; it must be smaller than retention_ratio (0.25)."),
        ({"reco_every": 4}, "reco_every", "reco_every is 4; it must be at least the window (8 tokens)."),
        ({"tau_p": 0.9}, "tau_p", "tau_p is 0.9; a perplexity is at least 1, and 0 switches early exit off."),
        ({"closing_prompt": "The end."}, "closing_prompt", "closing_prompt must end with \\boxed{ so that the answer follows."),
        (
            {"scorer": "none"},
            "scorer",
            "scorer is 'none'; method 'reco' lives on rewards and needs one of 'prm', 'estimator', 'likelihood', 'rule', 'checker'.",
        ),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(settings, field, sentence):
    with pytest.raises(ConfigError) as caught:
        make_config(**{"method": "reco", **settings})
    assert (caught.value.field, str(caught.value)) == (field, sentence)
    if field != "scorer":
        make_config(**{"method": "kv-rescue", **settings})  # other methods do not care
