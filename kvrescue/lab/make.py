"""``python -m kvrescue lab train``: from nothing to the bundled models and their cards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kvrescue import presets
from kvrescue.bench.record import Record
from kvrescue.bench.spread import spread
from kvrescue.config import make_config
from kvrescue.lab import judge, story
from kvrescue.lab.evaluate import solve
from kvrescue.lab.export import export
from kvrescue.lab.story import Difficulty, held_out
from kvrescue.lab.train import Counters, Recipe, Say, train
from kvrescue.models.load import LAB_FOLDER, Pair
from kvrescue.reco import distil
from kvrescue.rewards.reading import Calibration

RECIPES: dict[str, Recipe] = {
    "base": Recipe(hidden=64, layers=3, heads=4, seed=1, tokens=36_000_000),
    "helper": Recipe(hidden=48, layers=3, heads=4, seed=2, tokens=36_000_000, mlp=32),
    "prm": Recipe(hidden=64, layers=3, heads=4, seed=3, tokens=36_000_000),
    "wordy": Recipe(hidden=64, layers=3, heads=4, seed=11, tokens=32_000_000, rate=1e-3, cycles=2, start="base", wordy=True),
    "wordy-prm": Recipe(hidden=64, layers=3, heads=4, seed=13, tokens=6_000_000, rate=1e-3, start="prm", wordy=True, judge=True),
}
ROLES = {
    "base": "the capable model whose cache is evicted",
    "helper": "the smaller model that keeps everything: the base's recipe and number of tokens, narrower layers",
    "wordy": "the base, trained on with stories of solvers who look back often, let their minds wander, and say the total again and again at "
    "the end: what ReCo can spare",
    "wordy-prm": "the judge of the wordy base: the process reward model, trained on with the same solvers' stories; what their minds wander "
    "off to it only reads, so that it goes on rewarding low what says nothing",
    "prm": "the judge: a language model of the base's size, trained from another seed, that verifies steps",
}
JUDGES = {"prm": "lab", "wordy-prm": "lab-wordy"}
"""Parts that judge, and the model set whose steps they are calibrated on."""
ESTIMATOR_SEED = 9_000
PROBLEMS = 200
"""Held-out problems of each difficulty on a card; a judge is measured on as many, and fitted on twice as many."""
CARD_SEED = 7_000
"""Held-out problems of the cards; the report has seeds of its own."""


def make(
    parts: Sequence[str], out: Path, work: Path, say: Say, *, tokens: int | None = None, problems: int = PROBLEMS, workers: int | None = None
) -> None:
    """Train ``parts`` into ``out``; checkpoints lie below ``work``. ``tokens`` shortens the training, for a test of the path."""
    for part in (name for name in parts if name in RECIPES):
        recipe = replace(RECIPES[part], tokens=tokens) if tokens else RECIPES[part]
        start = out / recipe.start if recipe.start else None
        if start and not (start / "model.safetensors").is_file():
            start = LAB_FOLDER / start.name
        model, counters = train(recipe, work / part, _named(say, part), start=start)
        export(model, out / part)
        (out / part / "training.json").write_text(json.dumps({"recipe": asdict(recipe), "counters": asdict(counters)}, indent=1) + "\n")
    for part in (name for name in parts if name in JUDGES):
        calibrate(part, out, say, problems, workers)
    if "estimator" in parts:
        say("estimator: learning from the PRM's scores")
        tasks = [(held_out(ESTIMATOR_SEED, index).text, index) for index in range(problems)]
        figures = distil.fit_and_write(list(spread(_distilled, tasks, workers, out)), "lab-prm", out / "estimator")
        say(f"estimator: {json.dumps(figures)}")
    for part in (name for name in parts if name in RECIPES):
        say(f"{part}: writing its card")
        write_card(part, out, problems, workers)


def _distilled(pair: Pair, task: tuple[str, int]) -> distil.Pairs:
    return distil.pairs_of(pair, "prm", *task)


def _named(say: Say, part: str) -> Say:
    return lambda text: say(f"{part}: {text}")


def calibrate(part: str, out: Path, say: Say, problems: int, workers: int | None = None) -> None:
    """Fit a PRM's score on one set of problems and measure it on another; both lie beside its weights."""
    Calibration(4.0, 1.0, 1.0).write(out / part)  # something to choose with while samples are collected
    say(f"{part}: collecting graded steps")
    fitted = judge.fit(_samples(part, out, "train", 2 * problems, workers))
    fitted.write(out / part)
    say(f"{part}: measuring on other problems")
    found = judge.measured(_samples(part, out, "test", problems, workers), fitted)
    (out / part / "measured.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _samples(part: str, out: Path, split: str, problems: int, workers: int | None) -> list[judge.Sample]:
    tasks = [(split, index) for index in range(problems)]
    return [sample for some in spread(judge.collect, tasks, workers, out, JUDGES[part]) for sample in some]


# --- cards ----------------------------------------------------------------------------------------------------------------


def _alone(pair: Pair, task: tuple[str, int, Difficulty]) -> Record:
    """One problem by one model alone, full cache, greedy."""
    part, index, difficulty = task
    judging = pair.prm.loaded if pair.prm else pair.base
    models = {"base": pair.base, "wordy": pair.base, "helper": pair.helper, "prm": judging, "wordy-prm": judging}
    alone = replace(pair, base=models[part], helper=models[part])
    values = {**presets.default_settings(pair.name), "method": "full", "scorer": "none", "temperature": 0.0}
    return solve(alone, index, CARD_SEED, difficulty, make_config(**values))


def write_card(part: str, out: Path, problems: int, workers: int | None = None) -> None:
    tasks: list[tuple[str, int, Difficulty]] = [(part, index, level) for level in ("easy", "medium", "hard") for index in range(problems)]
    records = list(spread(_alone, tasks, workers, out, "lab-wordy" if part.startswith("wordy") else "lab"))
    notes = json.loads((out / part / "training.json").read_text(encoding="utf-8"))
    recipe, counters = Recipe(**notes["recipe"]), Counters(**notes["counters"])
    cycles = f", {recipe.cycles} times" if recipe.cycles > 1 else ""
    lines = [
        f"# lab-{part}",
        "",
        f"{ROLES[part][0].upper()}{ROLES[part][1:]}.",
        "",
        f"- **Architecture**: Llama, {recipe.layers} layers of width {recipe.hidden}, {recipe.heads} heads; one token a word, "
        f"numbers 0 to {story.TOP} one token each.",
        "- **Data**: stories and solutions of `kvrescue/lab/story.py`, made as they are read; no text from elsewhere.",
        f"- **Recipe**: `kvrescue/lab/train.py`, seed {recipe.seed}, {counters.all_tokens / 1e6:.1f} million tokens in all "
        f"({recipe.tokens / 1e6:.1f} in the last phase), learning rate {recipe.rate:g} with a cosine to zero{cycles}.",
        f"- **Training time**: {counters.seconds / 60:.0f} minutes on a CPU.",
        f"- **Reproduce**: `python -m kvrescue lab train {part}{'' if problems == PROBLEMS else f' --problems {problems}'}`.",
        "",
        f"Alone with its full cache, greedy, {problems} held-out problems of each difficulty; errors are of single steps:",
        "",
        "| difficulty | right | recall steps right | sums right | products right |",
        "|---|---|---|---|---|",
    ]
    for level in ("easy", "medium", "hard"):
        mine = [record for record, task in zip(records, tasks, strict=True) if task[2] == level]
        shares = [_share(mine, kind) for kind in ("recall", "sum", "product")]
        lines.append(f"| {level} | {100 * sum(one.right for one in mine) / len(mine):.1f} % | " + " | ".join(shares) + " |")
    if part in JUDGES:
        lines += ["", *_judge_lines(out / part)]
    lines += [
        "",
        "**Limits.** It knows one kind of story, a few hundred words, and whole numbers from 0 to 99. "
        "It is made to show a phenomenon, not to be useful.",
    ]
    (out / part / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _share(records: Sequence[Record], kind: str) -> str:
    counts = [record.kinds.get(kind, [0, 0]) for record in records]
    total = sum(count[0] for count in counts)
    return f"{100 * sum(count[1] for count in counts) / total:.1f} %" if total else "–"


def _judge_lines(folder: Path) -> list[str]:
    found: dict[str, Any] = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
    calibration = Calibration.read(folder)

    def shown(value: float | None) -> str:
        return "–" if value is None else f"{value:.4f}"

    lines = [
        "**As a judge.** Score of a step = sigmoid(bias + worst x w + mean x m) of the most surprising token's gap to the best one and of "
        f"the mean log-probability, both in nats: bias {calibration.bias}, w {calibration.worst}, m {calibration.mean}. It is a verifier "
        "language model with a calibrated score: a model that can compute the step itself is surprised by a wrong one. No scalar head was "
        "tried with it.",
        "",
        f"Measured on {found['steps']:,} real steps of evicted bases and helpers on other problems ({found['right']:,} of them right): "
        f"AUC {shown(found['auc'])}, accuracy {100 * found['accuracy']:.1f} %. These are steps that the checker can follow. After a committed "
        f"step that is none of the lab's it cannot say any more what is right: there its word and the judge's agree with AUC "
        f"{shown(found['derailed']['auc'])} ({found['derailed']['steps']:,} steps); over everything AUC {shown(found['all']['auc'])}.",
        "",
        "| wrong steps | how many | AUC against right steps |",
        "|---|---|---|",
    ]
    names = {"recall": "recall", "arithmetic": "arithmetic", "form": "form", "corrupted": "corrupted by hand"}
    return lines + [f"| {title} | {found[name]['steps']:,} | {shown(found[name]['auc'])} |" for name, title in names.items()]
