"""One Gradio input per RunConfig field, built from the field itself, and back from their values to a RunConfig."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import gradio as gr

from kvrescue.bench.grading import MOST_REFERENCE_CHARS
from kvrescue.config import MAX_PROBLEM_CHARS, METHODS, ConfigError, RunConfig, check_problem, make_config
from kvrescue.ui.words import Say, label, table, words


@dataclass(frozen=True)
class Control:
    """How a field is shown. ``top`` is where its slider ends; the command line and the API take the field's whole range."""

    field: str
    top: float | None = None
    step: float | None = None


POLICIES = {
    "rkv": "R-KV",
    "snapkv": "SnapKV",
    "snapkv-decode": "SnapKV while decoding",
    "streaming-llm": "StreamingLLM",
    "h2o": "H2O",
    "tova": "TOVA",
    "keydiff": "KeyDiff",
    "knorm": "Knorm",
}
"""Names of their papers, the same in every language."""
CHOSEN = ("scorer", "scorer_model", "ratio_of", "delimiter")
"""Fields whose choices have words of their own."""
BASIC = [
    Control("policy"),
    Control("budget", 512, 4),
    Control("n", 8, 1),
    Control("tau_ent", 8, 0.05),
    Control("tau_cmp", 1, 0.01),
    Control("seed"),
]
ADVANCED = [
    Control("buffer", 256, 1),
    Control("window", 64, 1),
    Control("kernel", 31, 2),
    Control("rkv_lambda", 1, 0.01),
    Control("sinks", 16, 1),
    Control("protect_sink", 16, 1),
    Control("protect_prompt"),
    Control("temperature", 2, 0.05),
    Control("top_p", 1, 0.01),
    Control("greedy_first"),
    Control("early_exit"),
    Control("ent_window", 128, 1),
    Control("cmp_window", 1024, 8),
    Control("cmp_stride", 64, 1),
    Control("max_step_tokens", 512, 1),
    Control("max_steps", 128, 1),
    Control("max_tokens", 4096, 1),
    Control("deadline_s", 1800, 10),
    Control("scorer"),
    Control("scorer_model"),
    Control("delimiter"),
    Control("system_prompt"),
    Control("instruction"),
]
RECO = [
    Control("retention_ratio", 1, 0.05),
    Control("delta", 0.5, 0.01),
    Control("reco_every", 512, 1),
    Control("tau_l", 1, 0.01),
    Control("tau_h", 1, 0.01),
    Control("beta", 20, 0.5),
    Control("tau_p", 3, 0.01),
    Control("max_probes", 50, 1),
    Control("ratio_of"),
    Control("reflection_words"),
    Control("closing_prompt"),
]
MOST_LINK_CHARS = 6 * MAX_PROBLEM_CHARS + 20_000
SUITED = ("policy", "window", "protect_prompt", "delimiter")
"""Fields that a model set may want otherwise for ReCo."""
FREE_TEXT = ("delimiter", "system_prompt", "instruction", "reflection_words", "closing_prompt")
DELIMITERS = {"blank": "\n\n", "line": "\n"}
"""What the form offers to end a step; another one may be typed, with ``\\n`` for a line break."""
FIELDS = ["method", *(control.field for control in [*BASIC, *ADVANCED, *RECO])]


def method_choices(say: Say) -> list[tuple[str, str]]:
    return [(say(f"method.{name}"), name) for name in METHODS]


def choices_of(field: str, say: Say) -> list[tuple[str, str]]:
    if field == "policy":
        return [(title, name) for name, title in POLICIES.items()]
    if field == "delimiter":
        return [(say(f"choice.delimiter.{name}"), text) for name, text in DELIMITERS.items()]
    return [(say(f"choice.{field}.{name}"), name) for name in RunConfig.model_json_schema()["properties"][field]["enum"]]


def build(control: Control, value: Any) -> gr.components.Component:
    """The input of one field. Always interactive: a slider that feeds no listener would be rendered disabled."""
    schema = RunConfig.model_json_schema()["properties"][control.field]
    common: dict[str, Any] = {"label": label(f"field.{control.field}"), "value": value, "interactive": True, "elem_id": f"kvr-{control.field}"}
    info = label(key) if (key := f"field.{control.field}.info") in table("en") else None
    if "enum" in schema:
        return gr.Dropdown(choices_of(control.field, words("en")), info=info, filterable=False, **common)
    if schema["type"] == "boolean":
        return gr.Checkbox(info=info, **common)
    if control.field == "delimiter":
        return gr.Dropdown(choices_of(control.field, words("en")), info=info, allow_custom_value=True, **common)
    if schema["type"] == "string":
        return gr.Textbox(info=info, max_length=schema["maxLength"], lines=2, **common)
    if control.top is None:
        return gr.Number(info=info, precision=0, minimum=schema["minimum"], maximum=schema["maximum"], **common)
    low = schema.get("minimum", control.step)
    return gr.Slider(low, control.top, step=control.step, info=info, **common)


def to_config(values: dict[str, Any]) -> RunConfig:
    """RunConfig from the inputs' values; ConfigError when one is empty or out of range."""
    whole = {name for name, schema in RunConfig.model_json_schema()["properties"].items() if schema.get("type") == "integer"}
    if isinstance(values.get("delimiter"), str):
        values = {**values, "delimiter": values["delimiter"].replace("\\n", "\n")}
    # Sliders send 64.0 for 64.
    cleaned = {name: int(value) if name in whole and isinstance(value, float) and value.is_integer() else value for name, value in values.items()}
    return make_config(**cleaned)


@dataclass(frozen=True)
class Linked:
    """What a link fills the form with. ``methods``: those of a comparison."""

    models: str | None
    problem: str
    reference: str
    values: dict[str, Any]
    methods: list[str] | None


def from_link(text: str) -> Linked:
    """The settings of a link (base64url of JSON); ConfigError when it is damaged or asks for what is not allowed."""
    damaged = ConfigError("settings", "The link's settings are damaged; copy the link again.")
    if len(text) > MOST_LINK_CHARS:
        raise damaged
    try:
        given = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        models, problem, reference, values = given.get("models"), given["problem"], given.get("reference", ""), dict(given["settings"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise damaged from None
    methods = given.get("methods")
    if not (models is None or isinstance(models, str)) or not isinstance(reference, str) or not (methods is None or isinstance(methods, list)):
        raise damaged
    compared = None if methods is None else [name for name in METHODS if name in methods]
    return Linked(models, check_problem(problem), reference[:MOST_REFERENCE_CHARS], make_config(**values).model_dump(), compared)


def changes(values: dict[str, Any], defaults: dict[str, Any], say: Say) -> str:
    """Which settings differ from the defaults, in words; empty when none does."""
    different = [
        # The visitor's own text is not repeated: it would be read as Markdown.
        name if name in FREE_TEXT else say("page.change", name=name, value=values[name], usual=defaults[name])
        for name in FIELDS[1:]
        if values[name] != defaults[name]
    ]
    return say("page.changed") + ", ".join(different) if different else ""
