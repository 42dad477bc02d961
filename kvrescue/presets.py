"""Named model sets and named settings. No torch here: the page and the command line read it too."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvrescue.config import DEFAULT_SYSTEM_PROMPT, RECO_METHODS, ConfigError, RunConfig, make_config
from kvrescue.paths import cache_folder

PARTS = ("base", "helper", "prm")
QUANTISATIONS = ("auto", "fp32", "bf16", "int8", "nf4")
"""auto: bf16 on a GPU, the fastest that works on a CPU."""


REVISIONS = {
    "Qwen/Qwen2.5-Math-7B-Instruct": "ef9926d75ab1d54532f6a30dd5e760355eb9aa4d",
    "Qwen/Qwen2.5-Math-1.5B-Instruct": "aafeb0fc6f22cbf0eaeed126eff8be45b0360a35",
    "Qwen/Qwen2.5-Math-72B-Instruct": "8fcf92b1eac8eca48c3d49778ad3dd1b394c9a17",
    "Qwen/Qwen2.5-Math-PRM-7B": "0610740060112df12585d00a1c5f4624d2f59051",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": "916b56a44061fd5cd7d6a8fb632557ed4f724f60",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": "ad9f0ae0864d7fbcd1cd905e3c6c5b069cc8b562",
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": "6a6f4aa4197940add57724a7707d069478df56b1",
    "Qwen/Qwen3-8B": "b968826d9c46dd6066d109eabc6255188de91218",
    "Qwen/Qwen3-0.6B": "c1899de289a04d12100db370d81485cdf75e47ca",
}
"""Commits of the model hub that are pinned, as several public projects name them; the hub itself could not be asked."""


@dataclass(frozen=True)
class Part:
    """One model of a set, on the model hub."""

    repo: str
    quantise: str = "bf16"
    """On a GPU, when nothing else is asked for; a CPU takes the fastest that works."""
    family: str | None = None
    """Of a process reward model: how it reads steps (rewards/trained)."""

    @property
    def revision(self) -> str:
        """The commit that is fetched; the newest one of a repository whose commits are not known here."""
        return REVISIONS.get(self.repo, "main")


@dataclass(frozen=True)
class ModelSet:
    """Models that belong together, with the settings that suit them."""

    title: str
    note: str
    """One sentence that the page shows beside the models."""
    settings: dict[str, Any] = field(default_factory=dict)
    """RunConfig fields that differ from the defaults."""
    reco: dict[str, Any] = field(default_factory=dict)
    """Fields that ReCo's methods have on top of them."""
    pace_s: float = 0.0
    """Least seconds between two steps on the page, for models that write faster than anybody reads."""
    parts: dict[str, Part] = field(default_factory=dict)
    """base, helper and prm, for sets that come from the hub and need a GPU."""
    gib: int = 0
    """What doctor predicts for them on a GPU, with the set's own N and length, in GiB."""

    @property
    def label(self) -> str:
        """The title, and for what needs a GPU how much of it."""
        return f"{self.title} (about {self.gib} GiB)" if self.gib else self.title


_PAPER: dict[str, Any] = {
    "scorer": "prm",
    "n": 4,
    "budget": 64,
    "buffer": 64,
    "delimiter": "\n\n",
    "max_step_tokens": 512,
    "max_tokens": 4096,
    "deadline_s": 900.0,
}
_RECO: dict[str, Any] = {
    **_PAPER,
    # These models are trained without a system turn; what they should do stands behind the problem.
    "system_prompt": "",
    "instruction": DEFAULT_SYSTEM_PROMPT,
    "temperature": 0.6,
    "max_step_tokens": 1024,
    "max_tokens": 16_384,
    "max_steps": 1024,
    "deadline_s": 1800.0,
}
_LINES: dict[str, Any] = {"delimiter": "\n"}
"""ReCo's steps are lines."""
# ReCo's estimator was distilled from a judge of Skywork, whose repository holds pickled weights only, as others that pinned it found.
_JUDGE = Part("Qwen/Qwen2.5-Math-PRM-7B", "nf4", "qwen")

_LAB: dict[str, Any] = {
    "scorer": "prm",
    "n": 4,
    "budget": 64,
    "buffer": 16,
    # A running total is needed some 25 tokens after it was written; pooling over several tokens would blur a sentence of ten.
    "window": 32,
    "kernel": 1,
    "temperature": 0.6,
    "top_p": 1.0,
    "greedy_first": True,
    "max_step_tokens": 40,
    # Beyond every window of 60 sampled full-KV runs (0.33 nats, ratio 0.94); three of four runs at B = 48 go beyond the first.
    "tau_ent": 0.45,
    "ent_window": 6,
    "tau_cmp": 0.85,
    "cmp_window": 64,
    "cmp_stride": 4,
    "max_tokens": 400,
    "deadline_s": 120.0,
    "system_prompt": "",
    "retention_ratio": 0.8,
    "reco_every": 48,
    "beta": 8.0,
    "closing_prompt": "Time is up. The answer is \\boxed{",
}
# A problem is half of the whole text here, and at any share its loss is fatal: ReCo works on what was written.
_LAB_RECO: dict[str, Any] = {"policy": "snapkv-decode", "window": 32, "protect_prompt": True}

