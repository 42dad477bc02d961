"""Qwen2.5-Math-PRM (7B, 72B, and the 7B trained on PRM800K): a two-layer head reads each ``<extra_0>`` that follows a step.

The checkpoint's own modelling file does not run with current transformers; the backbone is a plain Qwen2, and the head is two linear
layers, so both are put together here.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.functional import linear

from kvrescue.rewards.trained.family import Family, Head, Segment, harmless, special_id

SEPARATOR = "<extra_0>"
SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
_KEYS = ("score.0.weight", "score.0.bias", "score.2.weight", "score.2.bias")


class _Format:
    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._separator = special_id(tokenizer, SEPARATOR, "Qwen2.5-Math-PRM")
        self._clean = harmless(tokenizer, (SEPARATOR,))

    def opening(self, problem: str) -> list[int]:
        turns = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": self._clean(problem)}]
        text = self._tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def segment(self, problem: str, step: str, first: bool) -> Segment:
        return Segment((*self._tokenizer.encode(self._clean(step), add_special_tokens=False), self._separator))


def _head(tensors: dict[str, Tensor], _tokenizer: Any, _lm_head: Tensor | None) -> Head:
    first, first_bias, second, second_bias = (tensors[key] for key in _KEYS)

    def value(hidden: Tensor) -> Tensor:
        logits = linear(linear(hidden, first, first_bias).relu(), second, second_bias)
        return logits.float().softmax(-1)[:, 1]

    return value


QWEN = Family("qwen", "Qwen2.5-Math-PRM", ("qwen2",), _KEYS, _Format, _head, most_tokens=4096)
