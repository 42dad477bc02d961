"""Is the answer right? Mathematics is compared by Math-Verify in a process of its own, which is killed when it takes too long.

Math-Verify limits its own time with signals, which work in a main thread only: elsewhere it says "false" without a word. So it runs
in a child's main thread with its limits off, and the limit is the parent's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Literal

from kvrescue import events

Kind = Literal["lab", "math", "choice"]
MOST_REFERENCE_CHARS = 200
_SECONDS = 10.0
_START_SECONDS = 120.0


@dataclass(frozen=True)
class Verdict:
    right: bool
    parsed: bool = True
    """False: the answer could not be read, or took too long to compare. It is not right, and reports count it apart."""


class Grader:
    """Open with ``with``. The child starts with the first answer that needs it, and again after it was killed."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._child: tuple[object, Connection] | None = None

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def grade(self, answer: str | None, gold: str, kind: Kind) -> Verdict:
        """``answer``: the content of the last box, None when the run ended without one (which is never right)."""
        if answer is None:
            return Verdict(False)
        if kind == "lab":
            return Verdict(answer == gold)
        if kind == "choice":
            letter = choice_of(answer)
            return Verdict(letter == gold.strip().upper(), letter is not None)
        if answer.strip() == gold.strip():
            return Verdict(True)
        return self._verify(answer, gold)

    def _verify(self, answer: str, gold: str) -> Verdict:
        pipe = self._started()
        try:
            pipe.send((answer, gold))
            if pipe.poll(self._seconds):
                right, parsed = pipe.recv()
                return Verdict(right, parsed)
        except (EOFError, OSError):
            pass  # the child died of this answer
        self._stop()
        return Verdict(False, False)

    def _started(self) -> Connection:
        if self._child is None:
            context = get_context("spawn")
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._child = (process, ours)
            if not ours.poll(_START_SECONDS) or ours.recv() != "ready":
                self._stop()
                raise RuntimeError("the grading process did not start")
        return self._child[1]

    def _stop(self) -> None:
        if self._child is not None:
            process, pipe = self._child
            pipe.close()
            process.kill()  # type: ignore[attr-defined]
            process.join()  # type: ignore[attr-defined]
            self._child = None


def graded(stream: Iterator[events.AnyEvent], reference: str, kind: Kind) -> Iterator[events.AnyEvent]:
    """The same events; with a ``reference`` the header names it and the end says whether the answer is right (an ended run without an
    answer is not)."""

    def right(answer: str | None) -> bool:
        with Grader() as grader:
            return grader.grade(answer, reference, kind).right

    return (marked(event, reference, right) for event in stream) if reference else stream


def marked(event: events.AnyEvent, reference: str, right: Callable[[str | None], bool]) -> events.AnyEvent:
    """A header that names the reference, an end that says whether it was met; any other event as it is."""
    if isinstance(event, events.Header):
        return event.model_copy(update={"reference": reference})
    if isinstance(event, events.End):
        return event.model_copy(update={"correct": right(event.answer)})
    return event


def choice_of(answer: str) -> str | None:
    """The letter A to E that an answer to a multiple-choice question names; None when it names none, or several."""
    plain = re.sub(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}", r"\1", answer)
    found = set(re.findall(r"(?<![A-Za-z])([A-Ea-e])(?![A-Za-z])", plain))
    letters = {letter.upper() for letter in found}
    return letters.pop() if len(letters) == 1 else None


def _serve(pipe: Connection) -> None:
    import logging

    from math_verify import parse, verify

    logging.disable(logging.CRITICAL)  # it would quote the texts
    pipe.send("ready")
    while True:
        try:
            answer, gold = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            wanted = parse(_boxed(gold), parsing_timeout=None)
            got = parse(_boxed(answer), parsing_timeout=None)
            pipe.send((bool(wanted and got and verify(wanted, got, timeout_seconds=None)), bool(wanted and got)))
        except Exception:  # its parser raises whatever it meets
            pipe.send((False, False))


def _boxed(text: str) -> str:
    return text if "\\boxed" in text else f"\\boxed{{{text}}}"
