"""The lab's language: one token a word, decoding that restores normal spacing, and a friendly no to everything else (no torch)."""

from __future__ import annotations

import random
import re
from functools import cache

from kvrescue.lab import story

PIECE = re.compile(rf"\n\n| ?\\boxed\{{| (?:{'|'.join(story.PACKS)}) of| ?[A-Za-z]+| ?\d+| ?[^\sA-Za-z\d]")
"""What a token is: a word, a number or a sign, with the blank before it. "boxes of" is one, so that what is packed stands closer."""
PAD, END, UNKNOWN = "<pad>", "<end>", "<unknown>"
CLOSING_PROMPT = "Time is up. The answer is \\boxed{"


def normal(text: str) -> str:
    """The text as the lab's tokenizer reads it: single blanks, no line breaks."""
    return " ".join(text.split())


@cache
def vocabulary() -> dict[str, int]:
    """Token -> id. Made from the grammar itself, so that it never lacks a word a story can contain."""
    found: dict[str, None] = {}
    for number in range(story.TOP + 1):
        found[f" {number}"] = None
    rng = random.Random("vocabulary")
    for _ in range(400):
        for dial in story.DIALS.values():
            made = story.make_story(rng, dial)
            text = "\n\n".join([f" {made.text}", *story.solution(made, rng, story.Manner(0.5, 0.5)), CLOSING_PROMPT])
            found.update(dict.fromkeys(PIECE.findall(text)))
    words = [*story.NAMES, *story.ITEMS, *story.PLUS, *story.MINUS, *(f"{pack} of" for pack in story.PACKS), *story.PLACES]
    found.update(dict.fromkeys(f" {word}" for word in words))
    found.update(dict.fromkeys(piece for line in story.FILLERS for piece in PIECE.findall(f" {line}")))
    return {token: index for index, token in enumerate([PAD, END, UNKNOWN, *sorted(found)])}


def encode(text: str) -> list[int]:
    """Ids of text inside the language, for the training loop. KeyError for a word outside it."""
    known = vocabulary()
    return [known[piece] for piece in PIECE.findall(text)]


def foreign_words(text: str) -> list[str]:
    """Words the lab's models have never seen, each once, in order."""
    known = vocabulary()
    pieces = PIECE.findall(f" {normal(text)}")
    return list(dict.fromkeys(piece.strip() for piece in pieces if piece not in known))
