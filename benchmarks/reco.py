"""What ReCo adds to writing: judging, compaction, questions for the answer, and the penalty on reflection words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from benchmarks.common import spread, timed
from kvrescue import presets
from kvrescue.cache.attention import NAME
from kvrescue.config import RunConfig, make_config
from kvrescue.engine.proposer import prompt_ids
from kvrescue.engine.run import run
from kvrescue.engine.sampling import sample
from kvrescue.lab.story import held_out
from kvrescue.models.load import Pair
from kvrescue.models.shapes import Shape
from kvrescue.reco.distil import MOST_PARAMETERS
from kvrescue.reco.head import Head
from kvrescue.reco.reflection import penalised, reflection_tokens
from scripts.gpu_check import build

SHARE = 0.05
PROBLEMS = 12
TOKENS = 384


def with_reader(pair: Pair) -> Pair:
    """The pair with an estimator of its own, or one whose reader has random weights and the largest size that an estimator may have. Its cost is
    that of a trained one. It rewards every step with 0.95, the dearest case: the penalty is always on, and every second step is followed
    by a question."""
    if pair.estimator:
        return pair
    shape = Shape(layers=8, hidden=320, mlp=960, heads=5, kv_heads=5, vocab=pair.base.info.vocab, head_dim=64, tied=True)
    reader = build(shape, "a reader with random weights", pair.base.tokenizer, "cpu", "fp32")
    assert reader.info.parameters <= MOST_PARAMETERS
    flat = {"w1": torch.zeros(4, 16), "b1": torch.zeros(16), "w2": torch.zeros(16, 1), "b2": torch.tensor([2.944])}
    return replace(pair, helper=reader, estimator=Head(flat, "nobody"))


def settings(pair: Pair) -> RunConfig:
    own = presets.default_settings(pair.name if pair.name in presets.MODEL_SETS else None, "reco")
    extra: dict[str, Any] = {"method": "reco", "scorer": "estimator", "protect_prompt": True, "early_exit": False}
    # Lines as steps, as the paper has them; a tau_p that no answer passes, so that the run goes on and asks as often as it may.
    long = {"max_tokens": TOKENS, "delimiter": "\n", "tau_p": 1.0} if pair.name not in presets.LAB_SETS else {}
    return make_config(**{**own, **extra, **long})


def problems_for(pair: Pair) -> list[str]:
    """Word problems, whose answers are short: what a question costs depends on them."""
    if pair.name in presets.LAB_SETS:
        return [held_out(8_000, index).text for index in range(PROBLEMS)]
    return [example["problem"] for example in presets.load_examples() if example["models"] == "smollm2"]


def penalty_seconds(pair: Pair, config: RunConfig, rounds: int = 200) -> float:
    """Seconds a token that subtracting the penalty and drawing once more cost, on logits of real text."""
    ids = torch.tensor([prompt_ids(pair.base, problems_for(pair)[0], "")])
    model = pair.base.model
    words = list(reflection_tokens(pair.base.tokenizer, config.reflection_words))
    model.set_attn_implementation("sdpa")  # a plain forward, without a cache
    with torch.no_grad():
        rows = model(input_ids=ids, use_cache=False).logits
    model.set_attn_implementation(NAME)

    def once(at: int) -> None:
        logits = rows[:, at % rows.shape[1]]
        lowered = penalised(logits, words, config.beta, config.temperature)
        if lowered is not None:
            sample(lowered, [0.5], config.temperature, config.top_p)  # one more draw than without

    def all_rounds() -> None:
        for at in range(rounds):
            once(at)

    return timed(all_rounds) / rounds


def measure(pair: Pair) -> bool:
    pair = with_reader(pair)
    config = settings(pair)
    problems = problems_for(pair)
    ends: list[Any] = [list(run(problem, config, pair))[-1] for problem in problems]
    tokens = sum(count.generated for end in ends for count in end.totals.values())
    steps = sum(end.totals["base"].steps for end in ends)
    reader = pair.helper.info
    print(f"\n## ReCo beside writing: {len(ends)} problems, {tokens:,} tokens in {steps} steps, read by {reader.id}, {reader.parameters / 1e6:.2g} M")
    total = 0.0
    for name in ("score", "evict", "probe"):
        shares = [getattr(end, f"{name}_seconds") / end.propose_seconds for end in ends]
        total += sum(getattr(end, f"{name}_seconds") for end in ends) / sum(end.propose_seconds for end in ends)
        print(f"{name:8} {spread([100 * share for share in shares], ' %')} of the time spent writing")
    penalty = penalty_seconds(pair, config) * tokens / sum(end.propose_seconds for end in ends)
    print(f"penalty  {100 * penalty:.2f} % (one more draw a token while it is on)")
    total += penalty
    print(f"together {100 * total:.2f} %, wanted at most {100 * SHARE:.0f} %")
    return total <= SHARE
