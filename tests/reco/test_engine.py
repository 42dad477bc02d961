"""ReCo in the loop, on tiny random models: what each part may change and what it must leave alone."""

from __future__ import annotations

import pytest
import torch

from kvrescue import events
from kvrescue.config import make_config
from kvrescue.engine.proposer import Proposer
from kvrescue.engine.run import run
from kvrescue.models.load import Pair
from kvrescue.rewards.base import Reward
from kvrescue.stop import Stop
from tests.engine.test_run import PROBLEM, SMALL, check_stream, collect, of, pair, untimed

RECO = {"method": "reco", "reco_every": 8, "retention_ratio": 0.4, "delta": 0.2, "window": 4, "closing_prompt": "So \\boxed{", "seed": 3}
RECO |= {"max_tokens": 90, "max_step_tokens": 10}


@pytest.fixture(scope="module")
def two() -> Pair:
    return pair()


class Scripted:
    """A judge that gives these rewards to the steps, one after another."""

    name, label = "scripted", "a scripted judge"

    def __init__(self, *values: float) -> None:
        self.values, self.step = values, 0

    def begin(self, problem, prompt, stop) -> None:
        pass

    def score(self, steps):
        return [Reward(self.values[self.step % len(self.values)]) for _ in steps]

    def commit(self, step) -> None:
        self.step += 1


def judged(models: Pair, *rewards: float, **settings) -> list[events.AnyEvent]:
    config = make_config(**{**SMALL, **RECO, "scorer": "rule", **settings})
    return list(run(PROBLEM, config, models, Stop(), Scripted(*rewards)))


def test_switched_off_it_is_the_plain_method_token_by_token(two):
    off = {"delta": 0.0, "beta": 0.0, "tau_p": 0.0}
    plain, reco = (untimed(collect(two, **{**RECO, **off, "method": name, "scorer": "rule"})) for name in ("reco-uniform", "reco"))
    for one, other in zip(plain, reco, strict=True):
        for row in (one, other):
            for name in ("config", "band", "assumptions"):
                row.pop(name, None)
        assert one == other


def test_everything_kept_and_nothing_else_is_full_kv(two):
    off = {"retention_ratio": 1.0, "delta": 0.0, "beta": 0.0, "tau_p": 0.0}
    full, reco = (of(events.Commit, collect(two, **{**RECO, **off, "method": name, "scorer": "rule"})) for name in ("full", "reco"))
    assert [event.text for event in full] == [event.text for event in reco]


def test_every_decision_about_memory_is_told_and_kept(two):
    stream = judged(two, 0.2, 0.9, 0.5, tau_p=0.0)
    check_stream(stream)
    decisions = of(events.Retain, stream)
    assert len(decisions) > 3 and {one.reason for one in decisions} >= {"reward"}
    for one in decisions:
        assert 0.2 - 1e-9 <= one.asked <= 0.6 + 1e-9
        assert one.after == min(one.before, one.target)
    control = [event for event in of(events.Evict, stream) if event.during == "control"]
    assert [event.after for event in control] == [one.after for one in decisions if one.after < one.before]
    assert {event.during for event in of(events.Evict, stream)} == {"control"}, "nothing is dropped without a decision"


def test_the_penalty_follows_the_reward_of_the_step_before(two):
    stream = judged(two, 0.2, 0.9, 0.5, tau_p=0.0, beta=6.0)
    begun = of(events.StepBegin, stream)[:4]
    assert [(one.penalty, one.band) for one in begun] == [(0.0, None), (0.0, "low"), (6.0, "high"), (3.0, "middle")]


def test_suppressed_words_are_marked_where_the_penalty_changed_the_token(two):
    words = ", ".join("abcdefghijklmnopqrstuvwxyz")
    free, held = (judged(two, 0.9, tau_p=0.0, beta=beta, reflection_words=words) for beta in (0.0, 50.0))
    marks = [mark for event in of(events.Tokens, held) for row in event.rows for mark in row.suppressed]
    assert marks and held[-1].suppressed == len(marks) and free[-1].suppressed == 0
    assert all(before in held[0].reflection.values() and before != after for _, before, after in marks)
    assert not free[0].reflection


def proposer(two: Pair, method: str = "full") -> Proposer:
    from kvrescue.engine.run import _Run

    one = _Run(PROBLEM, make_config(**{**SMALL, **RECO, "method": method, "scorer": "none"}), two, Stop()).memory
    one.ingest([5, 6, 7, 8, 9, 10, 11, 12] * 5)
    return one


@pytest.mark.parametrize("method", ["full", "evicted", "reco-uniform"])
def test_a_probe_leaves_everything_bit_identical(two, method):
    one = proposer(two, method)
    before, evicted = one.next_logits.clone(), list(one.evictions)
    held = one.cache.held().tolist()
    probed = one.probe(list(range(20, 40)), 6, 1.1)
    assert probed.written <= 6 and len(probed.candidate.ids) == 20 + probed.written == len(probed.candidate.entropies)
    assert torch.equal(one.next_logits, before) and one.evictions == evicted and one.cache.held().tolist() == held
    again = proposer(two, method)
    for asked in (one, again):
        asked.ingest([3, 4, 5])
    assert torch.equal(one.next_logits, again.next_logits)


def test_an_adopted_probe_is_as_if_its_tokens_had_been_read(two):
    one, other = proposer(two), proposer(two)
    candidate = one.probe(list(range(20, 30)), 5, 1.1).candidate
    one.adopt(candidate)
    other.ingest(candidate.ids)
    torch.testing.assert_close(one.next_logits, other.next_logits, atol=1e-4, rtol=1e-4)


def test_rejected_probes_change_nothing_but_their_own_count(two):
    never, asked = judged(two, 0.9, tau_p=0.0, beta=0.0), judged(two, 0.9, tau_p=1.0, beta=0.0)
    probes = of(events.Probe, asked)
    assert probes and not any(one.accepted for one in probes) and asked[-1].probes == len(probes) <= 10
    assert asked[-1].probe_tokens == sum(one.tokens for one in probes) > 0
    kept = [[(event.text, event.tokens) for event in of(events.Commit, stream)] for stream in (never, asked)]
    assert kept[0] == kept[1]
    check_stream(asked)


def test_an_accepted_probe_ends_the_run_with_its_answer(two, monkeypatch):
    monkeypatch.setattr("kvrescue.engine.control.accepted", lambda answer, ppl, tau: True)
    stream = judged(two, 0.9, tau_p=1.1, method="reco+rescue")
    check_stream(stream)
    assert stream[-1].reason == "early_exit"
    last = of(events.Commit, stream)[-1]
    assert last.ended == "probe" and last.text == of(events.Probe, stream)[-1].text and of(events.Probe, stream)[-1].accepted
    assert len(of(events.Probe, stream)) == 1 and last.step == 2
    assert {event.source for event in of(events.Candidate, stream)} == {"base", "helper"}
