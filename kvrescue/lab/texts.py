"""Training texts: batches of ids and labels. A label of -100 carries no loss: nothing is learned from what cannot be known."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kvrescue.lab import language, story

SKIP = -100
Row = tuple[list[int], list[bool]]
"""Ids, and which of them are to be predicted."""


@dataclass(frozen=True)
class Batch:
    ids: Tensor
    labels: Tensor
    """(rows, length); labels are the ids themselves where there is something to learn, aligned with ``ids`` (not shifted)."""

    @property
    def tokens(self) -> int:
        return self.ids.numel()


def _batch(rows: Sequence[Row]) -> Batch:
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([row + [0] * (width - len(row)) for row, _ in rows])
    learn = torch.tensor([flags + [False] * (width - len(flags)) for _, flags in rows])
    return Batch(ids, ids.masked_fill(~learn, SKIP))


def repeats(rng: random.Random, rows: int, length: int = 64) -> Batch:
    """A random sequence again and again: what an induction head is for. Only the repeats are learned."""
    made: list[Row] = []
    for _ in range(rows):
        period = rng.randint(4, 16)
        one = [rng.randrange(3, len(language.vocabulary())) for _ in range(period)]
        made.append(((one * (length // period + 1))[:length], [at >= period for at in range(length)]))
    return _batch(made)


def recalls(rng: random.Random, rows: int) -> Batch:
    """Stories of the easy kind with the recall lines only, in the question's order."""
    made: list[Row] = []
    for _ in range(rows):
        told = story.make_story(rng, story.Dial((2, 5), (1, 3), (0, 2)))
        lines = [story.recall_line(told, k) for k in range(len(told.facts))]
        made.append(_row(told.text, lines))
    return _batch(made)


def drills(rng: random.Random, rows: int, lines: int = 16, products: float = 0.1) -> Batch:
    """Sums and products, bare or in the forms that solutions use; only their results are learned."""
    made: list[Row] = []
    for _ in range(rows):
        ids: list[int] = []
        learn: list[bool] = []
        item = rng.choice(story.ITEMS)
        for _ in range(lines):
            line = language.encode(_claim(rng, item, products))
            result = len(line) - 1 - line[::-1].index(language.encode(" =")[0])
            ids += line
            learn += [at == result + 1 for at in range(len(line))]
        made.append((ids, learn))
    return _batch(made)


def _claim(rng: random.Random, item: str, products: float) -> str:
    if rng.random() < products:
        packs = rng.randint(2, 9)
        amount = rng.randint(2, story.TOP // packs)
        return f"That is {packs} * {amount} = {packs * amount} {item}.\n\n"
    low, high = sorted((rng.randint(0, story.TOP), rng.randint(0, story.TOP)))
    a, sign, b, c = (low, "+", high - low, high) if rng.random() < 0.5 else (high, "-", low, high - low)
    kind = rng.random()
    if kind < 0.5:
        return f" {a} {sign} {b} = {c}."
    if kind < 0.6:
        return f"{'Wait' if rng.random() < 0.5 else 'Hmm'}, {a} {sign} {b} = {c}, that is right.\n\n"
    return f"So {a} {sign} {b} = {c} {item}.\n\n"


WORDY_LOOKS, WORDY_ENDS, WORDY_ROUNDS, WORDY_STRAYS = (0.3, 0.9, 0.9), (0.2, 0.9, 0.9), (4, 8), 0.3
"""A wordy solver's chance to look back at a sum, to end with many words, how often that end goes round, and the chance that the mind wanders.
The first two are drawn anew for each story, so that the model goes on in the manner it finds, and a chain whose looks back are suppressed
reads like one of a solver who seldom looks back."""


def stories(rng: random.Random, rows: int, dial: story.Dial, closing: float = 0.25, *, wordy: bool = False, judge: bool = False) -> Batch:
    """Whole problems. A share (``closing``) is cut at a step by the closing prompt and the true answer, which is all that is learned
    then: the model answers when it is asked to, is unsure while it cannot know, and never says the prompt by itself. A third of
    the cuts fall where every sum is done, so that it also learns to be sure, and a third within four lines before that, where a
    last sum is easily overlooked.

    A ``judge`` reads what a wandering mind writes and learns to go on behind it, never to expect it."""
    made: list[Row] = []
    for _ in range(rows):
        told = story.make_story(rng, dial, distinct=False)
        manner = story.Manner(rng.choice(WORDY_LOOKS), rng.choice(WORDY_ENDS), WORDY_ROUNDS, WORDY_STRAYS) if wordy else story.Manner()
        lines = story.solution(told, rng, manner)
        if rng.random() < closing:
            done = lines.index(story.WRAP_UP[0]) if story.WRAP_UP[0] in lines else len(lines) - 1
            last = len(lines) - 1
            kept = lines[: rng.randint(*rng.choice([(done, last), (max(1, done - 4), max(1, done - 1)), (1, last)]))]
            ids, _ = _row(told.text, kept)
            asked = language.encode(language.CLOSING_PROMPT)
            answer = [*language.encode(f" {told.answer} }}."), language.vocabulary()[language.END]]
            made.append((ids[:-1] + language.encode("\n\n") + asked + answer, [False] * (len(ids) + len(asked)) + [True] * len(answer)))
        else:
            made.append(_row(told.text, lines, story.STRAYS if judge else ()))
    return _batch(made)


def _row(problem: str, lines: Sequence[str], unlearned: Sequence[str] = ()) -> Row:
    """``unlearned`` lines are read only."""
    ids = language.encode(f" {problem}\n\n")
    learn = [False] * len(ids)
    for line in lines:
        step = language.encode(line if line is lines[-1] else f"{line}\n\n")
        ids += step
        learn += [line not in unlearned] * len(step)
    return [*ids, language.vocabulary()[language.END]], [*learn, True]
