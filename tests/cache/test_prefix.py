"""Invariants of the full-context prefix cache."""

from __future__ import annotations

import pytest
import torch

from kvrescue.cache.attention import causal_attention, shared_prefix_attention
from kvrescue.cache.prefix import PrefixCache
from kvrescue.cache.shape import CacheShape
from kvrescue.config import make_config
from kvrescue.engine.proposer import Proposer, forward
from kvrescue.stop import Stop
from tests.cache.test_evicting import plain_logits, some_ids
from tests.tiny import make_tiny


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3"])
def loaded(request):
    return make_tiny(request.param)


def helper(loaded) -> Proposer:
    return Proposer("helper", loaded, PrefixCache(CacheShape.of(loaded.model)), make_config(method="helper"), Stop())


@pytest.mark.parametrize("length", [1, 5])
def test_shared_prefix_attention_equals_attention_over_the_joined_rows(length):
    rows, heads, kv_heads, dim, prefix, suffix = 3, 6, 2, 8, 11, 7
    query = torch.randn(rows, heads, length, dim)
    shared = [torch.randn(1, kv_heads, prefix, dim) for _ in range(2)]
    own = [torch.randn(rows, kv_heads, suffix, dim) for _ in range(2)]
    joined = [torch.cat([a.expand(rows, -1, -1, -1), b], dim=2) for a, b in zip(shared, own, strict=True)]
    expected = causal_attention(query, *joined, 0.3)
    torch.testing.assert_close(shared_prefix_attention(query, *shared, *own, 0.3), expected)


def test_chunk_equals_single_tokens_equals_plain_model(loaded):
    ids = some_ids(loaded, 50)
    plain = plain_logits(loaded, ids)
    chunked, single = helper(loaded), helper(loaded)
    chunked.ingest(ids[:20])
    chunked.ingest(ids[20:])
    for token in ids:
        single.ingest([token])
    for each in (chunked, single):
        torch.testing.assert_close(each.next_logits[0], plain[-1], rtol=1e-4, atol=1e-4)


def test_rows_of_a_fork_equal_the_plain_model_and_the_prefix_is_not_copied(loaded):
    prefix, rows = some_ids(loaded, 30), [some_ids(loaded, 12, seed) for seed in (1, 2, 3)]
    one = helper(loaded)
    one.ingest(prefix)
    pointers = [buffer.keys.data_ptr() for buffer in one.cache.buffers]
    branch = one.cache.fork(3)
    with torch.no_grad():
        first = forward(loaded, branch, torch.tensor([row[:5] for row in rows]))
        branch.advance(5)
        for column in range(5, 12):
            last = forward(loaded, branch, torch.tensor([[row[column]] for row in rows]))
            branch.advance(1)
    assert [buffer.keys.data_ptr() for buffer in one.cache.buffers] == pointers
    assert all(buffer.keys.shape[2] < 300 for buffer in branch.buffers)
    for row, ids in enumerate(rows):
        plain = plain_logits(loaded, prefix + ids)
        torch.testing.assert_close(first[row], plain[30:35], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(last[row, -1], plain[-1], rtol=1e-4, atol=1e-4)


def test_adopting_a_row_continues_like_the_plain_model(loaded):
    prefix, rows = some_ids(loaded, 30), [some_ids(loaded, 9, seed) for seed in (1, 2)]
    one = helper(loaded)
    one.ingest(prefix)
    branch = one.cache.fork(2)
    with torch.no_grad():
        forward(loaded, branch, torch.tensor(rows))
    branch.advance(9)
    one.cache.adopt(branch.select([1]), tokens=6)
    one.ingest([7, 8])
    assert one.cache.seen == 38
    torch.testing.assert_close(one.next_logits[0], plain_logits(loaded, prefix + rows[1][:6] + [7, 8])[-1], rtol=1e-4, atol=1e-4)


def test_a_dropped_branch_leaves_no_trace(loaded):
    ids = some_ids(loaded, 20)
    one = helper(loaded)
    one.ingest(ids)
    for rows in (1, 3):
        branch = one.cache.fork(rows)
        with torch.no_grad():
            forward(loaded, branch, torch.full((rows, 4), 9))
        branch.advance(4)
    one.ingest([5])
    torch.testing.assert_close(one.next_logits[0], plain_logits(loaded, [*ids, 5])[-1], rtol=1e-4, atol=1e-4)


def test_buffers_grow_without_losing_anything(loaded):
    ids = some_ids(loaded, 300)
    one = helper(loaded)
    one.ingest(ids)
    torch.testing.assert_close(one.next_logits[0], plain_logits(loaded, ids)[-1], rtol=1e-3, atol=1e-4)
