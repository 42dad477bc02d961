"""Token entropy from logits: the only part of the guards that needs torch."""

from __future__ import annotations

import torch
from torch import Tensor


def token_entropy(logits: Tensor) -> Tensor:
    """Entropy in nats of each row of raw logits (rows, vocab) at temperature 1: (rows,) float32. -inf logits count as 0."""
    log_probs = logits.float().log_softmax(-1)
    return torch.special.entr(log_probs.exp()).sum(-1)
