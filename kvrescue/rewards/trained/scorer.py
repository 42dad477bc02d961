"""A published process reward model as the loop's judge: prefix-cached, so that a step costs its own tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from kvrescue.cache.prefix import PrefixBranch
from kvrescue.cache.shape import backbone_of
from kvrescue.config import ConfigError
from kvrescue.models.load import Loaded, TrainedPrm
from kvrescue.rewards.base import Reward, Step
from kvrescue.rewards.reader import PrefixReader
from kvrescue.rewards.trained.family import Segment
from kvrescue.stop import Stop

_LEAST_ROOM = 64
"""A problem must leave so many tokens for a step."""


def hidden_states(loaded: Loaded, branch: PrefixBranch, ids: Tensor, keep: int = 0) -> Tensor:
    """(rows, q or ``keep``, h) after the final norm, with no language model head."""
    device = loaded.model.device
    positions = torch.arange(branch.seen, branch.seen + ids.shape[1], device=device).expand(ids.shape[0], -1)
    hidden: Tensor = backbone_of(loaded.model)(input_ids=ids.to(device), position_ids=positions, cache=branch, kv=branch).last_hidden_state
    return hidden[:, -keep:] if keep else hidden


class TrainedPrmScorer:
    """Candidates are told apart by their text: the family tokenises it its own way.

    When the trajectory outgrows the model, the oldest steps are dropped, never the newest, and the rest is read again.
    """

    name = "prm"

    def __init__(self, prm: TrainedPrm, problem: str) -> None:
        """ConfigError with field ``problem`` when it is too long for the model."""
        self.label = f"process reward model {prm.loaded.info.id} ({prm.family.title})"
        self._prm, self._problem = prm, problem
        self.reader = PrefixReader(prm.loaded, hidden_states)
        taken = len(prm.format.opening(problem)) or len(prm.format.segment(problem, "x", True).ids)
        if taken + _LEAST_ROOM > prm.context:
            raise ConfigError("problem", f"The problem takes {taken:,} tokens; the process reward model reads at most {prm.context - _LEAST_ROOM:,}.")

    def begin(self, problem: str, prompt: Sequence[int], stop: Stop) -> None:
        """``prompt`` is not used: the family has a format of its own."""
        self._stop = stop
        self._steps: list[str] = []
        self.dropped = 0
        """Oldest steps that it no longer reads."""
        self._restart([])

    def score(self, steps: Sequence[Step]) -> list[Reward]:
        texts = [step.text.strip() for step in steps]
        segments = {text: self._segment(text, not self._kept) for text in texts if text}
        longest = max((len(one.ids) for one in segments.values()), default=0)
        if self.reader.cache.seen + longest > self._prm.context and self._kept:
            self._make_room()
            segments = {text: self._segment(text, not self._kept) for text in segments}
        fitting = {text: one for text, one in segments.items() if self.reader.cache.seen + len(one.ids) <= self._prm.context}
        values = self._values([one.ids for one in fitting.values()])
        found = dict(zip(fitting, values, strict=True))
        return [self._reward(found.get(text), segments.get(text)) for text in texts]

    def commit(self, step: Step) -> None:
        text = step.text.strip()
        if not text:
            return
        segment = self._segment(text, not self._kept)
        if self.reader.cache.seen + len(segment.ids) + len(segment.tail) > self._prm.context:
            self._steps.append(text)
            self._make_room()
            return
        self.reader.adopt(segment.ids)
        self.reader.read(segment.tail)
        self._steps.append(text)

    @property
    def _kept(self) -> int:
        return len(self._steps) - self.dropped

    def _segment(self, text: str, first: bool) -> Segment:
        return self._prm.format.segment(self._problem, text, first)

    @torch.no_grad()
    def _values(self, rows: Sequence[tuple[int, ...]]) -> list[float]:
        values = [math.nan] * len(rows)
        for block in self.reader.alternatives(rows):
            for row, i in enumerate(block.rows):
                at = len(rows[i]) - 1 - block.start
                if 0 <= at < block.ids.shape[1]:
                    values[i] = float(self._prm.head(block.outputs[row, at : at + 1])[0])
        return values

    def _reward(self, value: float | None, segment: Segment | None) -> Reward:
        detail: dict[str, int] = {"tokens": len(segment.ids)} if segment else {"tokens": 0}
        if self.dropped:
            detail["dropped_steps"] = self.dropped
        return Reward(value if value is not None and math.isfinite(value) else None, detail)

    def _make_room(self) -> None:
        """Keep the newest steps that fill at most half of the room, so that this is seldom done."""
        room = (self._prm.context - len(self._prm.format.opening(self._problem))) // 2
        kept: list[str] = []
        for text in reversed(self._steps):
            segment = self._segment(text, False)
            room -= len(segment.ids) + len(segment.tail)
            if room < 0:
                break
            kept.insert(0, text)
        self.dropped = len(self._steps) - len(kept)
        self._restart(kept)

    def _restart(self, steps: Sequence[str]) -> None:
        self.reader.begin(self._stop)
        self.reader.read(self._prm.format.opening(self._problem))
        for number, text in enumerate(steps):
            segment = self._segment(text, number == 0)
            self.reader.read([*segment.ids, *segment.tail])
