"""Cooperative stop: one flag for the Stop button, a closed tab and the wall-clock deadline."""

from __future__ import annotations

import threading
import time
from typing import Literal

StopReason = Literal["stopped", "deadline", "paused"]


class Stopped(Exception):
    """Raised inside the engine at the next check after a stop was asked for."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason: StopReason = reason


class Stop:
    """Thread-safe. Whoever wants the run to end calls :meth:`set`; the engine calls :meth:`check` every few tokens."""

    def __init__(self) -> None:
        self._flag = threading.Event()
        self._deadline: float | None = None
        self._pause: float | None = None

    def set(self) -> None:
        self._flag.set()

    @property
    def asked(self) -> bool:
        """Somebody wants the run to end."""
        return self._flag.is_set()

    def wait(self, seconds: float) -> None:
        """Sleep, but not longer than until somebody wants the run to end."""
        self._flag.wait(seconds)

    def start_clock(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def pause_after(self, seconds: float) -> None:
        """End the run at the first step that begins later than this, with everything before it committed: a later run may continue it."""
        self._pause = time.monotonic() + seconds

    def check_pause(self) -> None:
        if self._pause is not None and time.monotonic() > self._pause:
            raise Stopped("paused")

    def check(self) -> None:
        if self._flag.is_set():
            raise Stopped("stopped")
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise Stopped("deadline")
