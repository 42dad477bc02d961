"""The only top-k: which slots survive, given a policy's scores."""

from __future__ import annotations

import torch
from torch import Tensor

from kvrescue.cache.policies.base import LayerState, Policy


def select_indices(scores: Tensor, keep: int, *, recent: int = 0, sinks: int = 0, protected: Tensor | None = None) -> Tensor:
    """The ``keep`` best slots of (b, Hk, n) scores, (b, Hk, keep) int64 ascending.

    Order: score descending, then the newer slot first, so that ties have one answer on every device. NaN counts as the lowest.
    The newest ``recent``, the first ``sinks`` and the ``protected`` ((b, Hk, n) bool) slots come before all others;
    ValueError when they alone are more than ``keep``.
    """
    total = scores.shape[-1]
    if total <= keep:
        return torch.arange(total, device=scores.device).expand(*scores.shape[:-1], total)
    forced = _forced(scores, recent, sinks, protected)
    if forced is not None:
        # What is known beforehand needs no wait for an accelerator.
        most = min(total, recent + sinks) if protected is None else int(forced.sum(-1).max())
        if most > keep:
            raise ValueError(f"{most} tokens must be kept but the budget is {keep}")
    ranked = torch.nan_to_num(scores.float(), nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    order = ranked.flip(-1).argsort(dim=-1, descending=True, stable=True)
    newest_first = total - 1 - order
    if forced is not None:
        # A second stable sort lifts the forced slots to the front and keeps the order among the others.
        lifted = forced.gather(-1, newest_first).int().argsort(dim=-1, descending=True, stable=True)
        newest_first = newest_first.gather(-1, lifted)
    return newest_first[..., :keep].sort(dim=-1).values


def _forced(scores: Tensor, recent: int, sinks: int, protected: Tensor | None) -> Tensor | None:
    if not recent and not sinks and protected is None:
        return None
    slots = torch.arange(scores.shape[-1], device=scores.device)
    forced = (slots >= scores.shape[-1] - recent) | (slots < sinks)
    return forced.expand(scores.shape) if protected is None else forced | protected


def compact_indices(policy: Policy, layer: LayerState, keep: int, protected: Tensor | None = None) -> Tensor:
    """(b, Hk, keep) int64 ascending: the slots that ``policy`` keeps."""
    scores = policy.score(layer)
    return select_indices(scores, keep, recent=policy.recent(keep), sinks=policy.sinks(), protected=protected)
