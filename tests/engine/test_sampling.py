from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvrescue.engine.sampling import CandidateRng, sample

LOGITS = torch.tensor([[0.1, 0.4, 0.05, 0.3, 0.15]]).log()


@pytest.mark.parametrize(
    ("uniform", "top_p", "token"),
    [
        (0.0, 1.0, 1),  # sorted: 1 (.4), 3 (.3), 4 (.15), 0 (.1), 2 (.05)
        (0.39, 1.0, 1),
        (0.41, 1.0, 3),
        (0.71, 1.0, 4),
        (0.86, 1.0, 0),
        (0.96, 1.0, 2),
        (0.999999, 0.35, 1),
        (0.999999, 0.5, 3),
        (0.56, 0.65, 1),  # nucleus .4 + .3: token 1 owns u < 4/7
        (0.58, 0.65, 3),
    ],
)
def test_inverse_cdf_inside_the_nucleus(uniform, top_p, token):
    assert sample(LOGITS, [uniform], 1.0, top_p) == [token]


def test_zero_temperature_is_greedy():
    assert sample(LOGITS, [0.99], 0.0, 0.1) == [1]


def test_temperature_sharpens():
    """At T=0.5 the probabilities are squared: .16/.285 = .561 for token 1."""
    assert sample(LOGITS, [0.55], 0.5, 1.0) == [1]
    assert sample(LOGITS, [0.57], 0.5, 1.0) == [3]


@given(st.integers(0, 2**20), st.floats(0, 0.9999), st.floats(0.05, 1.0))
@settings(max_examples=40)
def test_large_vocabularies_agree_with_a_full_sort(seed, uniform, top_p):
    logits = torch.randn(2, 3_000, generator=torch.Generator().manual_seed(seed)) * (1 + seed % 4)
    probabilities = logits[0].double().softmax(-1)
    order = probabilities.argsort(descending=True, stable=True)
    mass = probabilities[order].cumsum(0)
    size = int((mass < top_p - 1e-9).sum()) + 1
    nucleus = mass[min(size, len(mass)) - 1]
    expected = int(order[min(int((mass <= uniform * nucleus).sum()), size - 1)])
    got = sample(logits, [uniform, 0.5], 1.0, top_p)[0]
    rank = {int(token): place for place, token in enumerate(order)}
    assert abs(rank[got] - rank[expected]) <= 1, "float32 may land on the neighbour at a boundary"


def test_a_row_does_not_depend_on_its_batch():
    logits = torch.randn(4, 1_000)
    together = sample(logits, [0.1, 0.5, 0.7, 0.9], 0.8, 0.95)
    assert [sample(logits[i : i + 1], [u], 0.8, 0.95)[0] for i, u in enumerate([0.1, 0.5, 0.7, 0.9])] == together


def test_streams_are_reproducible_and_apart():
    def first(*key):
        rng = CandidateRng(*key)
        return [rng.uniform() for _ in range(4)]

    assert first(1, 2, "base", 3) == first(1, 2, "base", 3)
    keys = [(1, 2, "base", 3), (2, 2, "base", 3), (1, 3, "base", 3), (1, 2, "helper", 3), (1, 2, "base", 4), (12, 2, "base", 3)]
    assert len({tuple(first(*key)) for key in keys}) == len(keys)
