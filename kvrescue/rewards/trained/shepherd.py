"""Math-Shepherd (Mistral 7B): plain text in which every step ends with the tag " ки".

A step's value is the share of "+" against "-" in what the language model predicts at the tag.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from kvrescue.config import ConfigError
from kvrescue.rewards.trained.family import Family, Head, Segment, harmless, single_id
from kvrescue.rewards.trained.rlhflow import yes_no

TAG = "ки"


class _Format:
    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._clean = harmless(tokenizer, (TAG,))
        self._anchor = list(tokenizer.encode(f"a {TAG}", add_special_tokens=False))

    def opening(self, problem: str) -> list[int]:
        return []

    def segment(self, problem: str, step: str, first: bool) -> Segment:
        if first:
            return Segment(tuple(self._tokenizer.encode(f"{self._clean(problem).strip()} {self._clean(step)} {TAG}")))
        # Alone, a later step would get the blank that such tokenizers put before a text.
        ids = list(self._tokenizer.encode(f"a {TAG}\n{self._clean(step)} {TAG}", add_special_tokens=False))
        if ids[: len(self._anchor)] != self._anchor:
            raise ConfigError("prm", "prm: the tokenizer does not keep the Math-Shepherd tag apart from what follows it.")
        return Segment(tuple(ids[len(self._anchor) :]))


def _head(_tensors: dict[str, Tensor], tokenizer: Any, lm_head: Tensor | None) -> Head:
    name = "the Math-Shepherd format"
    return yes_no(lm_head, single_id(tokenizer, "+", name), single_id(tokenizer, "-", name), name)


SHEPHERD = Family("math-shepherd", "Math-Shepherd", ("mistral",), (), _Format, _head)
