"""The scorer's side of the loop: one reward per candidate step, given what is committed.

``score`` judges the candidates of one step; ``commit`` tells the scorer which one became part of the trajectory. A scorer keeps
its own prefix cache, so that a step costs what its new tokens cost. Trained process reward models fit the same
three verbs (algorithms.md 4): they get texts and ids, and answer in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvrescue.stop import Stop


@dataclass(frozen=True)
class Step:
    """A step as the scorer sees it: its text, and its ids in the scorer's own vocabulary."""

    text: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Reward:
    value: float | None
    """In [0, 1]; None when no finite number came out (such a candidate is chosen last)."""
    detail: dict[str, Any] = field(default_factory=dict)


class Scorer(Protocol):
    name: str
    label: str
    """Who judges, in words a visitor understands."""

    def begin(self, problem: str, prompt: Sequence[int], stop: Stop) -> None:
        """Start a trajectory. ``prompt``: the chat prompt in the scorer's vocabulary."""

    def score(self, steps: Sequence[Step]) -> list[Reward]:
        """Rewards of alternative next steps, in their order."""

    def commit(self, step: Step) -> None:
        """The trajectory goes on with this step."""
