"""What judging a step costs when the committed text is long against when it is short: likelihood, and a process reward model."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.common import spread, timed
from kvrescue.models.load import Pair
from kvrescue.models.shapes import KNOWN
from kvrescue.rewards.base import Scorer, Step
from kvrescue.rewards.likelihood import LikelihoodScorer
from kvrescue.rewards.trained.scorer import TrainedPrmScorer
from kvrescue.stop import Stop
from scripts.gpu_check import judge, words

SHORT, LONG, STEP_TOKENS, TARGET = 200, 2000, 48, 1.3
LAYERS = 4
"""Of the process reward model: its width decides how much attention over a long text weighs against the rest, its depth does not."""


def measure(pair: Pair, rounds: int = 9) -> bool:
    good = True
    ids = pair.helper.tokenizer.encode("The keeper wound the clock and wrote the time in his book. " * 400, add_special_tokens=False)
    readers: dict[int, Scorer] = {}
    for length in (SHORT, LONG):
        readers[length] = LikelihoodScorer(pair.helper, "helper")
        readers[length].begin("", ids[:length], Stop())
    for candidates in (1, 4):
        steps = [Step("", tuple(ids[start : start + STEP_TOKENS])) for start in range(2100, 2100 + candidates)]
        good &= compare(f"Likelihood under {pair.helper.info.id}", readers, steps, rounds)
    judges = process_reward_models()
    for candidates in (1, 8):
        texts = [" ".join(f"w{401 + k * STEP_TOKENS + at}" for at in range(STEP_TOKENS)) for k in range(candidates)]
        good &= compare(f"A process reward model as wide as Qwen2.5-Math-1.5B, {LAYERS} layers", judges, [Step(text, ()) for text in texts], rounds)
    return good


def process_reward_models() -> dict[int, Scorer]:
    """One model with random weights, whose cost is that of trained ones, behind a short and a long text."""
    shape = replace(KNOWN["Qwen/Qwen2.5-Math-1.5B-Instruct"], layers=LAYERS, vocab=3_000)
    prm = judge(shape, words(shape.vocab), "cpu", "fp32")
    made: dict[int, Scorer] = {}
    for length in (SHORT, LONG):
        scorer = TrainedPrmScorer(prm, "w1 w2 w3")
        scorer.begin("w1 w2 w3", [], Stop())
        while scorer.reader.cache.seen < length:
            scorer.commit(Step(" ".join(f"w{401 + at}" for at in range(90)), ()))
        made[length] = scorer
    return made


def compare(name: str, scorers: Mapping[int, Scorer], steps: Sequence[Step], rounds: int) -> bool:
    print(f"\n## {name}: scoring {len(steps)} candidate(s) of {STEP_TOKENS} tokens, {rounds} rounds in turns")
    times: dict[int, list[float]] = {length: [] for length in scorers}
    for turn in range(rounds + 1):
        for length, scorer in scorers.items():
            seconds = timed(partial(scorer.score, steps))
            if turn:
                times[length].append(seconds)
    ratios = [far / near for near, far in zip(times[SHORT], times[LONG], strict=True)]
    for length, values in times.items():
        print(f"committed {length:5}: {spread([1000 * value for value in values], ' ms', 0)}")
    print(f"ratio {spread(ratios, digits=3)}, wanted at most {TARGET}")
    return statistics.median(ratios) <= TARGET
