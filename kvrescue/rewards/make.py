"""Scorer by name."""

from __future__ import annotations

from collections.abc import Sequence

from kvrescue.config import ConfigError, RunConfig
from kvrescue.lab.grade import Grade, Ledger, read_story
from kvrescue.models.load import Loaded, Pair, Prm, TrainedPrm
from kvrescue.reco.estimator import EstimatorScorer
from kvrescue.rewards.base import Reward, Scorer, Step
from kvrescue.rewards.likelihood import LikelihoodScorer
from kvrescue.rewards.prm import PrmScorer
from kvrescue.rewards.rule import rule_score
from kvrescue.rewards.trained.scorer import TrainedPrmScorer
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


def _worth(grade: Grade) -> float:
    """1 for a right step, a little less when it only looks back or adds words. A wrong one that is at least a step lets the run go on; text
    that is none derails it."""
    if grade.right:
        return 0.9 if grade.kind in ("check", "wrap-1") else 1.0
    return 0.0 if grade.error == "form" else 0.1


class CheckerScorer:
    """The lab's own checker: a perfect judge, which exists only where problems are made by a grammar."""

    name = "checker"
    label = "the lab's own checker (a perfect judge, no model)"

    def begin(self, problem: str, prompt: Sequence[int], stop: Stop) -> None:
        self._ledger = Ledger(read_story(problem))

    def score(self, steps: Sequence[Step]) -> list[Reward]:
        grades = [self._ledger.grade(step.text) for step in steps]
        return [Reward(_worth(grade), {"error": grade.error, "kind": grade.kind}) for grade in grades]

    def commit(self, step: Step) -> None:
        self._ledger.commit(step.text)


def scoring_model(config: RunConfig, pair: Pair) -> Loaded | None:
    """Whose weights and vocabulary the scorer reads with; None when it is no model, or one that takes steps as text."""
    if config.scorer == "likelihood":
        return pair.helper if config.scorer_model == "helper" else pair.base
    if config.scorer == "estimator":
        return pair.helper
    return pair.prm.loaded if config.scorer == "prm" and isinstance(pair.prm, Prm) else None


def make_scorer(config: RunConfig, pair: Pair, problem: str) -> Scorer | None:
    """ConfigError when this judge can't judge with these models, or this problem."""
    if config.scorer == "none":
        return None
    if config.scorer == "rule":
        return RuleScorer()
    if config.scorer == "checker":
        read_story(problem)
        return CheckerScorer()
    if config.scorer == "prm":
        if pair.prm is None:
            raise ConfigError("scorer", "scorer is 'prm', but these models come without a process reward model; use 'likelihood' or 'rule'.")
        return TrainedPrmScorer(pair.prm, problem) if isinstance(pair.prm, TrainedPrm) else PrmScorer(pair.prm)
    if config.scorer == "estimator":
        if pair.estimator is None:
            raise ConfigError("scorer", "scorer is 'estimator', but none was trained for these models; see python -m kvrescue train-estimator -h.")
        return EstimatorScorer(pair.helper, pair.estimator)
    return LikelihoodScorer(pair.helper if config.scorer_model == "helper" else pair.base, config.scorer_model)
