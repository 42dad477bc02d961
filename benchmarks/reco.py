"""What ReCo adds to writing: judging, compaction, questions for the answer, and the penalty on reflection words."""

from __future__ import annotations

import time
from typing import Any

import torch

from benchmarks.common import STORY, spread
from kvrescue import presets
from kvrescue.config import RunConfig, make_config
from kvrescue.engine.run import run
from kvrescue.lab.story import held_out
from kvrescue.models.load import Pair

SHARE = 0.05
PROBLEMS = 12


def settings(pair: Pair) -> RunConfig:
    own = presets.default_settings(pair.name if pair.name in presets.MODEL_SETS else None)
    judge = "estimator" if pair.estimator else "likelihood"
    extra: dict[str, Any] = {"method": "reco", "scorer": judge, "protect_prompt": True, "early_exit": False}
    return make_config(**{**own, **extra})


def penalty_seconds(pair: Pair, rounds: int = 200) -> float:
    """Seconds a token that subtracting the penalty and drawing once more cost."""
    from kvrescue.engine.sampling import sample

    logits = torch.randn(1, pair.base.info.vocab)
    began = time.perf_counter()
    for _ in range(rounds):
        lowered = logits.clone()
        lowered[:, [5, 6]] -= 4.0
        sample(lowered, [0.5], 0.6, 1.0)
    return (time.perf_counter() - began) / rounds


def measure(pair: Pair) -> bool:
    config = settings(pair)
    problems = [held_out(8_000, index).text for index in range(PROBLEMS)] if pair.name == "lab" else [STORY]
    ends: list[Any] = [list(run(problem, config, pair))[-1] for problem in problems]
    tokens = sum(count.generated for end in ends for count in end.totals.values())
    print(f"\n## ReCo beside writing: {len(ends)} problems, {tokens:,} tokens, judged by {config.scorer}")
    total = 0.0
    for name in ("score", "evict", "probe"):
        shares = [getattr(end, f"{name}_seconds") / end.propose_seconds for end in ends]
        total += sum(getattr(end, f"{name}_seconds") for end in ends) / sum(end.propose_seconds for end in ends)
        print(f"{name:8} {spread([100 * share for share in shares], ' %')} of the time spent writing")
    penalty = penalty_seconds(pair) * tokens / sum(end.propose_seconds for end in ends)
    print(f"penalty  {100 * penalty:.2f} % (one more draw a token while it is on)")
    total += penalty
    print(f"together {100 * total:.2f} %, wanted at most {100 * SHARE:.0f} %")
    return total <= SHARE
