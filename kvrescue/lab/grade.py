"""The lab's own checker: reads a story back from its text, and says of every step whether it is right, and if not, why.

A step is judged against the story and against what was written before it, so a wrong total is blamed once, where it
appears. This is the perfect judge of the lab; no model is asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from kvrescue.config import ConfigError
from kvrescue.lab import language, story
from kvrescue.lab.story import Fact, Story

Error = Literal["recall", "arithmetic", "form"]
"""recall: a quantity, name or order that the story or the lines above say otherwise; arithmetic: right operands, wrong sign or
result; form: no step of the lab, or one out of turn."""

_FACT = re.compile(r"(?P<name>[A-Z][a-z]+) (?P<verb>[a-z]+) (?:(?P<packs>\d+) (?P<kind>[a-z]+) of )?(?P<amount>\d+) (?P<item>[a-z]+)")
_QUESTION = re.compile(
    r"The (?P<place>[a-z]+) holds (?P<start>\d+) (?P<item>[a-z]+)\. Count (?P<names>[A-Za-z, ]+)\. "
    r"How many [a-z]+ are in the [a-z]+ at the end\?$"
)
_STEPS: dict[str, re.Pattern[str]] = {
    "stray": re.compile("|".join(map(re.escape, story.STRAYS))),
    "start": re.compile(r"At first there are (?P<total>\d+) (?P<item>[a-z]+)\."),
    "recall": re.compile(rf"(?P<opener>First|Next), {_FACT.pattern}\."),
    "product": re.compile(r"That is (?P<packs>\d+) \* (?P<amount>\d+) = (?P<result>\d+) (?P<item>[a-z]+)\."),
    "sum": re.compile(r"So (?P<a>\d+) (?P<sign>[+-]) (?P<b>\d+) = (?P<result>\d+) (?P<item>[a-z]+)\."),
    "check": re.compile(r"(?P<opener>Wait|Hmm), (?P<a>\d+) (?P<sign>[+-]) (?P<b>\d+) = (?P<result>\d+), that is right\."),
    "back": re.compile(r"Hmm, there are (?P<total>\d+) (?P<item>[a-z]+)\."),
    "wrap-1": re.compile(re.escape(story.WRAP_UP[0])),
    "wrap-2": re.compile(r"The (?P<place>[a-z]+) holds (?P<total>\d+) (?P<item>[a-z]+) at the end\."),
    "wrap-3": re.compile(r"Nobody was left out, so there are (?P<total>\d+) (?P<item>[a-z]+)\."),
    "wrap-4": re.compile(r"It is still (?P<total>\d+) (?P<item>[a-z]+), that is right\."),
    "answer": re.compile(r"The answer is \\boxed\{ (?P<total>\d+) \}\."),
}
KINDS = tuple(_STEPS)


@dataclass(frozen=True)
class Grade:
    """``kind`` of the step (empty when it is none of the lab's), and what is wrong with it."""

    kind: str
    error: Error | None = None

    @property
    def right(self) -> bool:
        return self.error is None


def read_story(text: str) -> Story:
    """The story behind a problem's text; ConfigError with field ``problem`` when it is none."""
    plain = language.normal(text)
    question = _QUESTION.search(plain)
    if question is None:
        raise ConfigError("problem", "This is no story of the lab: it must end with its question (The ... holds ... . Count ... . How many ...?).")
    told = {}
    for sentence in plain[: question.start()].split("."):
        found = _FACT.search(sentence)
        if found and found["verb"] in story.PLUS + story.MINUS:
            told[found["name"]] = _fact(found)
    names = re.split(r", | and ", question["names"])
    missing = [name for name in names if name not in told]
    if missing:
        raise ConfigError("problem", f"The question counts {', '.join(missing)}, but the story does not say what happened there.")
    total, totals = int(question["start"]), []
    for name in names:
        total += told[name].total if told[name].sign == "+" else -told[name].total
        totals.append(total)
    facts = tuple(told[name] for name in names)
    return Story(question["item"], question["place"], int(question["start"]), facts, plain, "", tuple(totals))


def _fact(found: re.Match[str]) -> Fact:
    return Fact(found["name"], found["verb"], int(found["packs"] or 0), found["kind"] or "", int(found["amount"]))


@dataclass
class _Sum:
    before: int
    sign: str
    amount: int
    after: int


@dataclass
class Ledger:
    """Where a solution stands, as written so far. ``grade`` looks at a next step, ``commit`` takes it in."""

    story: Story
    total: int | None = None
    facts: int = 0
    """Recalled so far."""
    pending: Fact | None = None
    """Recalled, not yet added; packs are 0 once multiplied."""
    product: int | None = None
    sums: list[_Sum] = field(default_factory=list)
    checks: int = 0
    """Looks back at the newest sum."""
    wrapped: int = 0
    """The line of the wordy end that was written last; once begun it is gone through, and all but its first line may come again."""
    answered: bool = False

    def grade(self, text: str) -> Grade:
        kind, found = _parse(text)
        if found is None or kind not in self._allowed():
            return Grade(kind, "form")
        return Grade(kind, self._error(kind, found))

    def _allowed(self) -> tuple[str, ...]:
        if self.answered:
            return ()
        if self.total is None:
            return ("start",)
        if self.pending is not None:
            return ("product",) if self.pending.packs and self.product is None else ("sum",)
        if self.wrapped:
            return (f"wrap-{self.wrapped + 1}",) if self.wrapped < len(story.WRAP_UP) else ("answer", "wrap-2")
        go_on = ("answer", "wrap-1") if self.facts >= len(self.story.facts) else ("recall", "back")
        return (*go_on, "check") if self.sums and self.checks < story.MOST_CHECKS else go_on

    def _error(self, kind: str, found: re.Match[str]) -> Error | None:
        told = self.story
        groups = found.groupdict()
        if groups.get("item", told.item) != told.item or groups.get("place", told.place) != told.place:
            return "recall"
        if kind == "start":
            return None if int(found["total"]) == told.start else "recall"
        if kind == "recall":
            opener = "Next" if self.facts else "First"
            return None if _fact(found) == told.facts[self.facts] and found["opener"] == opener else "recall"
        if kind in ("answer", "back") or kind.startswith("wrap"):
            return None if kind == "wrap-1" or int(found["total"]) == self.total else "recall"
        if kind == "product":
            assert self.pending is not None
            packs, amount, result = int(found["packs"]), int(found["amount"]), int(found["result"])
            if (packs, amount) != (self.pending.packs, self.pending.amount):
                return "recall"
            return None if packs * amount == result else "arithmetic"
        a, sign, b, result = int(found["a"]), found["sign"], int(found["b"]), int(found["result"])
        if kind == "check" and found["opener"] != ("Hmm" if self.checks % 2 else "Wait"):
            return "form"
        before, right_sign, amount = self._operands(kind)
        if (a, b) != (before, amount):
            return "recall"
        return None if sign == right_sign and (a + b if sign == "+" else a - b) == result else "arithmetic"

    def _operands(self, kind: str) -> tuple[int | None, str, int]:
        if kind == "sum":
            assert self.pending is not None
            return self.total, self.pending.sign, self.product if self.product is not None else self.pending.total
        last = self.sums[-1]
        if self.checks % 2:
            return last.before, last.sign, last.amount
        return last.after, "-" if last.sign == "+" else "+", last.amount

    def commit(self, text: str) -> Grade:
        """Take a step in as it is written, right or wrong; one that is no step of the lab, or out of turn, changes nothing."""
        grade = self.grade(text)
        kind, found = _parse(text)
        if found is None or kind not in self._allowed():
            return grade
        if kind == "start":
            self.total = int(found["total"])
        elif kind == "recall":
            self.pending, self.product = _fact(found), None
            self.facts += 1
        elif kind.startswith("wrap"):
            self.wrapped = int(kind[-1])
        elif kind == "product":
            self.product = int(found["result"])
        elif kind == "sum":
            self.sums.append(_Sum(int(found["a"]), found["sign"], int(found["b"]), int(found["result"])))
            self.total, self.pending, self.checks = int(found["result"]), None, 0
        elif kind == "check":
            self.checks += 1
        elif kind == "answer":
            self.answered = True
        return grade


def _parse(text: str) -> tuple[str, re.Match[str] | None]:
    step = text.strip()
    for kind, pattern in _STEPS.items():
        found = pattern.fullmatch(step)
        if found:
            return kind, found
    return "", None


def grade_steps(told: Story, steps: list[str]) -> list[Grade]:
    """One grade a step of a whole solution."""
    ledger = Ledger(told)
    return [ledger.commit(step) for step in steps]
