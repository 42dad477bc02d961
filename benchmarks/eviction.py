"""Evicted decoding over length: memory flat, time per token flat, and the share of time spent in evicting."""

from __future__ import annotations

import statistics
import time

from benchmarks.common import STORY
from kvrescue.cache.evicting import EvictingCache
from kvrescue.cache.policies import make_policy
from kvrescue.cache.shape import CacheShape
from kvrescue.config import POLICIES, make_config
from kvrescue.engine.proposer import Candidate, Proposer, prompt_ids
from kvrescue.models.load import Pair
from kvrescue.stop import Stop

BUDGET, BUFFER = 64, 32
FLAT, SHARE = 1.1, 0.05


def decode(pair: Pair, policy: str, tokens: int) -> tuple[list[float], list[int], float, float]:
    """(seconds per token, KV bytes after each token, eviction seconds, decode seconds) of one long candidate."""
    config = make_config(method="evicted", policy=policy, budget=BUDGET, buffer=BUFFER, delimiter="\x00", early_exit=False, max_step_tokens=tokens)
    cache = EvictingCache(CacheShape.of(pair.base.model), make_policy(config), BUDGET, BUFFER)
    proposer = Proposer("base", pair.base, cache, config, Stop())
    proposer._eos = frozenset()  # the text may end, the measurement must not
    proposer.ingest(prompt_ids(pair.base, STORY, ""))
    proposer.evictions.clear()
    seconds, sizes = [], []
    candidate = Candidate("base", 0)
    stream = proposer.propose(0, [candidate], tokens)
    while candidate.finish is None:
        began = time.perf_counter()
        next(stream)
        seconds.append(time.perf_counter() - began)
        resident = [compaction.before for compaction in proposer.evictions]
        sizes.append(max(resident, default=0) * cache.shape.bytes_per_token)
    evicting = sum(compaction.seconds for compaction in proposer.evictions)
    assert max(compaction.before for compaction in proposer.evictions) <= BUDGET + BUFFER
    return seconds, sizes, evicting, sum(seconds)


def measure(pair: Pair, tokens: int = 2048, short: int = 320) -> bool:
    print(f"\n## Evicted decoding, B={BUDGET}, buffer={BUFFER}, R-KV, {tokens} tokens")
    seconds, sizes, evicting, total = decode(pair, "rkv", tokens)
    far = min(2000, tokens - 50)
    early, late = statistics.median(seconds[150:250]), statistics.median(seconds[far - 50 : far + 50])
    print(f"KV bytes of the resident tokens at their peak: token 256 {sizes[255]:,}, token {tokens:,} {sizes[-1]:,}")
    print(f"time per token around 200: {1000 * early:.1f} ms, around {far}: {1000 * late:.1f} ms, ratio {late / early:.3f}, wanted at most {FLAT}")
    print(f"time in eviction: {100 * evicting / total:.2f} % of decoding, wanted at most {100 * SHARE:.0f} %")
    good = late / early <= FLAT and evicting / total <= SHARE and sizes[255] == sizes[-1]
    print(f"\nper policy, {short} tokens: ms per token (median), share of time in eviction")
    for policy in POLICIES:
        seconds, _, evicting, total = decode(pair, policy, short)
        print(f"{policy:14} {1000 * statistics.median(seconds):6.1f} ms   {100 * evicting / total:5.2f} %")
        good &= evicting / total <= SHARE
    return good
