from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvrescue.config import make_config
from kvrescue.guards import CandidateGuards, Verdict, rejudge
from kvrescue.guards.compression import CompressionGuard, gzip_ratio, tail_bytes
from kvrescue.guards.entropy import EntropyGuard
from kvrescue.guards.logits import token_entropy

LOOP = "So the answer is 4. "


def test_token_entropy_in_nats():
    probabilities = torch.tensor([[0.7, 0.2, 0.1], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(token_entropy(probabilities.log()), torch.tensor([0.801819, math.log(3)]), rtol=0, atol=1e-6)
    assert token_entropy(torch.tensor([[0.0, -math.inf, -math.inf]])).item() == 0
    assert token_entropy(torch.zeros(1, 151_936, dtype=torch.bfloat16)).item() == pytest.approx(11.93, abs=0.01)


def test_entropy_guard_waits_for_its_window_and_reads_only_that():
    guard = EntropyGuard(4, 2.5)
    assert [guard.update(value) for value in (9, 9, 9)] == [None] * 3
    assert guard.update(9) == Verdict("entropy", 4, 9.0, 2.5)
    calm = EntropyGuard(4, 2.5)
    assert [calm.update(value) for value in (2.5, 2.5, 2.5, 2.5)] == [None] * 4, "only above the threshold"
    assert calm.update(2.6).position == 5
    for value in (0, 0, 0):
        assert calm.update(value) is None


@pytest.mark.parametrize(("size", "expected"), [(64, 0.672), (128, 0.336), (256, 0.168), (512, 0.088), (1024, 0.048)])
def test_gzip_ratio_of_a_loop(size, expected):
    data = (LOOP * 60).encode()[:size]
    assert gzip_ratio(data) == pytest.approx(expected, abs=0.0005)


def test_compression_guard_judges_full_windows_every_stride():
    guard = CompressionGuard(256, 0.30, 16)
    text, verdicts = "", []
    for _ in range(64):
        text += LOOP
        verdicts.append(guard.update(text))
    assert [position for position, _ in guard.ratios] == [16, 32, 48, 64]
    tripped = [verdict for verdict in verdicts if verdict]
    assert tripped[0] == Verdict("gzip", 16, pytest.approx(0.17, abs=0.02), 0.30)
    short = CompressionGuard(256, 0.30, 1)
    assert short.update("x" * 255) is None and short.ratios == []
    assert short.update("x" * 256).value < 0.2


def test_the_window_is_bytes_and_never_cuts_a_character():
    assert tail_bytes("한" * 100, 256) == ("한" * 85).encode()
    assert tail_bytes("한" * 85, 256) is None
    assert tail_bytes("a" * 300, 256) == b"a" * 256
    assert CompressionGuard(256, 0.3, 1).update("\ud800" * 300) is not None, "a lone surrogate is text too"


def test_korean_and_emoji_are_not_degenerate():
    text = "사과 네 바구니를 샀고, 바구니마다 열두 개가 들어 있었다. 이웃에게 아홉 개를 주고 세 개를 먹었으니 남은 것은 서른여섯 개이다. 🍎 확인하자."
    assert len(text.encode()) >= 190
    assert CompressionGuard(190, 0.3, 1).update(text) is None


def test_entropy_comes_first_and_each_guard_reports_once():
    config = make_config(ent_window=2, tau_ent=1.0, cmp_window=32, cmp_stride=1, tau_cmp=0.9)
    both = CandidateGuards(config)
    first = both.update(5, "ab")
    second = both.update(5, "a" * 40)
    assert first is None and second.guard == "entropy"
    assert both.update(5, "a" * 40).guard == "gzip"
    assert both.update(5, "a" * 40) is None
    assert [position for position, _ in both.drain_ratios()] == [2, 3, 4] and both.drain_ratios() == []


@given(
    st.lists(st.tuples(st.floats(0, 8), st.sampled_from(["a", "bc ", "same same ", "ê ", "\n"])), min_size=1, max_size=80),
    st.floats(0.1, 7),
    st.floats(0.2, 1.5),
    st.integers(1, 20),
)
@settings(max_examples=80)
def test_recorded_signals_give_the_same_verdict_as_live(tokens, tau_ent, tau_cmp, window):
    config = make_config(ent_window=window, tau_ent=tau_ent, cmp_window=32, cmp_stride=4, tau_cmp=tau_cmp)
    guards, text, live = CandidateGuards(config), "", None
    for entropy, piece in tokens:
        text += piece
        live = live or guards.update(entropy, text)
    recorded = rejudge(
        [entropy for entropy, _ in tokens],
        _ratios(tokens, config),
        ent_window=window,
        tau_ent=tau_ent,
        tau_cmp=tau_cmp,
    )
    assert recorded == live


def _ratios(tokens, config):
    """All checks, as a run without early exit would record them."""
    guard, text = CompressionGuard(config.cmp_window, config.tau_cmp, config.cmp_stride), ""
    for _, piece in tokens:
        text += piece
        guard.update(text)
    return guard.ratios
