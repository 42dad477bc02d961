"""When the chain may stop early: two good steps in a row, then a probe that must be sure of its answer (algorithms.md 6.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

IN_A_ROW = 2
PROBE_TOKENS = 20
"""Longest answer of a probe; one cut off here fails."""


@dataclass
class ExitWatch:
    """Counts good steps in a row; after a probe the count begins anew."""

    tau_h: float
    most_probes: int
    high: int = 0
    probes: int = 0

    def see(self, reward: float | None) -> bool:
        """True when it is time to ask for an answer."""
        self.high = self.high + 1 if reward is not None and reward >= self.tau_h else 0
        if self.high < IN_A_ROW or self.probes >= self.most_probes:
            return False
        self.high = 0
        self.probes += 1
        return True


def closing_text(prompt: str, committed: str) -> str:
    """What is appended to ask for the answer: ``</think>`` stays in it only while a think block is open."""
    thinking = committed.rfind("<think>") > committed.rfind("</think>")
    text = prompt if thinking else prompt.replace("\n</think>", "").replace("</think>", "")
    return text if not committed or committed.endswith("\n") else "\n\n" + text


def answer_pieces(pieces: Sequence[str]) -> int | None:
    """How many of the tokens behind the opening brace belong to the answer, the matching brace excluded; None while it is not there.

    A token that holds both answer and brace belongs to the answer.
    """
    depth = 1
    for index, piece in enumerate(pieces):
        for at, char in enumerate(piece):
            depth += (char == "{") - (char == "}")
            if depth == 0:
                return index + bool(piece[:at].strip())
    return None


def perplexity(log_probs: Sequence[float]) -> float | None:
    """exp(-mean log p), natural logarithm at temperature 1; None for no tokens."""
    return math.exp(-sum(log_probs) / len(log_probs)) if log_probs else None


SHORT_ANSWER = 3
"""Tokens that a probe may write in any case: a number of two digits is told whole, and its perplexity with it."""


def hopeless(log_probs: Sequence[float], most: int, tau_p: float) -> bool:
    """No way to go on makes this answer accepted: were all its other tokens up to ``most`` certain, its perplexity would still be above."""
    return len(log_probs) >= SHORT_ANSWER and -sum(log_probs) > most * math.log(tau_p)


def accepted(answer: str, ppl: float | None, tau_p: float) -> bool:
    """The probe's verdict: a complete, non-empty answer that the model is sure of."""
    return bool(answer.strip()) and ppl is not None and math.isfinite(ppl) and ppl <= tau_p
