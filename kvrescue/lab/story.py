"""The lab's problems: short stories that state many quantities early and need them late, and their solutions step by step.

Every step exercises one skill. *Recall* steps fetch a fact stated long ago ("Next, Bea takes 5 boxes of 7 pears."), *reasoning* steps
compute over the newest lines ("That is 5 * 7 = 35 pears.", "So 42 - 35 = 7 pears."). Interleaving two models can only combine their
skills across steps, so a step that needed both would leave nothing to combine. All numbers are whole and lie in 0..99.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal, get_args

Difficulty = Literal["easy", "medium", "hard"]
DIFFICULTIES: tuple[str, ...] = get_args(Difficulty)
TOP = 99

NAMES = (
    "Ada Ali Amy Ana Ben Bea Bob Cal Cleo Dan Dora Ed Ella Eva Finn Gus Hana Hugo Ida Ines Ivo Jan Joy Kai Kim Lea Leo Lin Lou Max Mia Nils "
    "Noa Olaf Pam Pia Ray Rosa Sam Sue Ted Tim Uma Vera Will Yan Yuna Zoe"
).split()
ITEMS = "pears apples plums eggs rolls coins shells nuts books cards keys beads".split()
PLUS = "brings adds finds wins".split()
MINUS = "takes eats loses sells".split()
PACKS = "boxes bags bowls sacks".split()
PLACES = "basket cart shed barn stall".split()
OPENERS = ["", "", "Today ", "Later ", "Early on ", "At noon "]
TAILS = ["", "", "", " in the rain", " with a smile", " after lunch", " before the bell rings"]
FILLERS = [
    "It is market day in the old town.",
    "The clock on the tower has stopped.",
    "A grey cat sleeps under the table.",
    "The wind smells of the sea.",
    "Somebody plays a slow song.",
    "It rained for most of the night.",
    "Two dogs run across the square.",
    "The bread is still warm.",
    "A child flies a red kite.",
    "The bus is late again.",
    "Nobody knows who painted the door.",
    "The river is high this spring.",
    "A tall man reads the news.",
    "There is snow on the hills.",
    "The lamps are lit early.",
    "An owl looks down from the roof.",
]


@dataclass(frozen=True)
class Dial:
    """How hard a story is: people who count, people who do not, and sentences that say nothing."""

    needed: tuple[int, int]
    others: tuple[int, int]
    fillers: tuple[int, int]


DIALS: dict[str, Dial] = {
    "easy": Dial((3, 3), (2, 2), (1, 2)),
    "medium": Dial((5, 5), (3, 4), (3, 4)),
    "hard": Dial((7, 7), (4, 5), (5, 6)),
}


@dataclass(frozen=True)
class Fact:
    """``name verb [packs kind of] amount item``: packs is 0 when the amount is told as one number."""

    name: str
    verb: str
    packs: int
    kind: str
    amount: int

    @property
    def sign(self) -> str:
        return "+" if self.verb in PLUS else "-"

    @property
    def total(self) -> int:
        return self.amount * (self.packs or 1)

    def words(self, item: str) -> str:
        packed = f"{self.packs} {self.kind} of " if self.packs else ""
        return f"{self.name} {self.verb} {packed}{self.amount} {item}"


@dataclass(frozen=True)
class Story:
    """One problem. ``facts`` are the ones that count, in the order the question asks for them."""

    item: str
    place: str
    start: int
    facts: tuple[Fact, ...]
    text: str
    difficulty: str = "medium"
    totals: tuple[int, ...] = field(default=())
    """The running total after each fact."""

    @property
    def answer(self) -> int:
        return self.totals[-1]


def held_out(seed: int, index: int, difficulty: Difficulty = "medium") -> Story:
    """Problem ``index`` of a seed. Its random stream has a name of its own that no training stream has."""
    return make_story(random.Random(f"held-out {seed} {index} {difficulty}"), DIALS[difficulty], difficulty)


def make_story(rng: random.Random, dial: Dial, difficulty: str = "", *, distinct: bool = True) -> Story:
    """``distinct``: no two people do the same thing with the same number first ("eats 3 rolls", "eats 3 sacks of 9 rolls"). Models this small
    look a fact up by its last words, so such pairs are a riddle of another kind; training reads them all the same."""
    needed, others = rng.randint(*dial.needed), rng.randint(*dial.others)
    names = rng.sample(NAMES, needed + others)
    item, place = rng.choice(ITEMS), rng.choice(PLACES)
    start = total = rng.randint(5, 90)
    facts, totals = [], []
    taken: set[tuple[int, str]] = set()
    fresh = _distinct_fact if distinct else _fact
    for name in names[:needed]:
        fact = fresh(rng, name, total, taken)
        total = total + fact.total if fact.sign == "+" else total - fact.total
        facts.append(fact)
        totals.append(total)
    told = facts + [fresh(rng, name, rng.randint(0, TOP), taken) for name in names[needed:]]
    lines = [f"{_opened(rng, fact.words(item))}{rng.choice(TAILS)}." for fact in told]
    lines += rng.sample(FILLERS, rng.randint(*dial.fillers))
    rng.shuffle(lines)
    asked = [fact.name for fact in facts]
    listed = ", ".join(asked[:-1]) + f" and {asked[-1]}"
    question = f"The {place} holds {start} {item}. Count {listed}. How many {item} are in the {place} at the end?"
    return Story(item, place, start, tuple(facts), " ".join([*lines, question]), difficulty, tuple(totals))


def _opened(rng: random.Random, words: str) -> str:
    return rng.choice(OPENERS) + words


def _distinct_fact(rng: random.Random, name: str, total: int, taken: set[tuple[int, str]]) -> Fact:
    """A fact whose verb and first number belong to nobody else of the story (``taken``)."""
    while True:
        packed = set(taken)
        fact = _fact(rng, name, total, packed)
        cue = (fact.packs or fact.amount, fact.verb)
        if cue not in taken:
            taken |= packed | {cue}
            return fact


def _fact(rng: random.Random, name: str, total: int, packed: set[tuple[int, str]]) -> Fact:
    """Something that can happen when there are ``total`` items: the new total stays in 0..99. No two people of a story have as many
    packs of one kind (``packed``), so that "5 boxes of" belongs to one of them."""
    plus = rng.random() < (TOP - total) / TOP
    room = TOP - total if plus else total
    verb = rng.choice(PLUS if plus else MINUS)
    if room >= 4 and rng.random() < 0.6:
        packs, kind = rng.randint(2, min(9, room // 2)), rng.choice(PACKS)
        if (packs, kind) not in packed:
            packed.add((packs, kind))
            return Fact(name, verb, packs, kind, rng.randint(2, max(2, room // packs)))
    return Fact(name, verb, 0, "", rng.randint(1, max(1, room)))


# --- solutions ------------------------------------------------------------------------------------------------------------


def start_line(story: Story) -> str:
    return f"At first there are {story.start} {story.item}."


def recall_line(story: Story, k: int) -> str:
    return f"{'Next' if k else 'First'}, {story.facts[k].words(story.item)}."


def product_line(story: Story, fact: Fact) -> str:
    return f"That is {fact.packs} * {fact.amount} = {fact.total} {story.item}."


def sum_line(story: Story, before: int, sign: str, amount: int, opener: str = "So") -> str:
    return f"{opener} {before} {sign} {amount} = {before + amount if sign == '+' else before - amount} {story.item}."


def check_line(before: int, sign: str, amount: int, turn: int = 0) -> str:
    """A look back at a sum: backwards first (``Wait, 42 - 8 = 34, that is right.``), then forwards (``Hmm, 34 + 8 = 42, ...``), and so on."""
    after = before + amount if sign == "+" else before - amount
    if turn % 2:
        return f"Hmm, {before} {sign} {amount} = {after}, that is right."
    return f"Wait, {after} {'-' if sign == '+' else '+'} {amount} = {before}, that is right."


MOST_CHECKS = 3
WRAP_UP = (
    "To be sure, all of them are counted.",
    "The {place} holds {total} {item} at the end.",
    "Nobody was left out, so there are {total} {item}.",
    "It is still {total} {item}, that is right.",
)
"""What a solver of many words adds when everything is known already."""
STRAYS = tuple(line for line in FILLERS if line.split()[0] in ("It", "Nobody", "The"))
"""Sentences that a solver whose mind wanders writes between two steps: they begin like other lines of the language."""
STRAY_LINES = (3, 5)
"""How many of them it writes at once: fewest and most."""


def wrap_up(story: Story, rounds: int = 1) -> list[str]:
    """The end of many words: all but its first line may come in several ``rounds``."""
    first, *others = (line.format(place=story.place, total=story.answer, item=story.item) for line in WRAP_UP)
    return [first, *(others * rounds)]


def back_line(total: int, item: str) -> str:
    """How a solver finds back after its mind wandered."""
    return f"Hmm, there are {total} {item}."


def answer_line(answer: int) -> str:
    return f"The answer is \\boxed{{ {answer} }}."


@dataclass(frozen=True)
class Manner:
    """How a solver writes: the chance of each look back at a sum and of an end of many words, how often that end goes round, and the chance
    that the mind wanders between two people.

    Looks and ends are below one half where nothing else is said, so that a judge that knows the text prefers the straight way.
    """

    looks: float = 0.47
    ends: float = 0.47
    rounds: tuple[int, int] = (1, 1)
    strays: float = 0.0


def solution(story: Story, rng: random.Random | None = None, manner: Manner = Manner()) -> list[str]:
    """Right steps; with ``rng``, in a ``manner``: up to three looks back at a sum, and so on."""
    lines, before = [start_line(story)], story.start
    for k, fact in enumerate(story.facts):
        lines.append(recall_line(story, k))
        if fact.packs:
            lines.append(product_line(story, fact))
        lines.append(sum_line(story, before, fact.sign, fact.total))
        turn = 0
        while rng and turn < MOST_CHECKS and rng.random() < manner.looks:
            lines.append(check_line(before, fact.sign, fact.total, turn))
            turn += 1
        before = story.totals[k]
        if rng and manner.strays and fact is not story.facts[-1] and rng.random() < manner.strays:
            lines += [*rng.sample(STRAYS, rng.randint(*STRAY_LINES)), back_line(before, story.item)]
    if rng and rng.random() < manner.ends:
        lines += wrap_up(story, rng.randint(*manner.rounds))
    lines.append(answer_line(story.answer))
    return lines
