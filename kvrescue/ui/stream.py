"""From an engine's events to what the page can take: one growing text, few and small updates (ui.md 3)."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections.abc import Callable, Iterator

from kvrescue.events import AnyEvent, to_line
from kvrescue.stop import Stop

UPDATE_SECONDS = 0.125
UPDATE_BYTES = 16_000
_DONE = None


def pump(events: Iterator[AnyEvent], lines: queue.Queue[str | Exception | None], seen: Callable[[AnyEvent], None]) -> None:
    """Drain ``events`` into ``lines`` as NDJSON; ends with None, or with the exception that stopped it."""
    try:
        for event in events:
            seen(event)
            lines.put(to_line(event) + "\n")
        lines.put(_DONE)
    except Exception as error:
        lines.put(error)


def paced(events: Iterator[AnyEvent], seen: Callable[[AnyEvent], None] = lambda _event: None) -> Iterator[str]:
    """Pieces of the run's NDJSON text: at most one every UPDATE_SECONDS, at most UPDATE_BYTES each.

    The engine runs in its own thread, so that a slow step never holds back what is already written.
    """
    lines: queue.Queue[str | Exception | None] = queue.Queue()
    # With the visitor's context: ZeroGPU finds in it whose time a call uses.
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(pump, events, lines, seen), name="engine", daemon=True).start()
    waiting, failed, done = "", None, False
    due = time.monotonic()
    while not done or waiting:
        if not done:
            added, done, failed = _collect(lines, due, bool(waiting))
            waiting += added
        time.sleep(max(0.0, due - time.monotonic()))
        piece, waiting = split(waiting)
        if piece:
            due = time.monotonic() + UPDATE_SECONDS
            yield piece
    if failed is not None:
        raise failed


def slowed(events: Iterator[AnyEvent], seconds: float, stop: Stop) -> Iterator[AnyEvent]:
    """The same events, with at least ``seconds`` between two committed steps, so that eyes can follow models that are faster than that.

    Their own times stay true: they tell when the engine wrote them, pauses included.
    """
    due = 0.0
    for event in events:
        yield event
        if event.type == "commit" and seconds > 0:
            stop.wait(max(0.0, due - time.monotonic()))
            due = time.monotonic() + seconds


def _collect(lines: queue.Queue[str | Exception | None], due: float, waiting: bool) -> tuple[str, bool, Exception | None]:
    """Everything that arrives until ``due``; when nothing waits yet, at least one line, however long it takes."""
    text = ""
    while True:
        timeout = None if not (text or waiting) else max(0.0, due - time.monotonic())
        try:
            item = lines.get(timeout=timeout)
        except queue.Empty:
            return text, False, None
        if isinstance(item, Exception):
            return text, True, item
        if item is _DONE:
            return text, True, None
        text += item


def split(text: str, most: int = UPDATE_BYTES) -> tuple[str, str]:
    """The longest beginning of ``text`` that fits into ``most`` UTF-8 bytes, and the rest."""
    head = text[:most]
    size = len(head.encode("utf-8"))
    if size > most:
        head = head.encode("utf-8")[:most].decode("utf-8", "ignore")
    return head, text[len(head) :]
