"""What a family of process reward models says of itself: how text becomes tokens, where a step's value is read, and by which head."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from kvrescue.config import ConfigError


@dataclass(frozen=True)
class Segment:
    """One step in a family's own format."""

    ids: tuple[int, ...]
    """Tokens of the step; its value is read at the last one."""
    tail: tuple[int, ...] = ()
    """What follows them once the step is part of the trajectory."""


class Format(Protocol):
    """Text to tokens, for one tokenizer."""

    def opening(self, problem: str) -> list[int]:
        """Tokens before the first step; empty where the first step carries the problem."""

    def segment(self, problem: str, step: str, first: bool) -> Segment:
        """One step; ``step`` has no blank edges and is not empty."""


Head = Callable[[Tensor], Tensor]
"""From hidden states after the final norm (rows, h) to values in [0, 1] (rows,), float32."""


@dataclass(frozen=True)
class Family:
    name: str
    title: str
    model_types: tuple[str, ...]
    """Backbones it was published on."""
    keys: tuple[str, ...]
    """Tensors of the head in the checkpoint; with none, the head is the language model's own."""
    make_format: Callable[[Any], Format]
    """Of the tokenizer. ConfigError with field ``prm`` when it lacks what the format needs."""
    make_head: Callable[[dict[str, Tensor], Any, Tensor | None], Head]
    """Of the tensors under ``keys``, the tokenizer and the language model head's weight (vocab, h)."""
    most_tokens: int | None = None
    """Longest text it was trained for, when that is shorter than its positions."""


def single_id(tokenizer: Any, text: str, family: str) -> int:
    """The last token of ``text``: how the published code finds its marks. ConfigError when there is none."""
    ids = tokenizer.encode(text, add_special_tokens=False)
    if not ids:
        raise ConfigError("prm", f"prm: the tokenizer makes no token of {text!r}, which {family} needs.")
    return int(ids[-1])


def special_id(tokenizer: Any, token: str, family: str) -> int:
    """The id of a token that must be one; ConfigError otherwise."""
    index = tokenizer.get_vocab().get(token)
    if index is None:
        raise ConfigError("prm", f"prm: the tokenizer has no {token!r}, which {family} needs.")
    return int(index)


def harmless(tokenizer: Any, more: Sequence[str] = ()) -> Callable[[str], str]:
    """A function that breaks up, inside text, whatever the tokenizer or the format would take for a mark of its own."""
    marks = {str(token) for token in tokenizer.get_added_vocab()} | {str(token) for token in tokenizer.all_special_tokens} | set(more)
    marks = {mark for mark in marks if len(mark) > 1 and mark.strip()}
    if not marks:
        return lambda text: text
    pattern = re.compile("|".join(re.escape(mark) for mark in sorted(marks, key=len, reverse=True)))
    return lambda text: pattern.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
