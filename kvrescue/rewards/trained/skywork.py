"""Skywork-o1-Open-PRM (Qwen2.5, 1.5B and 7B): a scalar head reads the newline after each line.

Every line is tokenised by itself. A step of several lines has the value of its last one; the blank line between two steps is a line
too, read on but never taken for the step's value. Values say "will this end right", not "is this step right".
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import linear

from kvrescue.rewards.trained.family import Family, Head, Segment, harmless, single_id

_KEYS = ("v_head.summary.weight", "v_head.summary.bias")


class _Format:
    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._newline = single_id(tokenizer, "\n", "Skywork-o1-Open-PRM")
        self._clean = harmless(tokenizer)

    def opening(self, problem: str) -> list[int]:
        return list(self._tokenizer.encode(f"{self._tokenizer.bos_token or ''}{self._clean(problem)}\n", add_special_tokens=False))

    def segment(self, problem: str, step: str, first: bool) -> Segment:
        ids: list[int] = []
        for line in self._clean(step).split("\n"):
            ids += [*self._tokenizer.encode(line, add_special_tokens=False), self._newline]
        return Segment(tuple(ids), (self._newline,))


def _head(tensors: dict[str, Tensor], _tokenizer: Any, _lm_head: Tensor | None) -> Head:
    weight, bias = (tensors[key] for key in _KEYS)
    return lambda hidden: linear(hidden, weight, bias).float().sigmoid()[:, 0]


SKYWORK = Family("skywork", "Skywork-o1-Open-PRM", ("qwen2",), _KEYS, _Format, _head)
