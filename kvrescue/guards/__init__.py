"""Guards: pure, cheap judges of one candidate as its tokens come. No torch here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvrescue.config import RunConfig
from kvrescue.guards.compression import CompressionGuard
from kvrescue.guards.entropy import EntropyGuard
from kvrescue.guards.verdict import Verdict


class CandidateGuards:
    """Both guards over one candidate. Each reports once; entropy first when both trip on one token."""

    def __init__(self, config: RunConfig) -> None:
        self._entropy = EntropyGuard(config.ent_window, config.tau_ent)
        self._compression = CompressionGuard(config.cmp_window, config.tau_cmp, config.cmp_stride)
        self._reported: set[str] = set()

    def update(self, entropy: float, text: str) -> Verdict | None:
        """``entropy`` of the new token in nats; ``text`` of the candidate with it."""
        verdicts = [self._entropy.update(entropy), self._compression.update(text)]
        for verdict in verdicts:
            if verdict is not None and verdict.guard not in self._reported:
                self._reported.add(verdict.guard)
                return verdict
        return None

    def drain_ratios(self) -> list[tuple[int, float]]:
        """gzip checks since the last call."""
        ratios, self._compression.ratios = self._compression.ratios, []
        return ratios


def rejudge(entropies: Sequence[float], ratios: Iterable[tuple[int, float]], *, ent_window: int, tau_ent: float, tau_cmp: float) -> Verdict | None:
    """The first verdict that other thresholds would have given on recorded signals. It cannot know what was never written."""
    guard = EntropyGuard(ent_window, tau_ent)
    entropy = next((verdict for value in entropies if (verdict := guard.update(value))), None)
    loop = next((Verdict("gzip", position, ratio, tau_cmp) for position, ratio in ratios if ratio < tau_cmp), None)
    if entropy is None or loop is None:
        return entropy or loop
    return entropy if entropy.position <= loop.position else loop


__all__ = ["CandidateGuards", "Verdict", "rejudge"]
