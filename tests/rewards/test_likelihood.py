"""The likelihood scorer against a plain forward over the whole text, from scratch each time."""

from __future__ import annotations

import math

import pytest
import torch

from kvrescue.rewards.base import Step
from kvrescue.rewards.likelihood import LikelihoodScorer
from kvrescue.rewards.reader import PrefixReader
from kvrescue.stop import Stop, Stopped
from tests.cache.test_evicting import plain_logits, some_ids
from tests.tiny import make_tiny


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3"])
def loaded(request):
    return make_tiny(request.param)


def by_hand(loaded, context: list[int], step: list[int]) -> float:
    log_probs = plain_logits(loaded, context + step).log_softmax(-1)
    terms = [float(log_probs[len(context) - 1 + i, token]) for i, token in enumerate(step)]
    return math.exp(sum(terms) / len(terms))


def begun(loaded, prompt: list[int]) -> LikelihoodScorer:
    scorer = LikelihoodScorer(loaded, "helper")
    scorer.begin("problem", prompt, Stop())
    return scorer


@pytest.mark.parametrize("per_forward", [6, 256])
def test_scores_equal_a_plain_recomputation_over_several_commits(loaded, per_forward):
    context = some_ids(loaded, 20)
    scorer = begun(loaded, context)
    scorer.reader.per_forward = per_forward
    for turn in range(3):
        steps = [some_ids(loaded, length, 10 * turn + length) for length in (1, 5, 13, 30)]
        rewards = scorer.score([Step("", tuple(ids)) for ids in steps])
        for ids, reward in zip(steps, rewards, strict=True):
            assert reward.value == pytest.approx(by_hand(loaded, context, ids), rel=1e-3)
            assert reward.detail["tokens"] == len(ids)
        chosen = steps[turn]
        scorer.commit(Step("", tuple(chosen)))
        context = context + chosen
        assert scorer.reader.cache.seen == len(context)


def test_a_step_that_was_never_scored_can_be_committed(loaded):
    context = some_ids(loaded, 20)
    scorer = begun(loaded, context)
    scorer.score([Step("", (1, 2, 3))])
    scorer.commit(Step("", (9, 8)))
    reward = scorer.score([Step("", (4, 5))])[0]
    assert reward.value == pytest.approx(by_hand(loaded, [*context, 9, 8], [4, 5]), rel=1e-3)


def test_the_prefix_is_not_computed_again(loaded, monkeypatch):
    fed = []
    original = PrefixReader._block

    def spy(self, *args):
        block = original(self, *args)
        fed.append(block.numel())
        return block

    monkeypatch.setattr(PrefixReader, "_block", spy)
    scorer = begun(loaded, some_ids(loaded, 200))
    scorer.score([Step("", tuple(range(10))), Step("", tuple(range(10)))])
    assert sum(fed) == 20


def test_stop_is_felt_while_scoring(loaded):
    stop = Stop()
    scorer = LikelihoodScorer(loaded, "helper")
    scorer.begin("problem", some_ids(loaded, 10), stop)
    stop.set()
    with pytest.raises(Stopped):
        scorer.score([Step("", (1, 2))])


def test_scores_lie_between_zero_and_one(loaded):
    scorer = begun(loaded, some_ids(loaded, 10))
    assert all(0 < reward.value < 1 for reward in scorer.score([Step("", (i, i + 1)) for i in range(5)]))


def test_no_finite_number_is_none(loaded, monkeypatch):
    scorer = begun(loaded, some_ids(loaded, 10))
    scorer.reader._last = torch.full_like(scorer.reader._last, float("nan"))
    assert scorer.score([Step("", (1, 2))])[0].value is None
