"""Refusals before any weight is read: each one sentence that names what was given and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer

from kvrescue.config import ConfigError

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
        raise ConfigError(field, _unreadable(path, field, name, error)) from None
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


def _unreadable(path: str, field: str, name: str, error: Exception) -> str:
    if Path(path).is_dir():
        return f"{field} {name}: its config.json cannot be understood, or its architecture is not supported ({', '.join(SUPPORTED)} are)."
    text = str(error).lower()
    if "gated" in text or "401" in text or "403" in text:
        return f"{field} {path!r} is gated or private; log in with a token that may read it, or choose another."
    if "connect" in text or "offline" in text or "resolve" in text or "internet" in text:
        return f"{field} {path!r} is not a local folder, and the model hub cannot be reached."
    return f"{field} {path!r} is neither a local folder nor a model on the hub."


def check_tokenizer(path: str, field: str, name: str, revision: str | None = None) -> Any:
    """The model's fast tokenizer."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, revision=revision or "main", trust_remote_code=False)
    except Exception:  # whatever a broken tokenizer raises, the visitor needs one sentence
        raise ConfigError(field, f"{field} {name} has no tokenizer that can be read.") from None
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(field, f"{field} {name} has no fast tokenizer (tokenizer.json).")
    return tokenizer
