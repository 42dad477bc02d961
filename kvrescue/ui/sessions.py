"""Who runs what: the stop flag and the last trace of each visitor, in memory, bounded, never logged."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from kvrescue.stop import Stop

MOST_SESSIONS = 256
MOST_BYTES = 256 << 20
MOST_SECONDS = 6 * 3600.0


@dataclass
class Session:
    stop: Stop | None = None
    run: str = ""
    trace: str = field(default="", repr=False)
    file: str = ""
    """Where the trace was written for download."""
    since: float = field(default_factory=time.monotonic)


class Sessions:
    """Traces of visitors who ran longest ago are forgotten when there are too many, or they are too large or too old."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: OrderedDict[str, Session] = OrderedDict()
        self._called_off: set[str] = set()
        """Visitors who pressed Stop while their run was still waiting for its turn."""
        self._waiting: OrderedDict[str, None] = OrderedDict()
        """Visitors who pressed Run and whose run has not begun, in their order."""
        self._counts: Counter[str] = Counter()
        self._files = tempfile.TemporaryDirectory(prefix="kvrescue-traces-")

    def expect(self, key: str) -> None:
        """The visitor pressed Run: from now on Stop means this run, even while it waits for its turn."""
        with self._lock:
            self._called_off.discard(key)
            self._waiting[key] = None

    def ahead(self, key: str) -> int:
        """Runs of other visitors that come before this one's: those that go on and those that wait longer."""
        with self._lock:
            running = sum(one.stop is not None for other, one in self._all.items() if other != key)
            waiting = list(self._waiting)
            return running + (waiting.index(key) if key in self._waiting else len(waiting))

    def health(self) -> dict[str, int]:
        """Counts of this process, without anybody's text."""
        with self._lock:
            return {
                "visitors": len(self._all),
                "running": sum(one.stop is not None for one in self._all.values()),
                "waiting": len(self._waiting),
                "trace_bytes": sum(len(one.trace) for one in self._all.values()),
                **{name: self._counts[name] for name in ("begun", "finished", "failed")},
            }

    def begin(self, key: str) -> Stop:
        """A new run of this visitor; an older one that still goes on is stopped."""
        stop = Stop()
        with self._lock:
            self._drop(key)
            self._waiting.pop(key, None)
            self._counts["begun"] += 1
            self._all[key] = Session(stop)
            if key in self._called_off:
                self._called_off.discard(key)
                stop.set()
            while self._too_much():
                self._drop(next(iter(self._all)))
        return stop

    def _too_much(self) -> bool:
        oldest = next(iter(self._all.values()))
        too_old = oldest.stop is None and time.monotonic() - oldest.since > MOST_SECONDS
        return too_old or len(self._all) > MOST_SESSIONS or sum(len(one.trace) for one in self._all.values()) > MOST_BYTES

    def _drop(self, key: str) -> None:
        session = self._all.pop(key, None)
        if session and session.stop:
            session.stop.set()
        if session and session.file:
            Path(session.file).unlink(missing_ok=True)

    def finish(self, key: str, stop: Stop, run: str, trace: str, failed: bool = False) -> None:
        """Keep the trace of a run, unless the visitor has begun another one meanwhile."""
        with self._lock:
            self._counts["failed" if failed else "finished"] += 1
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
            self._waiting.pop(key, None)

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
