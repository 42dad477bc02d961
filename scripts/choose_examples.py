"""Choose the lab's examples by what they show: runs fresh problems until each lesson has one, and writes them to examples/problems.json.
Then each is run once more as a visitor would, and its trace kept for the page to replay.

python -m scripts.choose_examples             # choose and record
python -m scripts.choose_examples --record    # record the chosen ones again
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from collections.abc import Callable
from typing import Any

from kvrescue import cli, presets
from kvrescue.bench.record import Record
from kvrescue.config import make_config
from kvrescue.lab import story
from kvrescue.lab.evaluate import solve
from kvrescue.lab.story import Difficulty
from kvrescue.models.load import Pair, load_pair
from kvrescue.ui.words import words

FILE = presets.EXAMPLES
TRACES = FILE.parent / "traces"
SEED = 4_000
MOST = 40

COMPARED: dict[str, str] = {
    **dict.fromkeys(("lab-rescue", "lab-forgets", "lab-derails", "lab-easy"), "full,evicted,kv-rescue,reco"),
    "lab-reco": "full,reco-uniform,reco,reco+rescue",
}
"""Examples whose comparison by several methods is recorded too."""
RECO: dict[str, Any] = {**presets.MODEL_SETS["lab-wordy"].reco, "greedy_first": False}
WORDY = ("lab-reco",)
"""Lessons that need the solver of many words."""

Runs = dict[str, Record]
# What each teaches, and its title, are among the words (assets/i18n).
LESSONS: list[tuple[str, Difficulty, dict[str, Any], Callable[[Runs], bool]]] = [
    (
        "lab-rescue",
        "medium",
        {},
        lambda runs: runs["full"].right and both(runs["kv-rescue"]) and not (runs["evicted"].right or runs["helper"].right),
    ),
    (
        "lab-forgets",
        "medium",
        {"method": "evicted"},
        lambda runs: runs["full"].right and runs["evicted"].answered and runs["evicted"].first_error == "recall",
    ),
    (
        "lab-derails",
        "medium",
        {"method": "evicted"},
        lambda runs: runs["full"].right and not runs["evicted"].answered,
    ),
    ("lab-full", "medium", {"method": "full"}, lambda runs: runs["full"].right),
    (
        "lab-helper",
        "medium",
        {"method": "helper"},
        lambda runs: runs["helper"].answered and not runs["helper"].right and runs["helper"].first_error == "arithmetic",
    ),
    (
        "lab-easy",
        "easy",
        {},
        lambda runs: runs["kv-rescue"].right and not runs["evicted"].right and runs["full"].right,
    ),
    (
        "lab-reco",
        "medium",
        {"method": "reco", **RECO},
        # A mind that wanders and finds back, where a share that is held the answer is lost.
        lambda runs: (
            runs["reco"].right
            and runs["reco"].reason == "early_exit"
            and runs["reco"].suppressed > 0
            and runs["reco"].kinds.get("stray", [0])[0] > 2
            and runs["full"].right
            and not runs["reco-uniform"].right
        ),
    ),
]


def both(run: Record) -> bool:
    """Right, both sources wrote steps, and none of them is wrong."""
    return run.right and run.base_steps > 0 and run.helper_steps > 0 and run.first_error is None


class _Memo(dict[str, Record]):
    """Runs of one problem, made when a lesson asks for them."""

    def __init__(self, pair: Pair, index: int, difficulty: Difficulty) -> None:
        super().__init__()
        self._at = pair, index, difficulty

    def __missing__(self, method: str) -> Record:
        pair, index, difficulty = self._at
        reco = RECO if method.startswith("reco") else {}
        values = {**presets.default_settings(pair.name), "method": method, **reco}
        if pair.name == "lab-wordy":
            values["greedy_first"] = False  # for every method: the most probable text has nothing to spare
        self[method] = solve(pair, index, SEED, difficulty, make_config(**values))
        return self[method]


def main() -> None:
    pairs = {name: load_pair(name) for name in presets.LAB_SETS}
    chosen: list[dict[str, Any]] = []
    used: set[tuple[str, str, int]] = set()
    memos: dict[tuple[str, str, int], _Memo] = {}
    for name, level, settings, shows in LESSONS:
        models = "lab-wordy" if name in WORDY else "lab"
        for index in range(MOST):
            at = (models, level, index)
            if at not in used and shows(memos.setdefault(at, _Memo(pairs[models], index, level))):
                break
        else:
            print(f"{name}: none of {MOST} problems shows it")
            continue
        used.add(at)
        told = story.held_out(SEED, index, level)
        print(f"{name}: problem {index}", flush=True)
        chosen.append({"id": name, "models": models, "problem": told.text, "answer": str(told.answer), "settings": settings})
    others = [one for one in json.loads(FILE.read_text(encoding="utf-8")) if one["models"] not in presets.LAB_SETS]
    FILE.write_text(json.dumps([*chosen, *others], indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def record() -> None:
    """The traces of the lab's examples, each by the command that is written beside it."""
    TRACES.mkdir(exist_ok=True)
    for old in TRACES.glob("*"):
        old.unlink()
    index: list[dict[str, Any]] = []
    for example in presets.load_examples():
        if example["models"] not in presets.LAB_SETS:
            continue
        name = example["id"]
        entry = {"id": name, "title": words("en")(f"example.{name}.title"), **_recorded(name, f"{name}.ndjson")}
        if name in COMPARED:
            entry["compare"] = _recorded(name, f"{name}-compared.ndjson", "--compare", COMPARED[name])
        index.append(entry)
    (TRACES / "index.json").write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _recorded(name: str, file: str, *more: str) -> dict[str, str]:
    arguments = ["run", f"example:{name}", *more, "--trace"]
    with contextlib.redirect_stdout(io.StringIO()):
        if cli.main([*arguments, str(TRACES / file)]):
            raise SystemExit(f"{name} could not be run")
    print(f"recorded {file}: {(TRACES / file).stat().st_size:,} bytes")
    return {"file": file, "command": " ".join(["python -m kvrescue", *arguments, file])}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="only record")
    if not parser.parse_args().record:
        main()
    record()
