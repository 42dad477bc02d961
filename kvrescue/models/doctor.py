"""What this machine can run, in numbers and in plain words."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from huggingface_hub import try_to_load_from_cache

from kvrescue.config import ConfigError, make_config
from kvrescue.models.load import LAB_FOLDER
from kvrescue.models.memory import Weights, predict, total
from kvrescue.models.precision import choose
from kvrescue.models.shapes import KNOWN, SMOLLM2, Shape
from kvrescue.models.smollm2 import cached_smollm2
from kvrescue.models.weights import main_memory
from kvrescue.paths import cache_folder
from kvrescue.presets import LAB_SETS, MODEL_SETS, default_settings
from kvrescue.rewards.trained import FAMILIES


@dataclass(frozen=True)
class PartReport:
    """One model of a set, in bytes."""

    part: str
    model: str
    quantise: str
    weights: int
    cache: int
    activations: int


@dataclass(frozen=True)
class SetReport:
    name: str
    title: str
    weights_bytes: int
    """Of base, helper and process reward model together."""
    total_bytes: int
    """With the caches at their largest and the largest forward."""
    parts: list[PartReport]
    cached: bool
    fits: bool


@dataclass(frozen=True)
class Report:
    versions: dict[str, str]
    cores: int
    threads: int
    memory_total: int
    memory_free: int
    gpus: list[dict[str, Any]]
    bitsandbytes: bool
    cache: str
    tokens: int | None
    """Length of prompt and answer that caches were reckoned for; None: each set's own limit."""
    n: int | None
    sets: list[SetReport]
    suggestion: str | None
    """The largest set that fits."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def examine(only: str | None = None, *, n: int | None = None, tokens: int | None = None, quantise: Mapping[str, str] | None = None) -> Report:
    """Predict for every set, or for ``only`` one: with its own N and quantisation, up to its own length, unless others are given.

    ConfigError with field ``models``, ``n``, ``tokens`` or ``quantise``.
    """
    if only is not None and only not in MODEL_SETS:
        raise ConfigError("models", f"There is no model set {only!r}; known: {', '.join(MODEL_SETS)}.")
    if tokens is not None and not 1 <= tokens <= 1_000_000:
        raise ConfigError("tokens", f"tokens is {tokens}; allowed: a whole number from 1 to 1,000,000.")
    memory_total, free = main_memory()
    gpus = _gpus()
    every = [_set_report(name, gpus, free, n, tokens, (quantise or {}) if only in (None, name) else {}) for name in MODEL_SETS]
    sets = [one for one in every if only in (None, one.name)]
    versions = {"python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in ("torch", "transformers", "gradio")}
    fitting = [one for one in every if one.fits]
    return Report(
        versions=versions,
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        memory_total=memory_total,
        memory_free=free,
        gpus=gpus,
        bitsandbytes=bool(gpus) and importlib.util.find_spec("bitsandbytes") is not None,
        cache=str(cache_folder()),
        tokens=tokens,
        n=n,
        sets=sets,
        suggestion=max(fitting, key=lambda one: one.weights_bytes).name if fitting else None,
    )


def shapes_of(name: str, gpu: bool, quantise: Mapping[str, str] | None = None, free: int = 0) -> dict[str, tuple[str, Weights]]:
    """(model, how it would be loaded) for base, helper and prm of a set."""
    parts = MODEL_SETS[name].parts
    if not parts:
        if name in LAB_SETS:
            folders = LAB_SETS[name]
            configs = {part: json.loads((LAB_FOLDER / folder / "config.json").read_text(encoding="utf-8")) for part, folder in folders.items()}
            return {part: (f"lab-{folders[part]}", Weights(Shape.of(SimpleNamespace(**config)), "fp32")) for part, config in configs.items()}
        whole = Weights(SMOLLM2, "bf16" if gpu else "fp32")
        return {"base": ("SmolLM2-135M-Instruct", whole), "helper": ("SmolLM2-135M-Instruct", whole)}
    asked = quantise or {}
    found = {}
    for part, one in parts.items():
        kind = asked.get(part, one.quantise)
        shape = KNOWN[one.repo]
        if part == "prm" and one.family and FAMILIES[one.family].keys:
            shape = replace(shape, tied=True)  # its language model head is not read
        kind = ("bf16" if kind == "auto" else kind) if gpu else choose(kind, "cpu", shape.parameters, free).name
        found[part] = (one.repo, Weights(shape, kind))
    return found


def _set_report(name: str, gpus: list[dict[str, Any]], free: int, n: int | None, tokens: int | None, quantise: Mapping[str, str]) -> SetReport:
    gpu = bool(gpus) and name not in LAB_SETS
    models = shapes_of(name, gpu, quantise, free)
    values = {**default_settings(name), **({"n": n} if n is not None else {})}
    config = make_config(**values)
    device = "cuda" if gpu else "cpu"
    length = tokens or config.max_tokens
    weights = {part: one for part, (_, one) in models.items()}
    parts = predict(weights, config, length, same=models["base"][0] == models["helper"][0], device=device)
    whole = total(parts, device)
    room = sum(one["free"] for one in gpus) if gpu else free  # a base spreads over all GPUs
    reader = config.scorer_model if config.scorer != "estimator" else "helper"
    names = {one.part: one.part if one.part in models else reader for one in parts}
    told = [
        PartReport(one.part, models[names[one.part]][0], weights[names[one.part]].quantise, one.weights, one.cache, one.activations) for one in parts
    ]
    cached = name in LAB_SETS or (name == "smollm2" and cached_smollm2() is not None) or (bool(MODEL_SETS[name].parts) and _on_disk(name))
    return SetReport(name, MODEL_SETS[name].title, sum(one.weights for one in parts), whole, told, cached, whole < room)


def _on_disk(name: str) -> bool:
    """Every model of a hub set has its weights, or their index, in the local cache."""

    def here(repo: str, revision: str) -> bool:
        files = ("model.safetensors.index.json", "model.safetensors")
        return any(isinstance(try_to_load_from_cache(repo, file, revision=revision), str) for file in files)

    return all(here(one.repo, one.revision) for one in MODEL_SETS[name].parts.values())


def _gpus() -> list[dict[str, Any]]:
    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        found.append({"name": torch.cuda.get_device_name(index), "free": free, "total": total})
    return found


def in_words(report: Report) -> list[str]:
    """Lines for a person."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    lines = [
        versions,
        f"{report.cores} cores ({report.threads} threads for torch), {_gib(report.memory_free)} of {_gib(report.memory_total)} memory free",
    ]
    gpus = [f"GPU: {gpu['name']}, {_gib(gpu['free'])} of {_gib(gpu['total'])} free" for gpu in report.gpus]
    lines += gpus or ["no GPU: models run on the CPU in float32"]
    lines.append(f"bitsandbytes: {'usable' if report.bitsandbytes else 'not usable here (needs a CUDA GPU and the package)'}")
    lines.append(f"model cache: {report.cache}")
    for one in report.sets:
        fit = "fits" if one.fits else "does not fit into the free memory"
        where = "already here" if one.cached else "will be fetched on first use"
        lines.append(f"model set {one.name} ({one.title}): about {_gib(one.total_bytes)}, {fit}, {where}")
        if len(report.sets) == 1:
            lines += [
                f"  {part.part}: {part.model} as {part.quantise}: weights {_gib(part.weights)}, caches {_gib(part.cache)}, "
                f"largest forward {_gib(part.activations)}"
                for part in one.parts
            ]
    if report.suggestion and not (len(report.sets) == 1 and report.sets[0].fits):
        lines.append(f"largest set that fits: {report.suggestion}")
    return lines


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**29 else f"{size / 2**20:.1f} MiB"
