"""Named model sets and named settings. No torch here: the page and the command line read it too."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvrescue.config import RECO_METHODS, ConfigError, RunConfig, make_config
from kvrescue.paths import cache_folder


@dataclass(frozen=True)
class ModelSet:
    """Models that belong together, with the settings that suit them."""

    title: str
    note: str
    """One sentence that the page shows beside the models."""
    parameters: int
    """Of base and helper together, each set of weights counted once."""
    settings: dict[str, Any] = field(default_factory=dict)
    """RunConfig fields that differ from the defaults."""
    reco: dict[str, Any] = field(default_factory=dict)
    """Fields that ReCo's methods have on top of them."""


MODEL_SETS: dict[str, ModelSet] = {
    "lab": ModelSet(
        title="Lab (bundled)",
        note="Trained from nothing on short stories; they know no other words.",
        parameters=236_296,
        settings={
            "scorer": "prm",
            "n": 4,
            "budget": 64,
            "buffer": 16,
            "window": 24,
            "temperature": 0.6,
            "top_p": 1.0,
            "greedy_first": True,
            "max_step_tokens": 40,
            # Beyond every window of 60 full-KV runs: 0.52 nats and ratio 0.92 greedy; 0.64 and 0.86 sampled, by an earlier training.
            "tau_ent": 0.65,
            "ent_window": 6,
            "tau_cmp": 0.8,
            "cmp_window": 64,
            "cmp_stride": 4,
            "max_tokens": 400,
            "deadline_s": 120.0,
            "system_prompt": "",
            "retention_ratio": 0.8,
            "reco_every": 48,
            "beta": 8.0,
            "closing_prompt": "Time is up. The answer is \\boxed{",
        },
        # A problem is half of the whole text here, and at any share its loss is fatal: ReCo works on what was written.
        reco={"policy": "snapkv-decode", "window": 32, "protect_prompt": True},
    ),
    "smollm2": ModelSet(
        title="SmolLM2-135M-Instruct",
        note="Base and helper are the same weights: only their memory differs.",
        parameters=134_515_008,
        settings={"n": 2, "budget": 64, "buffer": 32, "max_step_tokens": 96, "max_tokens": 256, "deadline_s": 300.0},
    ),
}
DEFAULT_MODEL_SET = "lab"
OWN_MODELS = ModelSet(title="Your own models", note="", parameters=0, settings={"n": 2, "max_tokens": 512})


def check_language(model_set: str | None, problem: str) -> None:
    """ConfigError with field ``problem`` when a model set knows only some words and these are others."""
    if model_set != "lab":
        return
    from kvrescue.lab.language import foreign_words

    unknown = foreign_words(problem)
    if unknown:
        shown = ", ".join(unknown[:6]) + (" ..." if len(unknown) > 6 else "")
        raise ConfigError(
            "problem",
            f"The lab's tiny models know only the words of their stories and numbers from 0 to 99, not: {shown}. "
            "Take a new problem of theirs, or switch the models to SmolLM2 for text of your own.",
        )


def default_settings(model_set: str | None, method: str | None = None) -> dict[str, Any]:
    """RunConfig fields that a model set changes, for ``method`` if it is given; those for unknown models when the set is None."""
    chosen = MODEL_SETS[model_set] if model_set else OWN_MODELS
    return {**chosen.settings, **(chosen.reco if method in RECO_METHODS else {})}


def default_config(model_set: str | None) -> RunConfig:
    """What the page starts with: a model set's settings, with thresholds measured here by ``calibrate`` when there are some."""
    return make_config(**{**default_settings(model_set), **measured_thresholds(model_set)})


MEASURED = ("tau_ent", "tau_cmp")
CALIBRATED_FOR = ("ent_window", "cmp_window", "cmp_stride", "temperature", "top_p")
"""Settings that thresholds depend on."""


def calibration_file(model_set: str) -> Path:
    return cache_folder() / "calibrations" / f"{model_set}.json"


def measured_thresholds(model_set: str | None) -> dict[str, float]:
    """tau_ent and tau_cmp that ``calibrate`` stored for a model set; empty without any, or when they were measured with other settings."""
    if model_set is None:
        return {}
    try:
        found = json.loads(calibration_file(model_set).read_text(encoding="utf-8"))
        usual = make_config(**default_settings(model_set))
        if any(found["settings"][name] != getattr(usual, name) for name in CALIBRATED_FOR):
            return {}
        values = {name: float(found[name]) for name in MEASURED if found[name] is not None}
        make_config(**{**default_settings(model_set), **values})
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return values
