"""Results on disk, one JSON line each: a kill at any moment loses the result under way and no other, and no result is stored twice.

A folder belongs to one set of settings (``identity``). Opened with others it is refused, so that a table never mixes two of them.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from kvrescue.config import ConfigError

RECORDS, IDENTITY = "records.jsonl", "config.json"


def write_whole(file: Path, text: str) -> None:
    """Write a file so that a kill leaves the old one or the new one."""
    fresh = file.with_name(file.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, file)


def digest(value: Any) -> str:
    """Short name of anything that is JSON; equal values have equal names."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


class Store:
    """Open with ``with``; ``done`` maps keys to stored values. One process at a time: the folder is locked while it is open."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder, self.identity = folder, json.loads(json.dumps(identity))
        self.done: dict[str, Any] = {}
        self._file: Any = None
        self._lock: Any = None

    def __enter__(self) -> Store:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.folder / ".lock", "a")
            _lock(self._lock, self.folder)
            self._check_identity()
            self._read()
            self._file = open(self.folder / RECORDS, "a", encoding="utf-8")
        except OSError as error:
            raise ConfigError("out", f"The folder {self.folder} cannot be written: {error.strerror}.") from None
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        for file in (self._file, self._lock):
            if file is not None:
                file.close()

    def add(self, key: str, value: Any) -> None:
        """Store a result for good. A key that is there already is left alone."""
        if key in self.done:
            return
        self._file.write(json.dumps({"key": key, "value": value}, ensure_ascii=False) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.done[key] = value

    def _check_identity(self) -> None:
        file = self.folder / IDENTITY
        if not file.exists():
            if (self.folder / RECORDS).exists():
                raise ConfigError("out", f"The folder {self.folder} holds results without their settings; choose another one.")
            write_whole(file, json.dumps(self.identity, indent=1) + "\n")
            return
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ConfigError("out", f"{file} is damaged; choose another folder.")
        if found != self.identity:
            name = next(name for name in sorted({*found, *self.identity}) if found.get(name) != self.identity.get(name))
            raise ConfigError("out", f"The folder {self.folder} holds results with another {name}; choose another folder, or the same settings.")

    def _read(self) -> None:
        """All whole lines; a torn last one, which a kill leaves, is cut off."""
        file = self.folder / RECORDS
        if not file.exists():
            return
        data = file.read_bytes()
        end = 0
        for line in data.splitlines(keepends=True):
            try:
                read = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                read = None
            if read is None:
                break
            self.done.setdefault(read["key"], read["value"])
            end += len(line)
        if data[end:].count(b"\n") > 1:
            raise ConfigError("out", f"{file} is damaged in line {data[:end].count(10) + 1}; choose another folder.")
        if end < len(data):
            os.truncate(file, end)


def _lock(file: Any, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on Windows; there two processes are not kept apart
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError("out", f"Another process is writing to {folder}.") from None
