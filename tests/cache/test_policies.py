"""Every policy against the worked example of algorithms.md 2.9, and the properties all policies share."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvrescue.cache.attention import attention_probabilities
from kvrescue.cache.policies import LayerState, compact_indices, make_policy, select_indices
from kvrescue.cache.policies.base import grouped_logits, max_pool
from kvrescue.cache.policies.h2o import H2O
from kvrescue.cache.policies.keydiff import KeyDiff
from kvrescue.cache.policies.knorm import Knorm
from kvrescue.cache.policies.rkv import RKV, cosine_similarity, redundancy, spared_columns
from kvrescue.cache.policies.snapkv import SnapKV
from kvrescue.cache.policies.snapkv_decode import SnapKVDecode
from kvrescue.cache.policies.streaming_llm import StreamingLLM
from kvrescue.cache.policies.tova import Tova
from kvrescue.config import POLICIES, make_config

KEYS = [[-1, 0, 0], [-1, 0, -1], [-2, -1, -1], [-1, -1, -1], [2, 2, -1], [3, 0, 0], [2, 1, 1], [1, 3, -2], [2, 2, -1]]
QUERIES = [[[2, 2, 2], [1, 0, 1]], [[2, 0, 1], [2, 0, -1]]]


def worked_example() -> LayerState:
    keys = torch.tensor(KEYS, dtype=torch.float32).view(1, 1, 9, 3)
    queries = torch.tensor(QUERIES, dtype=torch.float32).view(1, 2, 2, 3)
    return LayerState(keys, keys.clone(), torch.arange(9).view(1, 1, 9), queries, 3**-0.5)


def kept(policy, keep: int = 5) -> list[int]:
    return compact_indices(policy, worked_example(), keep)[0, 0].tolist()


def past(policy) -> list[int]:
    return [i for i in kept(policy) if i < 7]


def close(actual: torch.Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(actual.flatten(), torch.tensor(expected), rtol=0, atol=2e-6)


def test_group_maximum_of_the_logits():
    logits = grouped_logits(worked_example()).amax(dim=2)[0, 0, :, :7]
    close(logits[0], [-1.154701, -1.732051, -2.886751, -1.732051, 3.464102, 3.464102, 4.618802])
    close(logits[1], [-0.57735, -0.57735, -1.732051, -0.57735, 2.886751, 3.464102, 1.732051])


def test_importance_before_and_after_pooling():
    importance = SnapKVDecode(2, 3).importance(worked_example())
    close(importance, [0.00584, 0.005423, 0.001709, 0.005423, 0.252471, 0.374542, 0.354591])
    close(max_pool(importance, 3), [0.00584, 0.00584, 0.005423, 0.252471, 0.374542, 0.374542, 0.374542])
    close(max_pool(importance, 7), [0.00584, 0.252471] + [0.374542] * 5)


def test_redundancy_spares_the_most_recent_near_duplicate():
    similarity = cosine_similarity(worked_example().keys)
    spared = spared_columns(similarity)
    assert spared[0, 0].tolist() == [3, 3, 3, 2, 8, 8, 8, 8, 7]
    before = similarity.mean(dim=-2)
    similarity.scatter_(-1, spared.unsqueeze(-1), 0.0)
    means = similarity.mean(dim=-2)
    close(means, [-0.146238, 0.059342, -0.202459, -0.331496, 0.119758, -0.075985, -0.12452, 0.085694, -0.240015])
    assert not torch.allclose(before, means), "the sparing must change the matrix"
    close(redundancy(worked_example().keys)[..., :7], [0.104434, 0.128269, 0.098724, 0.086773, 0.136258, 0.112035, 0.106727])
    naive = before.softmax(-1)[..., :7]
    close(naive, [0.095679, 0.117516, 0.100437, 0.103066, 0.124835, 0.102642, 0.09778])


def test_a_row_without_near_duplicates_spares_the_sink():
    similarity = torch.zeros(1, 1, 3, 3)
    assert spared_columns(similarity)[0, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("kernel", "weight", "expected"),
    [
        (3, 0.1, [-0.093407, -0.114859, -0.08831, -0.052849, -0.085178, -0.063377, -0.0586]),
        (1, 0.1, [-0.093407, -0.1149, -0.088681, -0.077553, -0.097385, -0.063377, -0.060595]),
    ],
)
def test_rkv_scores(kernel, weight, expected):
    close(RKV(2, kernel, weight).score(worked_example())[..., :7], expected)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RKV(2, 3, 0.1), [3, 5, 6]),
        (RKV(2, 3, 0.07), [3, 5, 6]),
        (RKV(2, 1, 0.1), [3, 5, 6]),
        (RKV(2, 7, 0.1), [2, 3, 6]),
        (RKV(2, 3, 0.0), [0, 2, 3]),
        (RKV(2, 3, 1.0), [4, 5, 6]),
        (SnapKVDecode(2, 3), [4, 5, 6]),
        (SnapKVDecode(2, 7), [4, 5, 6]),
        (SnapKV(2, 3), [4, 5, 6]),
        (SnapKV(2, 1), [4, 5, 6]),
    ],
)
def test_windowed_policies_keep(policy, expected):
    """SnapKV keeps token 4; R-KV drops it, the most redundant past token: its exact copy, token 8, is in the window."""
    assert past(policy) == expected
    assert kept(policy)[-2:] == [7, 8]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Tova(), [4, 5, 6, 7, 8]),
        (KeyDiff(0, 0), [0, 2, 3, 5, 6]),
        (Knorm(0, 0), [0, 1, 2, 3, 6]),
        (StreamingLLM(2), [0, 1, 6, 7, 8]),
        (StreamingLLM(1), [0, 5, 6, 7, 8]),
    ],
)
def test_other_policies_keep(policy, expected):
    assert kept(policy) == expected


def test_snapkv_scores():
    close(SnapKV(2, 3).score(worked_example())[..., :7], [0.006119, 0.007256, 0.005939, 0.053282, 0.173092, 0.278437, 0.228677])
    close(SnapKV(2, 1).score(worked_example())[..., :7], [0.011105, 0.007252, 0.00341, 0.007156, 0.149279, 0.36284, 0.32319])


def test_tova_scores():
    close(Tova().score(worked_example()), [0.018561, 0.012677, 0.006305, 0.012677, 0.158334, 0.35584, 0.201439, 0.07583, 0.158334])


def test_key_scores():
    close(KeyDiff(0, 0).score(worked_example()), [0.10715, -0.51995, -0.040903, -0.119708, -0.704243, -0.10715, 0.040903, -0.902282, -0.704243])
    norms = [1, 2**0.5, 6**0.5, 3**0.5, 3, 3, 6**0.5, 14**0.5, 3]
    close(Knorm(0, 0).score(worked_example()), [-norm for norm in norms])


def test_h2o_keeps_what_gathered_attention_and_the_newest_half():
    rows = [[1], [0.6, 0.4], [0.5, 0.1, 0.4], [0.2, 0.1, 0.5, 0.2], [0.1, 0.2, 0.4, 0.2, 0.1]]
    mass = torch.zeros(5)
    for row in rows:
        mass[: len(row)] += torch.tensor(row)
    close(mass, [2.4, 0.8, 1.3, 0.4, 0.1])
    state = LayerState(torch.zeros(1, 1, 5, 2), torch.zeros(1, 1, 5, 2), torch.arange(5).view(1, 1, 5), None, 1.0, mass.view(1, 1, 5))
    assert compact_indices(H2O(), state, 4)[0, 0].tolist() == [0, 2, 3, 4]
    assert compact_indices(H2O(), state, 3)[0, 0].tolist() == [0, 2, 4]


def test_attention_probabilities_are_causal_and_sum_to_one():
    probabilities = attention_probabilities(torch.randn(2, 4, 3, 8), torch.randn(2, 2, 7, 8), 0.3)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(2, 2, 2, 3))
    assert (probabilities[..., 0, 5:] == 0).all() and (probabilities[..., 1, 6:] == 0).all()


# --- what all policies share ------------------------------------------------------------------------------------------------------


def random_state(seed: int, batch: int = 2, total: int = 24, window: int = 4, dtype: torch.dtype = torch.float32) -> LayerState:
    generator = torch.Generator().manual_seed(seed)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    mass = torch.rand(batch, 2, total, generator=generator)
    positions = torch.arange(total).expand(batch, 2, total)
    return LayerState(randn(batch, 2, total, 8), randn(batch, 2, total, 8), positions, randn(batch, 4, window, 8), 8**-0.5, mass)


@pytest.fixture(params=POLICIES)
def policy(request):
    return make_policy(make_config(method="evicted", policy=request.param, budget=16, window=4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scores_are_float32_per_head(policy, dtype):
    scores = policy.score(random_state(0, dtype=dtype))
    assert scores.shape == (2, 2, 24) and scores.dtype == torch.float32 and scores.isfinite().all()


def test_kept_slots_are_sorted_unique_and_as_many_as_asked(policy):
    kept = compact_indices(policy, random_state(1), 16)
    assert kept.shape == (2, 2, 16)
    assert (kept.diff(dim=-1) > 0).all() and kept.min() >= 0 and kept.max() < 24


def test_rows_do_not_see_each_other(policy):
    both = random_state(2)
    alone = LayerState(*(None if part is None else part[1:] if isinstance(part, torch.Tensor) else part for part in vars(both).values()))
    assert torch.equal(compact_indices(policy, both, 16)[1:], compact_indices(policy, alone, 16))


def test_protected_slots_always_stay(policy):
    protected = torch.zeros(2, 2, 24, dtype=torch.bool)
    protected[:, :, 5:9] = True
    kept = compact_indices(policy, random_state(3), 16, protected)
    assert all(set(range(5, 9)) <= set(head.tolist()) for row in kept for head in row)
    newest = policy.recent(16)
    assert all(set(range(24 - newest, 24)) <= set(head.tolist()) for row in kept for head in row)


def test_nothing_is_evicted_when_everything_fits(policy):
    assert compact_indices(policy, random_state(4), 24)[0, 0].tolist() == list(range(24))


def test_a_policy_does_not_change_what_it_judges(policy):
    state, same = random_state(5), random_state(5)
    policy.score(state)
    assert all(torch.equal(a, b) for a, b in zip(vars(state).values(), vars(same).values(), strict=True) if isinstance(a, torch.Tensor))


def test_fewer_tokens_than_the_window(policy):
    assert policy.score(random_state(6, total=4)).shape == (2, 2, 4)
    assert policy.score(random_state(6, total=2, window=2)).shape == (2, 2, 2)


# --- the one top-k ---------------------------------------------------------------------------------------------------------------


def test_ties_go_to_the_newer_slot():
    assert select_indices(torch.zeros(1, 1, 6), 3)[0, 0].tolist() == [3, 4, 5]
    assert select_indices(torch.tensor([[[1.0, 2, 2, 0, 2]]]), 2)[0, 0].tolist() == [2, 4]


def test_nan_is_chosen_last():
    assert select_indices(torch.tensor([[[float("nan"), 1, -9, 2]]]), 3)[0, 0].tolist() == [1, 2, 3]


def test_too_many_forced_slots_are_refused():
    with pytest.raises(ValueError, match="4 tokens must be kept but the budget is 3"):
        select_indices(torch.zeros(1, 1, 6), 3, recent=4)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(1, 30), st.integers(0, 5), st.integers(0, 5))
@settings(max_examples=150)
def test_selection_equals_a_plain_sort(scores, keep, recent, sinks):
    total = len(scores)
    forced = {i for i in range(total) if i < sinks or i >= total - recent}
    if total > keep and len(forced) > keep:
        return
    order = sorted(range(total), key=lambda i: (i not in forced, -scores[i], -i))
    got = select_indices(torch.tensor([[scores]], dtype=torch.float32), keep, recent=recent, sinks=sinks)[0, 0].tolist()
    assert got == sorted(order[:keep])
