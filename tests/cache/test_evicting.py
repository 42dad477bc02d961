"""Invariants of the evicting cache, for every policy and model family."""

from __future__ import annotations

import pytest
import torch

from kvrescue.cache.evicting import EvictingCache
from kvrescue.cache.policies import make_policy
from kvrescue.cache.shape import CacheShape
from kvrescue.config import POLICIES, make_config
from kvrescue.engine.proposer import Proposer, forward
from kvrescue.models.load import Loaded
from kvrescue.stop import Stop
from tests.tiny import make_tiny

KINDS = ["llama", "qwen2", "qwen3"]
torch.manual_seed(0)


def proposer(loaded: Loaded, policy: str, budget: int, buffer: int, **settings) -> Proposer:
    config = make_config(method="evicted", policy=policy, budget=budget, buffer=buffer, window=4, **settings)
    cache = EvictingCache(CacheShape.of(loaded.model), make_policy(config), budget, buffer)
    return Proposer("base", loaded, cache, config, Stop())


def some_ids(loaded: Loaded, count: int, seed: int = 0) -> list[int]:
    """Distinct as long as they last: repeated tokens have key norms that differ by rounding only, so a policy may pick either."""
    generator = torch.Generator().manual_seed(seed)
    return [int(token) for _ in range(count // 250 + 1) for token in torch.randperm(250, generator=generator)][:count]


def plain_logits(loaded: Loaded, ids: list[int]) -> torch.Tensor:
    """The model without any of our code: transformers' eager attention, no cache."""
    loaded.model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            return loaded.model(torch.tensor([ids]), use_cache=False).logits[0]
    finally:
        loaded.model.set_attn_implementation("kvrescue")


@pytest.fixture(scope="module", params=KINDS)
def loaded(request) -> Loaded:
    return make_tiny(request.param)


@pytest.mark.parametrize("policy", POLICIES)
def test_budget_of_the_whole_length_equals_the_plain_model(loaded, policy):
    ids = some_ids(loaded, 40)
    base = proposer(loaded, policy, budget=64, buffer=8)
    plain = plain_logits(loaded, ids)
    base.ingest(ids[:25])
    torch.testing.assert_close(base.next_logits[0], plain[24], rtol=1e-4, atol=1e-4)
    for i, token in enumerate(ids[25:], start=25):
        base.ingest([token])
        torch.testing.assert_close(base.next_logits[0], plain[i], rtol=1e-4, atol=1e-4)
    assert base.evictions == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("first", [3, 17])
def test_chunk_equals_single_tokens_after_eviction(loaded, policy, first):
    ids = some_ids(loaded, 61)
    chunked, single = (proposer(loaded, policy, budget=16, buffer=6) for _ in range(2))
    chunked.ingest(ids[:first])
    chunked.ingest(ids[first:])
    for token in ids:
        single.ingest([token])
    assert len(chunked.evictions) == len(single.evictions) > 3
    for layer in range(chunked.cache.shape.layers):
        assert torch.equal(chunked.cache.kept_positions(layer), single.cache.kept_positions(layer))
    torch.testing.assert_close(chunked.next_logits, single.next_logits, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("policy", POLICIES)
def test_resident_tokens_and_storage_stay_bounded(loaded, policy):
    base = proposer(loaded, policy, budget=16, buffer=6)
    storage = [tensor.shape for block in base.cache.blocks for tensor in (block.keys, block.values, block.positions)]
    for token in some_ids(loaded, 120):
        base.ingest([token])
        assert base.cache.resident <= 16 + 6
        assert base.cache.bytes == base.cache.shape.bytes_per_token * base.cache.resident
    assert base.cache.peak == 22
    assert [tensor.shape for block in base.cache.blocks for tensor in (block.keys, block.values, block.positions)] == storage
    assert {(c.before, c.after) for c in base.evictions} == {(22, 16)}


@pytest.mark.parametrize("policy", POLICIES)
def test_kept_keys_are_the_keys_of_their_positions(loaded, policy):
    """Layer 0 depends on the token and its position only, so every kept key can be checked against a full forward."""
    ids = some_ids(loaded, 50)
    base, full = proposer(loaded, policy, budget=16, buffer=6), proposer(loaded, policy, budget=64, buffer=8)
    base.ingest(ids)
    full.ingest(ids)
    kept = base.cache.kept_positions(0)[0]
    block, everything = base.cache.blocks[0], full.cache.blocks[0]
    for head in range(kept.shape[0]):
        assert torch.equal(kept[head], kept[head].sort().values)
        torch.testing.assert_close(block.keys[0, 0, head, : base.cache.resident], everything.keys[0, 0, head, kept[head]])
        torch.testing.assert_close(block.values[0, 0, head, : base.cache.resident], everything.values[0, 0, head, kept[head]])


@pytest.mark.parametrize("policy", POLICIES)
def test_batch_row_equals_the_same_row_alone(loaded, policy):
    base = proposer(loaded, policy, budget=16, buffer=6)
    base.ingest(some_ids(loaded, 30))
    rows = [some_ids(loaded, 25, seed) for seed in (1, 2, 3)]
    together = base.cache.fork(3)
    for column in zip(*rows, strict=True):
        batch_logits = base._forward(together, torch.tensor(column).unsqueeze(1))
    for row, ids in enumerate(rows):
        alone = base.cache.fork(1)
        for token in ids:
            logits = base._forward(alone, torch.tensor([[token]]))
        torch.testing.assert_close(logits[0], batch_logits[row], rtol=1e-3, atol=1e-4)
        picked = together.select([row])
        for layer in range(alone.shape.layers):
            assert torch.equal(alone.kept_positions(layer), picked.kept_positions(layer))


def test_fork_leaves_the_committed_cache_untouched(loaded):
    base = proposer(loaded, "rkv", budget=16, buffer=6)
    base.ingest(some_ids(loaded, 30))
    before = [tensor.clone() for block in base.cache.blocks for tensor in vars(block).values()]
    seen, resident = base.cache.seen, base.cache.resident
    fork = base.cache.fork(2)
    for _ in range(15):
        base._forward(fork, torch.tensor([[1], [2]]))
    assert (base.cache.seen, base.cache.resident) == (seen, resident)
    for old, new in zip(before, [tensor for block in base.cache.blocks for tensor in vars(block).values()], strict=True):
        assert torch.equal(old, new)


def test_prompt_is_evictable_unless_protected(loaded):
    ids = some_ids(loaded, 80)
    config = make_config(method="evicted", policy="knorm", budget=32, buffer=4, window=4)
    lost, held = (EvictingCache(CacheShape.of(loaded.model), make_policy(config), 32, 4, protected=protected) for protected in (0, 20))
    for cache in (lost, held):
        Proposer("base", loaded, cache, config, Stop()).ingest(ids)
    assert (held.held()[:, :20] == held.shape.kv_heads).all()
    assert (lost.held()[:, :20] < lost.shape.kv_heads).any()


def test_a_cache_never_reserves_more_than_the_trajectory_needs(loaded):
    config = make_config(method="evicted", budget=4096, buffer=32)
    cache = EvictingCache(CacheShape.of(loaded.model), make_policy(config), 4096, 32, longest=100)
    assert cache.blocks[0].keys.shape[3] == 100


def test_overfilling_is_refused(loaded):
    base = proposer(loaded, "rkv", budget=16, buffer=6)
    with pytest.raises(ValueError, match="room for 22"), torch.no_grad():
        forward(loaded, base.cache, torch.zeros(1, 23, dtype=torch.int64))


def test_many_layers_are_scored_in_parts_with_the_same_result(loaded, monkeypatch):
    ids = some_ids(loaded, 50)
    whole, parts = (proposer(loaded, "rkv", budget=16, buffer=6) for _ in range(2))
    whole.ingest(ids)
    monkeypatch.setattr("kvrescue.cache.evicting._SCORE_BYTES", 1)
    parts.ingest(ids)
    for layer in range(whole.cache.shape.layers):
        assert torch.equal(whole.cache.kept_positions(layer), parts.cache.kept_positions(layer))
