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


class Sessions:
    """Least recently used visitors are forgotten when there are too many or their traces grow too large."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: OrderedDict[str, Session] = OrderedDict()
        self._files = tempfile.TemporaryDirectory(prefix="kvrescue-traces-")

    def begin(self, key: str) -> Stop:
        """A new run of this visitor; an older one that still goes on is stopped."""
        stop = Stop()
        with self._lock:
            old = self._all.pop(key, None)
            if old and old.stop:
                old.stop.set()
            self._all[key] = Session(stop)
            while len(self._all) > MOST_SESSIONS or sum(len(one.trace) for one in self._all.values()) > MOST_BYTES:
                _, dropped = self._all.popitem(last=False)
                if dropped.stop:
                    dropped.stop.set()
        return stop

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

    def forget(self, key: str) -> None:
        self.stop(key)
        with self._lock:
            self._all.pop(key, None)

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
            return str(path)

    def drop_file(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)
