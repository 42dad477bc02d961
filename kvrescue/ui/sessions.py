"""Who runs what: the stop flag and the last trace of each visitor, in memory, bounded, never logged."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from kvrescue.stop import Stop

MOST_SESSIONS = 256
MOST_BYTES = 256 << 20


@dataclass
class Session:
    stop: Stop | None = None
    run: str = ""
    trace: str = field(default="", repr=False)
    file: str = ""
    """Where the trace was written for download."""


class Sessions:
    """Least recently used visitors are forgotten when there are too many or their traces grow too large."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: OrderedDict[str, Session] = OrderedDict()
        self._called_off: set[str] = set()
        """Visitors who pressed Stop while their run was still waiting for its turn."""
        self._files = tempfile.TemporaryDirectory(prefix="kvrescue-traces-")

    def expect(self, key: str) -> None:
        """The visitor pressed Run: from now on Stop means this run, even while it waits for its turn."""
        with self._lock:
            self._called_off.discard(key)

    def begin(self, key: str) -> Stop:
        """A new run of this visitor; an older one that still goes on is stopped."""
        stop = Stop()
        with self._lock:
            self._drop(key)
            self._all[key] = Session(stop)
            if key in self._called_off:
                self._called_off.discard(key)
                stop.set()
            while len(self._all) > MOST_SESSIONS or sum(len(one.trace) for one in self._all.values()) > MOST_BYTES:
                self._drop(next(iter(self._all)))
        return stop

    def _drop(self, key: str) -> None:
        session = self._all.pop(key, None)
        if session and session.stop:
            session.stop.set()
        if session and session.file:
            Path(session.file).unlink(missing_ok=True)

    def finish(self, key: str, stop: Stop, run: str, trace: str) -> None:
        """Keep the trace of a run, unless the visitor has begun another one meanwhile."""
        with self._lock:
            session = self._all.get(key)
            if session is not None and session.stop is stop:
                session.stop, session.run, session.trace = None, run, trace

    def stop(self, key: str) -> None:
        with self._lock:
            session = self._all.get(key)
            if session and session.stop:
                session.stop.set()
            else:
                self._called_off.add(key)

    def forget(self, key: str) -> None:
        with self._lock:
            self._drop(key)
            self._called_off.discard(key)

    def trace_file(self, key: str) -> str | None:
        """The visitor's last trace as a file to download."""
        with self._lock:
            session = self._all.get(key)
            if not session or not session.trace:
                return None
            path = Path(self._files.name) / f"kvrescue-{session.run}.ndjson"
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(session.trace)
            session.file = str(path)
            return session.file
