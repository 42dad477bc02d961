"""What N candidates cost against one: the same step, drawn in one batch, in turns."""

from __future__ import annotations

import statistics

from benchmarks.common import STORY, read_bandwidth, spread, timed, weight_bytes
from kvrescue.cache.evicting import EvictingCache
from kvrescue.cache.policies import make_policy
from kvrescue.cache.shape import CacheShape
from kvrescue.config import make_config
from kvrescue.engine.proposer import Candidate, Proposer, prompt_ids
from kvrescue.models.load import Pair
from kvrescue.stop import Stop

NS = (1, 2, 4, 8)
TOKENS, TARGET_AT, TARGET = 48, 4, 1.5


def proposer_of(pair: Pair, n: int) -> Proposer:
    config = make_config(method="kv-rescue", policy="rkv", budget=64, buffer=32, n=n, delimiter="\x00", early_exit=False, max_step_tokens=TOKENS)
    cache = EvictingCache(CacheShape.of(pair.base.model), make_policy(config), config.budget, config.buffer)
    proposer = Proposer("base", pair.base, cache, config, Stop())
    proposer._eos = frozenset()  # the text may end, the measurement must not
    proposer.ingest(prompt_ids(pair.base, STORY, ""))
    return proposer


def step(proposer: Proposer, n: int) -> None:
    candidates = [Candidate("base", index) for index in range(n)]
    stream = proposer.propose(0, candidates, TOKENS)
    while any(candidate.finish is None for candidate in candidates):
        next(stream)


def measure(pair: Pair, rounds: int = 5) -> bool:
    print(f"\n## {TOKENS} tokens by N candidates at once, evicted base (R-KV, B=64), {rounds} rounds in turns")
    proposers = {n: proposer_of(pair, n) for n in NS}
    times: dict[int, list[float]] = {n: [] for n in NS}
    for turn in range(rounds + 1):
        for n, proposer in proposers.items():
            seconds = timed(lambda proposer=proposer, n=n: step(proposer, n))  # type: ignore[misc]
            if turn:
                times[n].append(seconds)
    for n in NS:
        ratios = [many / one for one, many in zip(times[1], times[n], strict=True)]
        rate = n * TOKENS / statistics.median(times[n])
        print(f"N={n}: {spread([1000 * value for value in times[n]], ' ms', 0)}, {rate:7.1f} tokens/s, ratio to N=1 {spread(ratios)}")
    floor = TOKENS * weight_bytes(pair) / read_bandwidth(pair.base.model.device)
    print(f"floor {1000 * floor:.0f} ms for any N, if reading the weights once per token were all there is to do")
    ratio = statistics.median(many / one for one, many in zip(times[1], times[TARGET_AT], strict=True))
    on = pair.base.info.device
    print(f"N={TARGET_AT} against N=1: {ratio:.2f}; wanted at most {TARGET} on a GPU, this is {on}")
    return ratio <= TARGET or not on.startswith("cuda")
