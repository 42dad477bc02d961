"""The page's words in every language, from the same files as the viewer's (assets/i18n).

Labels are translated by Gradio in the browser; sentences that are made here follow the language that the browser asks for. Errors are made
in English where they occur; at the edge of the page they are recognised by their template and said in the visitor's language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import gradio as gr

from kvrescue.export import ASSETS

LANGUAGES = ("en", "ko")
_HOLE = re.compile(r"\{(\w+)\}")
Say = Callable[..., str]


@cache
def table(language: str) -> dict[str, str]:
    words: dict[str, str] = json.loads((ASSETS / "i18n" / f"{language}.json").read_text(encoding="utf-8"))
    return words


def labels() -> gr.I18n:
    """What Gradio needs to translate labels in the browser."""
    return gr.I18n(**{language: {_label(key): text for key, text in table(language).items()} for language in LANGUAGES})


def label(key: str) -> Any:
    """A text of the page that the browser translates."""
    return labels()(_label(key))


def _label(key: str) -> str:
    return "kvr_" + re.sub(r"\W", "_", key)  # a dot would mean a table in a table


def language_of(request: gr.Request | None) -> str:
    """The visitor's language: what the address asks for (?lang=ko), else what the browser accepts first; English where it is none of ours."""
    asked = (getattr(request, "query_params", None) or {}).get("lang")
    headers = getattr(request, "headers", None) or {}
    first = str(headers.get("accept-language", "")).split(",")[0].strip().lower().split("-")[0]
    return next((one for one in (asked, first) if one in LANGUAGES), LANGUAGES[0])


def words(language: str) -> Say:
    """``say(key, **values)`` in a language; a whole number called ``n`` picks the plural form."""
    known = {**table("en"), **table(language)}

    def say(key: str, **values: Any) -> str:
        number = values.get("n")
        form = None
        if number is not None:
            one = known.get(f"{key}.one") if number == 1 and language == "en" else None
            form = one or known.get(f"{key}.other")
        return _filled(form or known[key], values)

    return say


def _filled(text: str, values: dict[str, Any]) -> str:
    def value(match: re.Match[str]) -> str:
        given = values.get(match[1], match[0])
        return f"{given:,}" if isinstance(given, int) else str(given)

    return _HOLE.sub(value, text)


@cache
def _templates() -> list[tuple[str, re.Pattern[str]]]:
    made = []
    for key, text in table("en").items():
        if key.startswith(("error.", "said.")):
            parts = [re.escape(part) if i % 2 == 0 else f"(?P<{part}>.+?)" for i, part in enumerate(_HOLE.split(text))]
            made.append((key, re.compile("".join(parts), re.DOTALL)))
    # The template with the most words of its own is tried first.
    return sorted(made, key=lambda one: -len(_HOLE.sub("", table("en")[one[0]])))


def translated(sentence: str, language: str) -> str:
    """A sentence that was made in English (an error, what a backend does) in a language; as it is where its template is not known."""
    if language == "en":
        return sentence
    for key, template in _templates():
        match = template.fullmatch(sentence)
        if match and key in table(language):
            return _filled(table(language)[key], match.groupdict())
    return sentence
