"""Refusals before any weight is read: each one sentence that names what was given and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer

from kvrescue.config import ConfigError
from kvrescue.models.hub import hub_says

SUPPORTED = ("llama", "qwen2", "qwen3")
"""``model_type`` values whose attention the engine knows how to drive (full attention in every layer)."""

JUDGING = ("mistral",)
"""Further ones that a process reward model may be."""

_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def check_files(path: str, field: str) -> None:
    """Refuse a local folder that is no model or holds only pickled weights. Hub ids pass."""
    folder = Path(path)
    if not folder.is_dir():
        if folder.is_file() or path.startswith((".", "/", "~")) or len(path.split("/")) > 2:
            raise ConfigError(field, f"{field} {path!r} is not a folder; give a model folder or a hub id such as owner/name.")
        return
    if not (folder / "config.json").is_file():
        raise ConfigError(field, f"{field} {path!r} is no model folder: it has no config.json.")
    names = [entry.name for entry in folder.iterdir()]
    if any(name.endswith(".safetensors") for name in names):
        return
    if any(name.endswith(_PICKLES) for name in names):
        raise ConfigError(field, f"{field} {path!r} has only pickled weights, which can run code; convert it to safetensors.")
    raise ConfigError(field, f"{field} {path!r} has no weights: a model.safetensors file is missing.")


def check_config(path: str, field: str, name: str, revision: str | None = None, *, judging: bool = False) -> Any:
    """The model's config, if the engine can drive it. Models that only judge may also be of JUDGING, and have windows that are never left."""
    supported = (*SUPPORTED, *JUDGING) if judging else SUPPORTED
    try:
        config = AutoConfig.from_pretrained(path, revision=revision or "main", trust_remote_code=False)
    except Exception as error:  # a config of wrong types raises whatever its validator raises
        known = f"its config.json cannot be understood, or its architecture is not supported ({', '.join(SUPPORTED)} are)."
        raise ConfigError(field, hub_says(error, path, field, revision) or f"{field} {name}: {known}") from None
    if config.model_type not in supported:
        raise ConfigError(
            field, f"{field} {name} is a {config.model_type!r} model; supported are {', '.join(supported)} (full attention in every layer)."
        )
    if sliding_window(config) and not judging:
        raise ConfigError(field, f"{field} {name} has sliding-window attention layers; only full attention in every layer is supported.")
    return config


def sliding_window(config: Any) -> bool:
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    return bool(kinds - {"full_attention"}) or bool(getattr(config, "use_sliding_window", False))


def check_tokenizer(path: str, field: str, name: str, revision: str | None = None) -> Any:
    """The model's fast tokenizer."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, revision=revision or "main", trust_remote_code=False)
    except Exception as error:  # whatever a broken tokenizer raises, the visitor needs one sentence
        raise ConfigError(field, hub_says(error, path, field, revision) or f"{field} {name} has no tokenizer that can be read.") from None
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(field, f"{field} {name} has no fast tokenizer (tokenizer.json).")
    return tokenizer
