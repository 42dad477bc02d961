"""Loops: the gzip ratio of the newest text falls below tau_cmp (algorithms.md 5.2).

gzip's fixed cost of about 20 bytes makes short windows read high, so nothing is judged before the window is full, and ratios of
different windows are never compared.
"""

from __future__ import annotations

import gzip

from kvrescue.guards.verdict import Verdict


def gzip_ratio(data: bytes) -> float:
    """Compressed over original size; above 1 for short or random data. ValueError on nothing."""
    if not data:
        raise ValueError("gzip_ratio needs at least one byte")
    return len(gzip.compress(data, mtime=0)) / len(data)


def tail_bytes(text: str, window: int) -> bytes | None:
    """UTF-8 of the newest text: ``window`` bytes, less what would split a character; None while there is not enough."""
    data = text[-window:].encode("utf-8", "replace")
    if len(data) < window:
        return None
    tail = data[-window:]
    return tail.decode("utf-8", "ignore").encode("utf-8") if tail[0] & 0xC0 == 0x80 else tail


class CompressionGuard:
    def __init__(self, window: int, tau: float, stride: int) -> None:
        self._window, self._tau, self._stride = window, tau, stride
        self._tokens = 0
        self.ratios: list[tuple[int, float]] = []
        """(tokens so far, ratio) of every check since the list was last emptied."""

    def update(self, text: str) -> Verdict | None:
        """``text``: the whole candidate so far; only its tail is read, every ``stride`` tokens."""
        self._tokens += 1
        if self._tokens % self._stride:
            return None
        tail = tail_bytes(text, self._window)
        if tail is None:
            return None
        ratio = gzip_ratio(tail)
        self.ratios.append((self._tokens, ratio))
        return Verdict("gzip", self._tokens, ratio, self._tau) if ratio < self._tau else None
