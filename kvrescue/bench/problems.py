"""Problems by name: stories of the lab, local JSONL files, and the papers' data sets from the hub.

A set is named ``NAME[:COUNT[:DIFFICULTY]]``: ``lab:12``, ``lab:50:hard``, ``gsm8k:100``, ``my/problems.jsonl:20``. The first COUNT
problems in the set's own order are taken, all of them without a count (100 of the lab, which never ends).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from kvrescue.bench.grading import Kind
from kvrescue.config import ConfigError, check_problem
from kvrescue.lab.story import DIFFICULTIES, Difficulty, held_out


@dataclass(frozen=True)
class Problem:
    id: str
    text: str
    answer: str
    kind: Kind = "math"


@dataclass(frozen=True)
class HubSet:
    """A data set of the hub at one revision, and how its rows are read: (text, answer)."""

    repo: str
    revision: str
    split: str
    read: Callable[[dict[str, Any]], tuple[str, str]]
    name: str | None = None
    kind: Kind = "math"


def _gsm8k(row: dict[str, Any]) -> tuple[str, str]:
    return row["question"], row["answer"].rsplit("####", 1)[1].strip().replace(",", "")


def _olympiad(row: dict[str, Any]) -> tuple[str, str]:
    return row["question"], ", ".join(row["final_answer"])


def _gpqa(row: dict[str, Any]) -> tuple[str, str]:
    """The four choices in an order that the question itself decides, so that the right one is not always the first."""
    import random

    right = row["Correct Answer"].strip()
    choices = [right, *(row[f"Incorrect Answer {k}"].strip() for k in (1, 2, 3))]
    random.Random(row["Question"]).shuffle(choices)
    listed = "\n".join(f"{letter}) {choice}" for letter, choice in zip("ABCD", choices, strict=True))
    return f"{row['Question'].strip()}\n\n{listed}\n\nAnswer with the letter of the right choice in the box.", "ABCD"[choices.index(right)]


def _columns(question: str, answer: str) -> Callable[[dict[str, Any]], tuple[str, str]]:
    return lambda row: (str(row[question]), str(row[answer]))


# Commits as several public projects name them: the hub could not be asked.
HUB_SETS: dict[str, HubSet] = {
    "gsm8k": HubSet("openai/gsm8k", "e53f048856ff4f594e959d75785d2c2d37b678ee", "test", _gsm8k, "main"),
    "math500": HubSet("HuggingFaceH4/MATH-500", "ff5b20257d8185524591543f8ff5993951537bb8", "test", _columns("problem", "answer")),
    "aime24": HubSet("HuggingFaceH4/aime_2024", "2fe88a2f1091d5048c0f36abc874fb997b3dd99a", "train", _columns("problem", "answer")),
    "aime25": HubSet("math-ai/aime25", "563bb8404243c5f09de6ec262f2db674fe5bce9b", "test", _columns("problem", "answer")),
    "amc23": HubSet("math-ai/amc23", "80815d37005feb82cd7f8fbc6901d5d3eff43057", "test", _columns("question", "answer")),
    "olympiadbench": HubSet("Hothan/OlympiadBench", "91184b52131e7fc9455fef848035173aea8cc01a", "train", _olympiad, "OE_TO_maths_en_COMP"),
    "gpqa-diamond": HubSet("Idavidrein/gpqa", "633f5ee89ab8ad4522a9f850766b73f62147ffdd", "train", _gpqa, "gpqa_diamond", "choice"),
}
_LAB_COUNT = 100
_ID, _TEXT, _ANSWER = ("id", "unique_id"), ("problem", "question"), ("answer", "final_answer")


def find(spec: str, seed: int = 0) -> list[Problem]:
    """The problems that ``spec`` names; ``seed`` draws those of the lab. ConfigError with field ``problems``."""
    name, count, rest = _parts(spec)
    if name == "lab":
        level = rest or "medium"
        if level not in DIFFICULTIES:
            raise ConfigError("problems", f"problems is {spec!r}; the difficulty is one of {', '.join(DIFFICULTIES)}.")
        return [_story(seed, index, cast(Difficulty, level)) for index in range(count or _LAB_COUNT)]
    if rest:
        raise ConfigError("problems", f"problems is {spec!r}; only the lab has difficulties. Write NAME:COUNT.")
    found = _from_hub(name, HUB_SETS[name], count) if name in HUB_SETS else _from_file(Path(name).expanduser(), count)
    if not found:
        raise ConfigError("problems", f"{name} holds no problems.")
    return found


def find_sets(specs: str, seed: int = 0) -> dict[str, list[Problem]]:
    """Several sets, with commas between them, each under the name that it was given; no two problems share an id."""
    sets: dict[str, list[Problem]] = {}
    seen: set[str] = set()
    for spec in [part.strip() for part in specs.split(",")]:
        sets[spec] = find(spec, seed)
        for problem in sets[spec]:
            if problem.id in seen:
                raise ConfigError("problems", f"problems is {specs!r}; two of its sets hold a problem called {problem.id!r}.")
            seen.add(problem.id)
    return sets


def _parts(spec: str) -> tuple[str, int | None, str]:
    parts = re.fullmatch(r"(.+?)(?::(\d{1,7})(?::([a-z]+))?)?", spec.strip())
    if parts is None or (parts[2] is not None and int(parts[2]) == 0):
        raise ConfigError("problems", f"problems is {spec!r}; allowed: NAME or NAME:COUNT with a count from 1, such as lab:12.")
    return parts[1], int(parts[2]) if parts[2] else None, parts[3] or ""


def _story(seed: int, index: int, level: Difficulty) -> Problem:
    told = held_out(seed, index, level)
    return Problem(f"lab/{level}/{seed}/{index}", told.text, str(told.answer), "lab")


def _from_file(path: Path, count: int | None) -> list[Problem]:
    """JSONL: ``problem`` or ``question`` and ``answer`` on each line, perhaps ``id`` and ``kind`` (math, choice)."""
    if not path.is_file():
        known = ", ".join(["lab", *HUB_SETS])
        raise ConfigError("problems", f"problems is {str(path)!r}, which is no file and no set; known sets: {known}.")
    found: list[Problem] = []
    seen: set[str] = set()
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip() and (count is None or len(found) < count):
                    found.append(_of_line(path.name, number, line))
                    if found[-1].id in seen:
                        raise ConfigError("problems", f"Line {number} of {path.name} has the id {found[-1].id!r} of an earlier line.")
                    seen.add(found[-1].id)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("problems", f"{path.name} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}.") from None
    return found


def _of_line(file: str, number: int, line: str) -> Problem:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise ConfigError("problems", f"Line {number} of {file} is no JSON object.")
    text, answer = _first(row, _TEXT), _first(row, _ANSWER)
    if not isinstance(text, str) or answer is None:
        raise ConfigError("problems", f"Line {number} of {file} needs a 'problem' (or 'question') and an 'answer'.")
    kind = row.get("kind", "math")
    if kind not in ("math", "choice"):
        raise ConfigError("problems", f"Line {number} of {file} has the kind {kind!r}; allowed: math, choice.")
    if isinstance(answer, list):
        answer = ", ".join(map(str, answer))
    return Problem(str(_first(row, _ID) or f"{file}/{number}"), check_problem(text), str(answer), kind)


def _first(row: dict[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _from_hub(name: str, described: HubSet, count: int | None) -> list[Problem]:
    import datasets

    datasets.disable_progress_bars()
    try:
        rows = datasets.load_dataset(described.repo, described.name, split=described.split, revision=described.revision)
    except Exception as error:  # whatever the network raises
        told = "it is gated: log in to the hub with an account that accepted its terms" if "gated" in str(error).lower() else "is there a network?"
        raise ConfigError(
            "problems", f"The set {name} ({described.repo}) could not be fetched ({told}) A local JSONL file works without one."
        ) from None
    wanted = rows.select(range(min(count or len(rows), len(rows))))
    made = []
    for index, row in enumerate(wanted):
        text, answer = described.read(dict(row))
        made.append(Problem(f"{name}/{index}", check_problem(text), answer, described.kind))
    return made
