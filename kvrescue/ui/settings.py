"""One Gradio input per RunConfig field, built from the field itself, and back from their values to a RunConfig."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import gradio as gr

from kvrescue.config import MAX_PROBLEM_CHARS, ConfigError, RunConfig, check_problem, make_config
from kvrescue.engine.methods import PARTS


@dataclass(frozen=True)
class Control:
    """How a field is shown. ``top`` is where its slider ends; the command line and the API take the field's whole range."""

    field: str
    label: str
    info: str = ""
    top: float | None = None
    step: float | None = None


METHOD_CHOICES = [(parts.title, name) for name, parts in PARTS.items()]
POLICY_CHOICES = [
    ("R-KV", "rkv"),
    ("SnapKV", "snapkv"),
    ("SnapKV while decoding", "snapkv-decode"),
    ("StreamingLLM", "streaming-llm"),
    ("H2O", "h2o"),
    ("TOVA", "tova"),
    ("KeyDiff", "keydiff"),
    ("Knorm", "knorm"),
]
CHOICES: dict[str, list[tuple[str, str]]] = {
    "policy": POLICY_CHOICES,
    "scorer": [
        ("process reward model", "prm"),
        ("light estimator", "estimator"),
        ("likelihood (full context)", "likelihood"),
        ("rules", "rule"),
        ("the lab's checker", "checker"),
        ("nobody", "none"),
    ],
    "scorer_model": [("helper", "helper"), ("base", "base")],
    "ratio_of": [("all tokens seen", "logical"), ("tokens still held", "resident")],
}

BASIC = [
    Control("policy", "Eviction policy"),
    Control("budget", "KV budget (tokens)", "", 512, 4),
    Control("n", "Candidates N", "", 8, 1),
    Control("tau_ent", "Entropy limit (nats)", "", 8, 0.05),
    Control("tau_cmp", "gzip ratio limit", "", 1, 0.01),
    Control("seed", "Seed"),
]
ADVANCED = [
    Control("buffer", "Buffer (tokens)", "may pile up before the next eviction", 256, 1),
    Control("window", "Window (tokens)", "newest tokens, always kept, that judge the others", 64, 1),
    Control("kernel", "Pooling kernel", "odd; SnapKV and R-KV", 31, 2),
    Control("rkv_lambda", "R-KV lambda", "1: importance only, 0: redundancy only", 1, 0.01),
    Control("sinks", "Sinks", "StreamingLLM: first tokens, always kept", 16, 1),
    Control("protect_sink", "Protected first tokens", "KeyDiff and Knorm", 16, 1),
    Control("protect_prompt", "Never evict the prompt"),
    Control("temperature", "Temperature", "0 is greedy", 2, 0.05),
    Control("top_p", "Top-p", "", 1, 0.01),
    Control("greedy_first", "First candidate is greedy"),
    Control("early_exit", "Early exit", "abort base candidates that degenerate"),
    Control("ent_window", "Entropy window (tokens)", "", 128, 1),
    Control("cmp_window", "gzip window (bytes)", "", 1024, 8),
    Control("cmp_stride", "gzip stride (tokens)", "", 64, 1),
    Control("max_step_tokens", "Longest step (tokens)", "", 512, 1),
    Control("max_steps", "Most steps", "", 128, 1),
    Control("max_tokens", "Most new tokens", "", 4096, 1),
    Control("deadline_s", "Time limit (seconds)", "", 1800, 10),
    Control("scorer", "Judge", "the PRM comes with the lab; likelihood and rules are stand-ins"),
    Control("scorer_model", "Judge's weights", "likelihood reads with these"),
    Control("system_prompt", "System prompt"),
]
RECO = [
    Control("retention_ratio", "Share kept (lambda)", "", 1, 0.05),
    Control("delta", "Reward may move it by (delta)", "0 holds the share", 0.5, 0.01),
    Control("reco_every", "Decide every (S tokens)", "", 512, 1),
    Control("tau_l", "Low reward up to (tau_l)", "reflection is left alone", 1, 0.01),
    Control("tau_h", "High reward from (tau_h)", "reflection is suppressed; two in a row ask for the answer", 1, 0.01),
    Control("beta", "Penalty on reflection (beta)", "logits; 0 for none", 20, 0.5),
    Control("tau_p", "Answer's perplexity up to (tau_p)", "0 never asks", 3, 0.01),
    Control("max_probes", "Most questions", "", 50, 1),
    Control("ratio_of", "Share of"),
    Control("reflection_words", "Reflection words", "with commas"),
    Control("closing_prompt", "Closing prompt", "up to the answer's opening brace"),
]
MOST_LINK_CHARS = 6 * MAX_PROBLEM_CHARS + 20_000
SUITED = ("policy", "window", "protect_prompt")
"""Fields that a model set may want otherwise for ReCo."""
FREE_TEXT = ("system_prompt", "reflection_words", "closing_prompt")
FIELDS = ["method", *(control.field for control in [*BASIC, *ADVANCED, *RECO])]


def build(control: Control, value: Any) -> gr.components.Component:
    """The input of one field. Always interactive: a slider that feeds no listener would be rendered disabled."""
    schema = RunConfig.model_json_schema()["properties"][control.field]
    common: dict[str, Any] = {"label": control.label, "value": value, "interactive": True, "elem_id": f"kvr-{control.field}"}
    info = control.info or None
    if "enum" in schema:
        return gr.Dropdown(CHOICES[control.field], info=info, filterable=False, **common)
    if schema["type"] == "boolean":
        return gr.Checkbox(info=info, **common)
    if schema["type"] == "string":
        return gr.Textbox(info=info, max_length=schema["maxLength"], lines=2, **common)
    if control.top is None:
        return gr.Number(info=info, precision=0, minimum=schema["minimum"], maximum=schema["maximum"], **common)
    low = schema.get("minimum", control.step)
    return gr.Slider(low, control.top, step=control.step, info=info, **common)


def to_config(values: dict[str, Any]) -> RunConfig:
    """RunConfig from the inputs' values; ConfigError when one is empty or out of range."""
    whole = {name for name, schema in RunConfig.model_json_schema()["properties"].items() if schema.get("type") == "integer"}
    # Sliders send 64.0 for 64.
    cleaned = {name: int(value) if name in whole and isinstance(value, float) and value.is_integer() else value for name, value in values.items()}
    return make_config(**cleaned)


def from_link(text: str) -> tuple[str | None, str, dict[str, Any]]:
    """Model set, problem and settings that a link carries (base64url of JSON); ConfigError when it is damaged or asks for what is not allowed."""
    damaged = ConfigError("settings", "The link's settings are damaged; copy the link again.")
    if len(text) > MOST_LINK_CHARS:
        raise damaged
    try:
        given = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        models, problem, values = given.get("models"), given["problem"], dict(given["settings"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise damaged from None
    if not (models is None or isinstance(models, str)):
        raise damaged
    return models, check_problem(problem), make_config(**values).model_dump()


def changes(values: dict[str, Any], defaults: dict[str, Any]) -> str:
    """Which settings differ from the defaults, in words; empty when none does."""
    different = [
        # The visitor's own text is not repeated: it would be read as Markdown.
        name if name in FREE_TEXT else f"{name} {values[name]} (default {defaults[name]})"
        for name in FIELDS[1:]
        if values[name] != defaults[name]
    ]
    return "Changed: " + ", ".join(different) if different else ""
