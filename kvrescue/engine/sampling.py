"""Sampling: one random stream per (seed, step, source, candidate), so that candidate i is the same whatever N is."""

from __future__ import annotations

import random

import torch
from torch import Tensor

_NUCLEUS_GUESS = 256
"""Most nuclei are smaller; only when one is not are all logits sorted."""


class CandidateRng:
    """The uniform numbers of one candidate, one per token. Independent of device, batch and N."""

    def __init__(self, seed: int, step: int, source: str, cand: int) -> None:
        self._random = random.Random(f"{seed}/{step}/{source}/{cand}")

    def uniform(self) -> float:
        return self._random.random()


def sample(logits: Tensor, uniforms: list[float], temperature: float, top_p: float) -> list[int]:
    """One token per row of (rows, vocab) raw logits; ``uniforms[i]`` in [0, 1) decides row i.

    Temperature first, then the smallest set of most probable tokens whose mass reaches ``top_p``. Temperature 0 takes the
    most probable token and ignores ``uniforms``.
    """
    if temperature == 0:
        return [int(token) for token in logits.argmax(-1).tolist()]
    scaled = logits.float() / temperature
    total = scaled.logsumexp(-1, keepdim=True)
    size = min(_NUCLEUS_GUESS, scaled.shape[-1])
    top, tokens = scaled.topk(size, dim=-1)
    mass = (top - total).exp().cumsum(-1)
    if size < scaled.shape[-1] and bool((mass[:, -1] < top_p).any()):
        top, tokens = scaled.sort(dim=-1, descending=True, stable=True)
        mass = (top - total).exp().cumsum(-1)
    return _draw(mass, tokens, uniforms, top_p)


def _draw(mass: Tensor, tokens: Tensor, uniforms: list[float], top_p: float) -> list[int]:
    """Inverse-CDF draw inside each row's nucleus; ``mass`` is the cumulative probability of the sorted ``tokens``."""
    bound = torch.tensor([[top_p]], dtype=mass.dtype, device=mass.device).expand(mass.shape[0], 1).contiguous()
    last = torch.searchsorted(mass, bound).clamp(max=mass.shape[1] - 1)
    nucleus = mass.gather(1, last)
    wanted = torch.tensor(uniforms, dtype=mass.dtype, device=mass.device).unsqueeze(1) * nucleus
    chosen = torch.minimum(torch.searchsorted(mass, wanted, right=True), last)
    return [int(token) for token in tokens.gather(1, chosen).squeeze(1).tolist()]  # one wait for an accelerator, not one a row