LAB_SETS: dict[str, dict[str, str]] = {
    "lab": {"base": "base", "helper": "helper", "prm": "prm"},
    "lab-wordy": {"base": "wordy", "helper": "helper", "prm": "wordy-prm"},
}
"""Model sets of the bundled tiny models, and the folder of each part."""
MODEL_SETS: dict[str, ModelSet] = {
    "lab": ModelSet(
        title="Lab (bundled)",
        note="Trained from nothing on short stories; they know no other words.",
        pace_s=0.25,
        settings=_LAB,
        reco=_LAB_RECO,
    ),
    "lab-wordy": ModelSet(
        title="Lab, wordy base (bundled)",
        note="The lab's base, trained on with solvers of many words: what ReCo can spare.",
        pace_s=0.25,
        # Where a look back is suppressed, tokens of the tail take its place: they are left out, and the penalty is mild.
        settings={**_LAB, "max_tokens": 1_000, "max_steps": 128, "temperature": 0.5, "top_p": 0.9, "beta": 2.0},
        reco=_LAB_RECO,
    ),
    "smollm2": ModelSet(
        title="SmolLM2-135M-Instruct",
        note="Base and helper are the same weights: only their memory differs.",
        settings={"n": 2, "budget": 64, "buffer": 32, "max_step_tokens": 96, "max_tokens": 256, "deadline_s": 300.0},
    ),
    "qwen-math-7b": ModelSet(
        title="Qwen2.5-Math 7B, helped by 1.5B",
        note="KV-Rescue's pair, judged by Qwen2.5-Math-PRM-7B. Needs a GPU.",
        settings=_PAPER,
        reco=_LINES,
        gib=15,
        parts={
            "base": Part("Qwen/Qwen2.5-Math-7B-Instruct", "nf4"),
            "helper": Part("Qwen/Qwen2.5-Math-1.5B-Instruct"),
            "prm": _JUDGE,
        },
    ),
    "qwen-math-72b": ModelSet(
        title="Qwen2.5-Math 72B, helped by 7B",
        note="KV-Rescue's large pair, judged by Qwen2.5-Math-PRM-7B. Spreads over several GPUs.",
        settings=_PAPER,
        reco=_LINES,
        gib=51,
        parts={
            "base": Part("Qwen/Qwen2.5-Math-72B-Instruct", "nf4"),
            "helper": Part("Qwen/Qwen2.5-Math-7B-Instruct", "nf4"),
            "prm": _JUDGE,
        },
    ),
    "r1-qwen-7b": ModelSet(
        title="DeepSeek-R1-Distill-Qwen 7B, helped by 1.5B",
        note="A think-style model of ReCo's paper, judged by Qwen2.5-Math-PRM-7B. Needs a GPU.",
        settings=_RECO,
        reco=_LINES,
        gib=17,
        parts={
            "base": Part("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "nf4"),
            "helper": Part("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"),
            "prm": _JUDGE,
        },
    ),
    "r1-llama-8b": ModelSet(
        title="DeepSeek-R1-Distill-Llama 8B, helped by Qwen 1.5B",
        note="A think-style model of ReCo's paper; base and helper have different vocabularies, so steps change hands as text. Needs a GPU.",
        settings=_RECO,
        reco=_LINES,
        gib=17,
        parts={
            "base": Part("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "nf4"),
            "helper": Part("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"),
            "prm": _JUDGE,
        },
    ),
    "qwen3-8b": ModelSet(
        title="Qwen3 8B, helped by 0.6B",
        note="A think-style model of ReCo's paper, judged by Qwen2.5-Math-PRM-7B. Needs a GPU.",
        settings=_RECO,
        reco=_LINES,
        gib=17,
        parts={"base": Part("Qwen/Qwen3-8B", "nf4"), "helper": Part("Qwen/Qwen3-0.6B"), "prm": _JUDGE},
    ),
}
DEFAULT_MODEL_SET = "lab"
OWN_MODELS = ModelSet(title="Your own models", note="", settings={"n": 2, "max_tokens": 512})


@dataclass(frozen=True)
class Choice:
    """Which models to load: a model set by name, or ``base`` and ``helper`` (local folders or hub ids; the helper defaults to the base)."""

    model_set: str | None = None
    base: str | None = None
    helper: str | None = None
    prm: str | None = None
    """A published process reward model, instead of the set's own."""
    prm_family: str | None = None
    estimator: str | None = None
    """Folder of a light judge that was trained for these models."""
    quantise: Mapping[str, str] = field(default_factory=dict)
    """Of base, helper and prm, where it is not the set's (presets.QUANTISATIONS)."""

    @property
    def known_set(self) -> str | None:
        """The model set's name, checked; None for models of one's own. ConfigError with field ``models``."""
        if self.base or self.helper:
            return None
        name = self.model_set or DEFAULT_MODEL_SET
        if name not in MODEL_SETS:
            raise ConfigError("models", f"There is no model set {name!r}; known: {', '.join(MODEL_SETS)}.")
        return name


LENT_SET = "qwen-math-7b"
"""Runs on a GPU that ZeroGPU lends, if no other set is named."""


def offered(chosen: str | None = None) -> list[str]:
    """Sets that the page lists: those of the hub only where there is a GPU to run them. Where it is lent (ZeroGPU) one set is loaded at the
    start and no other: ``chosen``, if it is of the hub."""
    if os.environ.get("SPACES_ZERO_GPU"):
        return [*LAB_SETS, chosen if chosen in MODEL_SETS and chosen not in LAB_SETS else LENT_SET]
    gpu = Path("/dev/nvidiactl").exists()
    return [name for name, one in MODEL_SETS.items() if gpu or not one.parts]


def named_set() -> str | None:
    """The set that a Space's variable KVRESCUE_MODELS names; none where it could not run, so that a copy of a Space without a GPU shows the lab."""
    name = os.environ.get("KVRESCUE_MODELS")
    return None if name in MODEL_SETS and name not in offered(name) else name


EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "problems.json"


def load_examples() -> list[dict[str, Any]]:
    """The page's examples: id, models, problem, answer and settings each; what each teaches is among the words."""
    found: list[dict[str, Any]] = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    return found


def example_of(text: str, model_set: str | None) -> dict[str, Any] | None:
    """The example that ``example:ID`` names; None when the text is a problem. ConfigError with field ``problem``."""
    if not text.startswith("example:"):
        return None
    known = {one["id"]: one for one in load_examples()}
    found = known.get(text.removeprefix("example:"))
    if found is None:
        raise ConfigError("problem", f"There is no {text!r}; known: {', '.join(known)}.")
    if model_set is not None and (found["models"] in LAB_SETS) != (model_set in LAB_SETS):
        raise ConfigError("models", f"{text!r} is for the models {found['models']!r}, not {model_set!r}.")
    return found


def quantisation_of(texts: Sequence[str]) -> dict[str, str]:
    """``["nf4"]`` for every part, or ``["base=nf4", "prm=int8"]`` for some; ConfigError with field ``quantise``."""
    found: dict[str, str] = {}
    for text in texts:
        part, equals, kind = text.rpartition("=")
        if kind not in QUANTISATIONS or (equals and part not in PARTS):
            kinds = ", ".join(QUANTISATIONS)
            raise ConfigError("quantise", f"quantise is {text!r}; allowed: one of {kinds}, or {', '.join(PARTS)} each with = and one of them.")
        found.update(dict.fromkeys([part] if equals else PARTS, kind))
    return found


def check_language(model_set: str | None, problem: str) -> None:
    """ConfigError with field ``problem`` when a model set knows only some words and these are others."""
    if model_set not in LAB_SETS:
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


def with_method(config: RunConfig, method: str, model_set: str | None) -> RunConfig:
    """The same settings under another method; fields that a model set wants otherwise for ReCo come and go with ReCo."""
    values = {**config.model_dump(), "method": method}
    if (method in RECO_METHODS) != (config.method in RECO_METHODS):
        usual = make_config(**default_settings(model_set, method))
        values.update({name: getattr(usual, name) for name in (MODEL_SETS[model_set] if model_set else OWN_MODELS).reco})
    return make_config(**values)


def default_config(model_set: str | None, base: str | None = None) -> RunConfig:
    """What the page starts with: a model set's settings, or those of somebody's own ``base``, with thresholds measured here by ``calibrate``
    when there are some."""
    return make_config(**{**default_settings(model_set), **measured_thresholds(model_set, base)})


MEASURED = ("tau_ent", "tau_cmp")
CALIBRATED_FOR = ("ent_window", "cmp_window", "cmp_stride", "temperature", "top_p")
"""Settings that thresholds depend on."""


def calibration_file(model_set: str | None, base: str | None = None) -> Path:
    """Of a model set, or of somebody's own ``base``: a folder, or a hub id."""
    own = str(Path(base).resolve()) if base and Path(base).exists() else base
    name = model_set or f"own-{hashlib.sha256((own or '').encode()).hexdigest()[:12]}"
    return cache_folder() / "calibrations" / f"{name}.json"


def measured_thresholds(model_set: str | None, base: str | None = None) -> dict[str, float]:
    """tau_ent and tau_cmp that ``calibrate`` stored for a model set or an own base; empty without any, or when they were measured with other
    settings."""
    try:
        found = json.loads(calibration_file(model_set, base).read_text(encoding="utf-8"))
        usual = make_config(**default_settings(model_set))
        if any(found["settings"][name] != getattr(usual, name) for name in CALIBRATED_FOR):
            return {}
        values = {name: float(found[name]) for name in MEASURED if found[name] is not None}
        make_config(**{**default_settings(model_set), **values})
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return values
