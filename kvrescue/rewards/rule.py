"""``rule``: what can be checked in a step without any model. A stand-in for a trained PRM, and it says so.

reward = 0.5 for a step that claims nothing; 0.5 + 0.4 * right / claims when every ``a op b = c`` holds, 0.1 + 0.2 * right / claims when one
does not; + 0.1 for a well-formed box, and a malformed box, a repeated step or a loop inside the step caps it at 0.15.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from kvrescue.engine.steps import boxed_answer

_MOST_CHARS = 8_000
_NUMBER = r"\d{1,15}(?:,\d{3}){0,5}(?:\.\d{1,15})?"
_TOKEN = re.compile(rf"(?P<number>{_NUMBER})|(?P<op>[-+*/^=()]|[×·÷−]|\bx\b)|(?P<word>[^\W\d_]+)|(?P<other>\S)")
_SYMBOLS = {"×": "*", "·": "*", "x": "*", "÷": "/", "−": "-"}
_LATEX = {"\\times": "×", "\\cdot": "·", "\\div": "÷", "\\%": "%"} | dict.fromkeys(
    ["\\left", "\\right", "\\$", "\\,", "\\(", "\\)", "\\[", "\\]"], " "
)
_FRACTION = re.compile(rf"\\d?frac\{{({_NUMBER})\}}\{{({_NUMBER})\}}")
_IGNORED = set("$€£%{}[]")
_UNITS_PER_GAP = 3
_LOOP_GRAM, _LOOP_REPEATS = 4, 4


def rule_score(problem: str, committed: Sequence[str], step: str) -> tuple[float, dict[str, Any]]:
    """Reward in [0, 1] of ``step`` after ``committed`` steps, and what was found."""
    step = step[:_MOST_CHARS]
    found = claims(step)
    wrong = [text for text, right in found if not right]
    box = "none" if "\\boxed" not in step else "ok" if boxed_answer(step) else "malformed"
    repeats = _normal(step) in {_normal(text) for text in committed} and bool(_normal(step))
    loops = _loops(step)
    score = 0.5
    if found:
        share = (len(found) - len(wrong)) / len(found)
        score = 0.1 + 0.2 * share if wrong else 0.5 + 0.4 * share
    if box == "ok":
        score += 0.1
    if box == "malformed" or repeats or loops:
        score = min(score, 0.15)
    return min(score, 1.0), {"claims": len(found), "wrong": wrong[:5], "boxed": box, "repeats": repeats, "loops": loops}


def claims(text: str) -> list[tuple[str, bool]]:
    """Every ``a op b ... = c`` in the text, with whether it holds. A chain ``a = b = c`` is two claims."""
    found = []
    for line in _plain(text).splitlines():
        for run in _runs(line):
            sides = _split(run, "=")
            for left, right in pairwise(sides):
                claim = _claim(left, right)
                if claim:
                    found.append(claim)
    return found


def _plain(text: str) -> str:
    for latex, symbol in _LATEX.items():
        text = text.replace(latex, symbol)
    return _FRACTION.sub(r"(\1/\2)", text)


def _runs(line: str) -> list[list[str]]:
    """Stretches of numbers and operators; currency signs and up to three words (units) between them are skipped."""
    runs: list[list[str]] = [[]]
    words = 0
    for match in _TOKEN.finditer(line):
        if match["number"] or match["op"]:
            token = match["number"] or _SYMBOLS.get(match["op"], match["op"])
            if words and runs[-1] and not _joins(runs[-1][-1], token):
                runs.append([])
            runs[-1].append(token.replace(",", ""))
            words = 0
        elif match["word"] and runs[-1] and words < _UNITS_PER_GAP:
            words += 1
        elif match["other"] in _IGNORED:
            continue
        elif runs[-1]:
            runs.append([])
            words = 0
    return [run for run in runs if "=" in run]


def _joins(before: str, after: str) -> bool:
    """Units may stand between a value and an operator, not between two values."""
    return not ((before[0].isdigit() or before == ")") and (after[0].isdigit() or after == "("))


def _split(tokens: list[str], separator: str) -> list[list[str]]:
    sides: list[list[str]] = [[]]
    for token in tokens:
        if token == separator:
            sides.append([])
        else:
            sides[-1].append(token)
    return [_without_stray_brackets(side) for side in sides]


def _without_stray_brackets(side: list[str]) -> list[str]:
    """A claim inside brackets, ``(so 3 + 4 = 7)``, leaves one open on the left and one on the right."""
    opened, closed = side.count("("), side.count(")")
    first = next((i for i, token in enumerate(side) if token != "("), len(side))
    last = next((i for i, token in enumerate(reversed(side)) if token != ")"), len(side))
    return side[min(first, max(0, opened - closed)) : len(side) - min(last, max(0, closed - opened))]


def _claim(left: list[str], right: list[str]) -> tuple[str, bool] | None:
    """None unless one side computes something and both have a value."""
    if len(left) < 3 and len(right) < 3:
        return None
    a, b = _value(left), _value(right)
    if a is None or b is None:
        return None
    return f"{' '.join(left)} = {' '.join(right)}", _same(a, b, [token for token in [*left, *right] if token[0].isdigit()])


def _same(a: Fraction, b: Fraction, numbers: list[str]) -> bool:
    """Equal, or equal to the precision of the decimals that were written: 10 / 3 = 3.33."""
    places = max((len(number.partition(".")[2]) for number in numbers), default=0)
    return a == b or (places > 0 and abs(a - b) <= Fraction(1, 2 * 10**places) + Fraction(1, 10 ** (places + 6)))


def _value(tokens: list[str]) -> Fraction | None:
    """Exact value of an expression; None when it is none, divides by zero or grows absurd. No eval."""
    parser = _Parser(tokens[:64])
    try:
        value = parser.sum()
    except (_NoValue, ZeroDivisionError, IndexError, RecursionError):
        return None
    return value if parser.at == len(parser.tokens) else None


class _NoValue(Exception):
    pass


class _Parser:
    """Recursive descent over numbers, + - * / ^ and brackets."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at = tokens, 0

    def _take(self, wanted: str) -> str | None:
        if self.at < len(self.tokens) and self.tokens[self.at] in wanted:
            self.at += 1
            return self.tokens[self.at - 1]
        return None

    def sum(self) -> Fraction:
        value = self.product()
        while op := self._take("+-"):
            other = self.product()
            value = value + other if op == "+" else value - other
        return value

    def product(self) -> Fraction:
        value = self.power()
        while op := self._take("*/"):
            other = self.power()
            value = value * other if op == "*" else value / other
        return value

    def power(self) -> Fraction:
        value = self.atom()
        if self._take("^"):
            exponent = self.atom()
            if exponent.denominator != 1 or abs(exponent) > 20 or abs(value) > 10**9:
                raise _NoValue
            value = value ** int(exponent)
        return value

    def atom(self) -> Fraction:
        if self._take("-"):
            return -self.atom()
        if self._take("("):
            value = self.sum()
            if not self._take(")"):
                raise _NoValue
            return value
        token = self.tokens[self.at]
        if not token[0].isdigit():
            raise _NoValue
        self.at += 1
        return Fraction(token)


def _normal(text: str) -> str:
    return " ".join(text.lower().split())


def _loops(step: str) -> bool:
    """The same few words again and again inside one step."""
    words = step.split()
    grams = Counter(tuple(words[i : i + _LOOP_GRAM]) for i in range(len(words) - _LOOP_GRAM + 1))
    return bool(grams) and max(grams.values()) >= _LOOP_REPEATS
