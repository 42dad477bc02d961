"""How hard reflection words are suppressed while the next step is written (algorithms.md 6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor
from transformers import PreTrainedTokenizerFast

Band = Literal["low", "middle", "high"]
_LETTERS = 4
"""A longer word's first piece is suppressed only if it holds at least this many of its letters."""


def band_of(reward: float, tau_l: float, tau_h: float) -> Band:
    """low up to tau_l, high from tau_h on."""
    return "low" if reward <= tau_l else "high" if reward >= tau_h else "middle"


def penalty_of(band: Band, beta: float) -> float:
    """Subtracted from the raw logits: nothing after a bad step (it should think again), beta after a good one."""
    return {"low": 0.0, "middle": beta / 2, "high": beta}[band]


_FAR = 16.0
"""A word that is this many logits (at temperature 1) behind the likeliest token is drawn once in ten million times."""


def penalised(logits: Tensor, ids: Sequence[int], penalty: float, temperature: float) -> Tensor | None:
    """(rows, vocab) raw logits with ``penalty`` taken from ``ids``, as a copy; None where that makes no difference: there is no penalty,
    or none of these tokens comes near the likeliest one in any row. Most tokens are of that kind, and cost no copy and no second draw."""
    if not penalty or not ids:
        return None
    behind = logits.amax(-1) - logits[:, ids].amax(-1)
    if bool((behind > _FAR * temperature).all()):
        return None
    lowered = logits.clone()
    lowered[:, ids] -= penalty
    return lowered


def reflection_tokens(tokenizer: PreTrainedTokenizerFast, words: str) -> dict[int, str]:
    """Token id -> its text, for every word of the comma-separated list in all its spellings and with what may stand before it."""
    special = set(tokenizer.all_special_ids)
    found: dict[int, str] = {}
    for word in (part.strip() for part in words.split(",")):
        for spelling in dict.fromkeys((word, word.lower(), word.capitalize())) if word else ():
            for before in ("", " ", "\n"):
                ids = tokenizer.encode(before + spelling, add_special_tokens=False)
                piece = str(tokenizer.decode(ids[:1]))
                whole = len(ids) == 1
                most = len(piece.strip()) >= _LETTERS and spelling.startswith(piece.strip())
                if ids and ids[0] not in special and (whole or most):
                    found[ids[0]] = piece
    return dict(sorted(found.items()))
