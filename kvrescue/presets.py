"""Named model sets and named settings. No torch here: the page and the command line read it too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvrescue.config import RunConfig, make_config


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


MODEL_SETS: dict[str, ModelSet] = {
    "smollm2": ModelSet(
        title="SmolLM2-135M-Instruct",
        note="Base and helper are the same weights: only their memory differs.",
        parameters=134_515_008,
        settings={"n": 2, "budget": 64, "buffer": 32, "max_step_tokens": 96, "max_tokens": 256, "deadline_s": 300.0},
    ),
}
DEFAULT_MODEL_SET = "smollm2"
OWN_MODELS = ModelSet(title="Your own models", note="", parameters=0, settings={"n": 2, "max_tokens": 512})


def default_settings(model_set: str | None) -> dict[str, Any]:
    """RunConfig fields that a model set changes; those for unknown models when it is None."""
    return dict((MODEL_SETS[model_set] if model_set else OWN_MODELS).settings)


def default_config(model_set: str | None) -> RunConfig:
    return make_config(**default_settings(model_set))
