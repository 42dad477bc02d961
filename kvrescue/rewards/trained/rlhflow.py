"""RLHFlow's Llama3.1-8B PRMs (Deepseek-Data, Mistral-Data): a dialogue in which every step is a user turn and "+" answers it.

A step's value is the share of "+" against "-" in what the language model predicts right after the assistant's header. The place of
that header is found by rendering the chat template, never by counting from the end.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from kvrescue.config import ConfigError
from kvrescue.rewards.trained.family import Family, Head, Segment, harmless, single_id

_MARK = "KVRESCUE-STEP"


class _Format:
    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._clean = harmless(tokenizer)
        if not tokenizer.chat_template:
            raise ConfigError("prm", "prm: the tokenizer has no chat template, which the RLHFlow format needs.")
        asked = self._render([_MARK], answered=False)
        answered = self._render([_MARK], answered=True)
        again = self._render([_MARK, _MARK], answered=False)
        if asked.count(_MARK) != 1 or not answered.startswith(asked) or not again.startswith(answered):
            raise ConfigError("prm", "prm: the tokenizer's chat template does not build a dialogue turn by turn, as the RLHFlow format needs.")
        self._first = asked.split(_MARK)
        self._later = again[len(answered) :].split(_MARK)
        self._tail = tuple(self._encode(answered[len(asked) :]))

    def _render(self, steps: list[str], answered: bool) -> str:
        """The dialogue up to the last step's answer, or with it."""
        turns = [turn for step in steps for turn in ({"role": "user", "content": step}, {"role": "assistant", "content": "+"})]
        return str(self._tokenizer.apply_chat_template(turns if answered else turns[:-1], tokenize=False, add_generation_prompt=not answered))

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def opening(self, problem: str) -> list[int]:
        return []

    def segment(self, problem: str, step: str, first: bool) -> Segment:
        before, after = self._first if first else self._later
        told = f"{problem.strip()} {step}" if first else step
        return Segment(tuple(self._encode(before + self._clean(told) + after)), self._tail)


def yes_no(lm_head: Tensor | None, yes: int, no: int, family: str) -> Head:
    """softmax over two of the language model's logits; only those two rows of its head are used."""
    if lm_head is None:
        raise ConfigError("prm", f"prm: {family} needs a language model with its head.")
    rows = lm_head[[yes, no]]
    return lambda hidden: (hidden @ rows.T.to(hidden.dtype)).float().softmax(-1)[:, 0]


def _head(_tensors: dict[str, Tensor], tokenizer: Any, lm_head: Tensor | None) -> Head:
    name = "the RLHFlow format"
    return yes_no(lm_head, single_id(tokenizer, "+", name), single_id(tokenizer, "-", name), name)


RLHFLOW = Family("rlhflow", "RLHFlow Llama3.1-8B-PRM", ("llama",), (), _Format, _head)
