"""Evicted against full over length: the same model and text, time per token at several lengths, in turns."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.common import spread, timed
from kvrescue.cache.evicting import EvictingCache
from kvrescue.cache.policies import make_policy
from kvrescue.cache.prefix import PrefixCache
from kvrescue.cache.shape import CacheShape
from kvrescue.config import make_config
from kvrescue.engine.proposer import Candidate, Proposer
from kvrescue.models.load import Pair
from kvrescue.stop import Stop

LENGTHS = (200, 1000, 2000)
TOKENS, ROUNDS = 24, 5


def proposer_at(pair: Pair, method: str, length: int) -> Proposer:
    config = make_config(method=method, policy="rkv", budget=64, buffer=32, delimiter="\x00", early_exit=False, max_step_tokens=TOKENS)
    shape = CacheShape.of(pair.base.model)
    cache: Any = PrefixCache(shape) if method == "full" else EvictingCache(shape, make_policy(config), config.budget, config.buffer)
    proposer = Proposer("base", pair.base, cache, config, Stop())
    proposer._eos = frozenset()  # the text may end, the measurement must not
    words = pair.base.tokenizer.encode("The keeper wound the clock and wrote the time in his book. " * 400, add_special_tokens=False)
    proposer.ingest(words[:length])
    return proposer


def step(proposer: Proposer) -> None:
    candidate = Candidate("base", 0)
    stream = proposer.propose(0, [candidate], TOKENS)
    while candidate.finish is None:
        next(stream)


def measure(pair: Pair) -> bool:
    print(f"\n## Evicted (R-KV, B=64, buffer 32) against full over length: {TOKENS} tokens, {ROUNDS} rounds in turns")
    kv = CacheShape.of(pair.base.model).bytes_per_token
    medians = {}
    for length in LENGTHS:
        proposers = {method: proposer_at(pair, method, length) for method in ("full", "evicted")}
        times: dict[str, list[float]] = {method: [] for method in proposers}
        for turn in range(ROUNDS + 1):
            for method, proposer in proposers.items():
                seconds = timed(lambda proposer=proposer: step(proposer))  # type: ignore[misc]
                if turn:
                    times[method].append(1000 * seconds / TOKENS)
        ratios = [full / evicted for full, evicted in zip(times["full"], times["evicted"], strict=True)]
        medians[length] = statistics.median(times["evicted"])
        told = ", ".join(f"{method} {spread(values, ' ms', 1)}" for method, values in times.items())
        memory = f"{kv * length / 2**20:.1f} MiB against at most {kv * 96 / 2**20:.1f}"
        print(f"{length:5} tokens: {told} a token; full over evicted {spread(ratios)}; KV {memory}")
    growth = medians[LENGTHS[-1]] / medians[LENGTHS[0]]
    print(f"evicted at {LENGTHS[-1]} against {LENGTHS[0]}: {growth:.2f}, wanted at most 1.1")
    return growth <= 1.1
