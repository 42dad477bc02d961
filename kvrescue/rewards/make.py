"""Scorer by name."""

from __future__ import annotations

from collections.abc import Sequence

from kvrescue.config import RunConfig
from kvrescue.models.load import Loaded, Pair
from kvrescue.rewards.base import Reward, Scorer, Step
from kvrescue.rewards.likelihood import LikelihoodScorer
from kvrescue.rewards.rule import rule_score
from kvrescue.stop import Stop


class RuleScorer:
    """Checks what a step claims, without any model (rule.py)."""

    name = "rule"
    label = "rules: arithmetic claims, boxed answer, repetition (a stand-in, not a trained PRM)"

    def begin(self, problem: str, prompt: Sequence[int], stop: Stop) -> None:
        self._problem, self._committed = problem, list[str]()

    def score(self, steps: Sequence[Step]) -> list[Reward]:
        return [Reward(*rule_score(self._problem, self._committed, step.text)) for step in steps]

    def commit(self, step: Step) -> None:
        self._committed.append(step.text)


def scoring_model(config: RunConfig, pair: Pair) -> Loaded:
    """Whose vocabulary the scorer reads."""
    return pair.helper if config.scorer_model == "helper" else pair.base


def make_scorer(config: RunConfig, pair: Pair) -> Scorer | None:
    if config.scorer == "none":
        return None
    if config.scorer == "rule":
        return RuleScorer()
    return LikelihoodScorer(scoring_model(config, pair), config.scorer_model)
