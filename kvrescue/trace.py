"""Traces on disk: one event a line (NDJSON), written as they come, read back with every promise checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from pydantic import ValidationError

from kvrescue.events import SCHEMA_VERSION, AnyEvent, Commit, End, Error, Header, from_line, to_line

MOST_BYTES = 10 << 20


class TraceError(ValueError):
    """A trace that cannot be trusted, told in one sentence with its line."""


def recorded(events: Iterable[AnyEvent], file: TextIO) -> Iterator[AnyEvent]:
    """Pass events through and write each at once, so that a killed process leaves everything up to then."""
    for event in events:
        file.write(to_line(event) + "\n")
        file.flush()
        yield event


def read_trace(path: str | Path) -> list[AnyEvent]:
    """All events of a trace file; TraceError when it is too large, malformed or incomplete, or holds several runs."""
    return parse_trace(_read(path))


def read_runs(path: str | Path) -> list[list[AnyEvent]]:
    """The runs of a file that holds one or more traces, one after another (a comparison)."""
    runs: list[list[AnyEvent]] = []
    for event in _parsed(_read(path)):
        if isinstance(event, Header) or not runs:
            runs.append([])
        runs[-1].append(event)
    for run in runs or [[]]:
        check(run)
    return runs


def _read(path: str | Path) -> bytes:
    path = Path(path)
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise TraceError(f"The trace has {size:,} bytes; at most {MOST_BYTES:,} are read.")
    return path.read_bytes()


def parse_trace(data: bytes) -> list[AnyEvent]:
    events = _parsed(data)
    check(events)
    return events


def _parsed(data: bytes) -> list[AnyEvent]:
    _check_version(data)
    events = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            events.append(from_line(line))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "event"
            raise TraceError(f"Line {number} of the trace is no valid event ({place}: {first['msg']}).") from None
    return events


def _check_version(data: bytes) -> None:
    """A trace of a newer program is named as such, before its unknown fields are."""
    try:
        version = json.loads(data.split(b"\n", 1)[0]).get("schema_version", 0)
    except (ValueError, AttributeError):
        return  # told below, with its line
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise TraceError(f"The trace has schema version {version}; this program reads up to {SCHEMA_VERSION}.")


def check(events: list[AnyEvent]) -> None:
    """Header first, one closing event last, seq without gaps, one run, token counts that add up."""
    if not events or not isinstance(events[0], Header):
        raise TraceError("The trace does not begin with a header.")
    for expected, event in enumerate(events):
        if event.seq != expected:
            raise TraceError(f"The trace has a gap: event {expected} is missing.")
        if expected and isinstance(event, Header):
            raise TraceError(f"Event {expected} is a second header.")
        if event.run != events[0].run:
            raise TraceError(f"Event {expected} belongs to another run.")
    closing = [event for event in events if isinstance(event, (End, Error))]
    if len(closing) != 1 or closing[0] is not events[-1]:
        raise TraceError("The trace does not end with one end or error event.")
    _check_counts(events, closing[0])


def _check_counts(events: list[AnyEvent], closing: End | Error) -> None:
    for source, count in closing.totals.items():
        if count.committed + count.discarded + count.aborted != count.generated:
            raise TraceError(f"The {source}'s token counts do not add up.")
        committed = sum(event.tokens for event in events if isinstance(event, Commit) and event.source == source)
        if committed != count.committed:
            raise TraceError(f"The {source}'s committed tokens are {committed} in the steps but {count.committed} in the end.")
