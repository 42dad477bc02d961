"""Where a step ends and what the answer is, decided on decoded text (no torch)."""

from __future__ import annotations


class StepDetector:
    """Finds the delimiter in text that arrives in pieces. A delimiter before the first visible character does not count.

    A piece may carry text behind the delimiter; the step ends with that piece, overhang included (algorithms.md 3.2).
    """

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter
        self._tail = ""
        self._visible = False

    def update(self, added: str) -> bool:
        """True when the step, with ``added``, holds a delimiter behind visible text."""
        if not self._visible:
            added = added.lstrip()
            self._visible = bool(added)
        window = self._tail + added
        self._tail = window[max(0, len(window) - len(self._delimiter) + 1) :]
        return self._delimiter in window


def is_empty(text: str) -> bool:
    return not text.strip()


def boxed_answer(text: str) -> str | None:
    """Content of the last balanced ``\\boxed{...}`` outside a think block; None when there is none or it is empty. Linear time."""
    visible = _after_thinking(text)
    openings: list[int] = []
    """For each open brace where its content begins if it is a \\boxed, else -1."""
    best: tuple[int, int] | None = None
    i = 0
    while i < len(visible):
        char = visible[i]
        start = _boxed_content(visible, i) if char == "\\" else None
        if start is not None:
            openings.append(start)
            i = start
            continue
        if char == "{":
            openings.append(-1)
        elif char == "}" and openings:
            start = openings.pop()
            best = (start, i) if start >= 0 else best  # an outer box closes after its inner ones and so wins
        i += 2 if char == "\\" else 1  # an escaped brace is no brace
    return visible[best[0] : best[1]].strip() or None if best else None


def _after_thinking(text: str) -> str:
    """What lies behind the last ``</think>``; nothing while a think block is open."""
    closed = text.rfind("</think>")
    visible = text if closed < 0 else text[closed + len("</think>") :]
    opened = visible.find("<think>")
    return visible if opened < 0 else visible[:opened]


def _boxed_content(text: str, at: int) -> int | None:
    """Index behind the opening brace of a ``\\boxed {`` that begins at ``at``."""
    if not text.startswith("\\boxed", at):
        return None
    i = at + len("\\boxed")
    while i < len(text) and text[i] == " ":
        i += 1
    return i + 1 if i < len(text) and text[i] == "{" else None
