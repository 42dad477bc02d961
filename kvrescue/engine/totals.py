"""The counters of a run: committed + discarded + aborted = generated, per source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kvrescue.cache.shape import Compaction
from kvrescue.config import Source
from kvrescue.engine.proposer import Candidate
from kvrescue.events import SourceCount


@dataclass
class Totals:
    generated: dict[Source, int] = field(default_factory=dict)
    committed: dict[Source, int] = field(default_factory=dict)
    aborted: dict[Source, int] = field(default_factory=dict)
    steps: dict[Source, int] = field(default_factory=dict)
    aborted_candidates: int = 0
    flagged_candidates: int = 0
    evictions: int = 0
    peak_resident: int = 0
    peak_kv_bytes: int = 0
    retentions: list[float] = field(default_factory=list)
    propose_seconds: float = 0.0
    score_seconds: float = 0.0
    evict_seconds: float = 0.0
    probes: int = 0
    probe_tokens: int = 0
    probe_seconds: float = 0.0
    suppressed: int = 0
    replayed: int = 0
    answer: str | None = None

    def generate(self, source: Source, tokens: int) -> None:
        self.generated[source] = self.generated.get(source, 0) + tokens

    def finish(self, candidate: Candidate) -> None:
        if candidate.finish == "aborted":
            self.aborted[candidate.source] = self.aborted.get(candidate.source, 0) + len(candidate.ids)
            self.aborted_candidates += 1
        elif candidate.verdicts:
            self.flagged_candidates += 1

    def commit(self, candidate: Candidate) -> None:
        source = candidate.source
        self.committed[source] = self.committed.get(source, 0) + len(candidate.ids)
        self.steps[source] = self.steps.get(source, 0) + 1

    def evict(self, compactions: Iterable[Compaction]) -> None:
        for compaction in compactions:
            self.evictions += 1
            self.evict_seconds += compaction.seconds
            self.peak_resident = max(self.peak_resident, compaction.before)

    @property
    def committed_tokens(self) -> int:
        return sum(self.committed.values())

    def closing(self, sources: Iterable[Source], bytes_per_token: int, seconds: float) -> dict[str, Any]:
        """The fields of an ``end`` or ``error`` event. Tokens neither committed nor aborted were discarded."""
        counts = {}
        for source in dict.fromkeys([*sources, *self.committed]):  # a continued run may have had other sources
            generated, committed, aborted = (table.get(source, 0) for table in (self.generated, self.committed, self.aborted))
            counts[source] = SourceCount(
                generated=generated,
                committed=committed,
                aborted=aborted,
                discarded=generated - committed - aborted,
                steps=self.steps.get(source, 0),
            )
        return {
            "answer": self.answer,
            "steps": sum(self.steps.values()),
            "totals": counts,
            "aborted_candidates": self.aborted_candidates,
            "flagged_candidates": self.flagged_candidates,
            "evictions": self.evictions,
            "peak_resident": self.peak_resident,
            "peak_kv_bytes": self.peak_resident * bytes_per_token,
            "mean_retention": sum(self.retentions) / len(self.retentions) if self.retentions else 1.0,
            "seconds": seconds,
            "propose_seconds": self.propose_seconds,
            "score_seconds": self.score_seconds,
            "evict_seconds": self.evict_seconds,
            "probes": self.probes,
            "probe_tokens": self.probe_tokens,
            "probe_seconds": self.probe_seconds,
            "suppressed": self.suppressed,
            "replayed": self.replayed,
        }
