"""What is kept of one run: a fold over its events. Reports, cards and the judge's training read it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from kvrescue.config import RunConfig
from kvrescue.events import AnyEvent
from kvrescue.guards import rejudge
from kvrescue.guards.compression import gzip_ratio, tail_bytes


class WrittenStep(TypedDict):
    """A committed step and what else was proposed for it."""

    source: str
    text: str
    score: float | None
    aborted: list[str]
    """Guards that ended base candidates of this step."""
    candidates: int


@dataclass(frozen=True)
class Record:
    """One finished run. Errors (of the lab's steps only) are those of committed steps, by what kind of step they are in."""

    right: bool
    answered: bool
    degenerate: bool
    """No answer at all, or the committed text loops (gzip), or what the base wrote of it is incoherent (entropy), read across steps. The
    entropy of a helper's step tells how unsure a small model is, which is no degeneration: no guard would abort it either."""
    first_error: str | None
    errors: dict[str, int]
    base_steps: int
    helper_steps: int
    base_tokens: int
    """Everything the base wrote: committed, discarded and aborted."""
    helper_tokens: int
    committed_tokens: int
    peak_resident: int
    aborted: int
    mean_resident: float
    """Tokens held by each layer and head, over prompt and steps."""
    retention: float
    """Held over seen, likewise."""
    probes: int
    suppressed: int
    reward: float | None
    """Least reward of a committed step, when there was a judge."""
    seconds: float
    kinds: dict[str, list[int]] = field(default_factory=dict)
    """Per kind of committed step of the lab: how many, and how many of them right."""
    answer: str | None = None
    parsed: bool = True
    """False: there is an answer, and it could not be read. Such a one is not right, and counted apart."""
    reason: str = ""
    """Why the run ended; ``"error"`` when it died."""
    peak_bytes: int = 0
    evictions: int = 0
    candidates: int = 0
    """Of the base, over all steps."""
    committed_by: dict[str, int] = field(default_factory=dict)
    """Committed tokens by source."""
    rewards: list[float] = field(default_factory=list)
    picks: dict[str, bool] = field(default_factory=dict)
    """For several runs of a problem: whether the one that a rule prefers is right."""


class Watcher:
    """Sees every event of a run, then makes its record."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.steps: list[WrittenStep] = []
        self.closing: Any = None
        self._stretches: list[list[float]] = []
        """Entropies of what the base wrote, one list for each stretch that no helper's step interrupts."""
        self._residents: list[int] = []
        self._writing: dict[tuple[str, int], list[float]] = {}
        self._aborted: list[str] = []
        self._written = 0
        self._base_candidates = 0

    def see(self, event: AnyEvent) -> None:
        if event.type == "step_begin":
            self._writing, self._aborted, self._written = {}, [], 0
        elif event.type == "tokens":
            for row in event.rows:
                self._writing.setdefault((event.source, row.cand), []).extend(row.ent)
        elif event.type == "abort":
            self._aborted.append(event.guard)
        elif event.type == "candidate":
            self._written += 1
            self._base_candidates += event.source == "base"
        elif event.type == "commit":
            step = WrittenStep(source=event.source, text=event.text, score=event.score, aborted=self._aborted, candidates=self._written)
            self.steps.append(step)
            if event.source == "base":
                if len(self.steps) < 2 or self.steps[-2]["source"] != "base":
                    self._stretches.append([])
                self._stretches[-1] += self._writing.get((event.source, event.cand), [])
        elif event.type == "kv":
            self._residents.append(event.resident)
        elif event.type in ("end", "error"):
            self.closing = event

    def record(self, right: bool) -> Record:
        """After the closing event; whether the answer is right is for a grader to say."""
        end = self.closing
        generated = {source: count.generated for source, count in end.totals.items()}
        rewards = [step["score"] for step in self.steps if step["score"] is not None]
        return Record(
            right=right,
            answered=end.answer is not None,
            degenerate=end.answer is None or self._trips(),
            first_error=None,
            errors={},
            base_steps=sum(step["source"] == "base" for step in self.steps),
            helper_steps=sum(step["source"] == "helper" for step in self.steps),
            base_tokens=generated.get("base", 0),
            helper_tokens=generated.get("helper", 0),
            committed_tokens=sum(count.committed for count in end.totals.values()),
            peak_resident=end.peak_resident,
            aborted=end.aborted_candidates,
            mean_resident=sum(self._residents) / max(1, len(self._residents)),
            retention=end.mean_retention,
            probes=end.probes,
            suppressed=end.suppressed,
            reward=min(rewards, default=None),
            seconds=end.seconds,
            answer=end.answer,
            reason=end.reason if end.type == "end" else "error",
            peak_bytes=end.peak_kv_bytes,
            evictions=end.evictions,
            candidates=self._base_candidates,
            committed_by={source: count.committed for source, count in end.totals.items()},
            rewards=rewards,
        )

    def _trips(self) -> bool:
        config, text = self.config, "".join(step["text"] for step in self.steps)
        ratios = []
        for end in range(config.cmp_window, len(text) + 1, 16):
            tail = tail_bytes(text[:end], config.cmp_window)
            if tail:
                ratios.append((end, gzip_ratio(tail)))
        limits: dict[str, Any] = {"ent_window": config.ent_window, "tau_ent": config.tau_ent, "tau_cmp": config.tau_cmp}
        return any(rejudge(stretch, ratios, **limits) for stretch in [[], *self._stretches])


def as_value(record: Record) -> dict[str, Any]:
    """For a results file; :func:`from_value` reads it back."""
    return {name: round(value, 5) if isinstance(value, float) else value for name, value in asdict(record).items()}


def from_value(value: dict[str, Any]) -> Record:
    return Record(**value)
