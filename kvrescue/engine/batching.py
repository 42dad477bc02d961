"""Collects what candidates write into few ``tokens`` events: one for the first token, then one every few rounds."""

from __future__ import annotations

from kvrescue.engine.proposer import Growth
from kvrescue.events import TokenRow, quantise

ROUNDS = 4
"""Forwards of a source per event: small enough to look alive on a CPU, large enough to keep a trace small. A count, not a
clock, so that the same seed gives the same events."""


class TokenBatches:
    def __init__(self) -> None:
        self._rounds = 0
        self._waiting: dict[int, list[Growth]] = {}

    def add(self, grown: list[Growth]) -> list[TokenRow]:
        """Rows to send now; empty while more should be collected."""
        for growth in grown:
            self._waiting.setdefault(growth.candidate.index, []).append(growth)
        self._rounds += 1
        due = self._rounds == 1 or self._rounds % ROUNDS == 0 or any(growth.candidate.finish for growth in grown)
        return self.flush() if due else []

    def flush(self) -> list[TokenRow]:
        rows = [_row(growths) for _, growths in sorted(self._waiting.items())]
        self._waiting = {}
        return rows


def _row(growths: list[Growth]) -> TokenRow:
    candidate = growths[-1].candidate
    return TokenRow(
        cand=candidate.index,
        tokens=len(candidate.ids),
        text="".join(growth.text for growth in growths),
        ent=[quantise(growth.entropy) for growth in growths],
        suppressed=[growth.suppressed for growth in growths if growth.suppressed],
        gzip=[(position, quantise(ratio)) for growth in growths for position, ratio in growth.ratios],
    )
