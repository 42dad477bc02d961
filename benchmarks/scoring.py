"""What scoring a step costs when the committed text is long against when it is short (likelihood, prefix-cached)."""

from __future__ import annotations

import statistics
from functools import partial

from benchmarks.common import spread, timed
from kvrescue.models.load import Pair
from kvrescue.rewards.base import Step
from kvrescue.rewards.likelihood import LikelihoodScorer
from kvrescue.stop import Stop

SHORT, LONG, STEP_TOKENS, TARGET = 200, 1500, 48, 1.3


def measure(pair: Pair, rounds: int = 9) -> bool:
    words = pair.helper.tokenizer.encode("The keeper wound the clock and wrote the time in his book. " * 400, add_special_tokens=False)
    scorers = {}
    for length in (SHORT, LONG):
        scorers[length] = LikelihoodScorer(pair.helper, "helper")
        scorers[length].begin("", words[:length], Stop())
    good = True
    for candidates in (1, 4):
        print(f"\n## Scoring {candidates} candidate(s) of {STEP_TOKENS} tokens, {rounds} rounds in turns")
        steps = [Step("", tuple(words[start : start + STEP_TOKENS])) for start in range(2000, 2000 + candidates)]
        times: dict[int, list[float]] = {SHORT: [], LONG: []}
        for turn in range(rounds + 1):
            for length, scorer in scorers.items():
                seconds = timed(partial(scorer.score, steps))
                if turn:
                    times[length].append(seconds)
        ratios = [far / near for near, far in zip(times[SHORT], times[LONG], strict=True)]
        for length, values in times.items():
            print(f"committed {length:5}: {spread([1000 * value for value in values], ' ms', 0)}")
        print(f"ratio {spread(ratios, digits=3)}, wanted at most {TARGET}")
        good &= statistics.median(ratios) <= TARGET
    return good
