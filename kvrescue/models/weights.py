"""Read weights: from a folder or the hub, safetensors only, in the precision that was chosen; every failure becomes one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoModel, AutoModelForCausalLM, PreTrainedModel
from transformers.utils.hub import cached_file

import kvrescue.cache.attention as attention
from kvrescue.config import ConfigError
from kvrescue.models.precision import Precision
from kvrescue.models.shapes import Shape

Progress = Callable[[str], None]
_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"


def free_memory(device: str) -> int:
    """Free bytes on the device; 0 where that is unknown."""
    if device.startswith("cuda") and torch.cuda.is_available():
        return int(torch.cuda.mem_get_info(torch.device(device).index or 0)[0])
    return main_memory()[1]


def out_of_memory(error: BaseException) -> bool:
    """On a CPU torch says it with a plain RuntimeError."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in ("not enough memory", "can't allocate memory"))


def main_memory() -> tuple[int, int]:
    """(total, available) bytes of main memory; zeros where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            table = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        return table["MemTotal"], table["MemAvailable"]
    except (OSError, KeyError, ValueError):
        return 0, 0


def fetch(path: str, field: str, name: str, revision: str | None, say: Progress) -> None:
    """Bring a hub model's weight files into the cache one by one, so that the status line can count them."""
    if Path(path).is_dir():
        return
    try:
        files = _files(path, revision, strict=True)
    except OSError as error:
        raise ConfigError(field, f"The weights of {name} could not be fetched: {first_line(error)}") from None
    if not files:
        told = "has no safetensors weights on the hub; pickled ones, which can run code, are not read. Convert them, and name the folder."
        raise ConfigError(field, f"{field} {name} {told}")
    for number, file in enumerate(files, 1):
        say(f"{name}: weights {number}/{len(files)}")
        try:
            cached_file(path, file, revision=revision)
        except OSError as error:
            raise ConfigError(field, f"The weights of {name} could not be fetched: {first_line(error)}") from None


def _files(path: str, revision: str | None, strict: bool = False) -> list[str]:
    """The safetensors files of a model, folder or hub; empty when it has none. ``strict``: OSError when nobody could be asked."""
    index = _optional(path, _INDEX, revision, strict)
    if index is not None:
        return sorted(set(_weight_map(index).values()))
    return [_SINGLE] if _optional(path, _SINGLE, revision, strict) is not None else []


def _weight_map(index: str) -> dict[str, str]:
    """Tensor name -> file."""
    table: dict[str, str] = json.loads(Path(index).read_text(encoding="utf-8"))["weight_map"]
    return table


def tensor_names(path: str, field: str, name: str, revision: str | None, say: Progress) -> set[str]:
    """Of a checkpoint. Several files have an index, which tells; a single one is fetched."""
    index = _optional(path, _INDEX, revision)
    if index is not None:
        return set(_weight_map(index))
    fetch(path, field, name, revision, say)
    file = _optional(path, _SINGLE, revision)
    if file is None:
        return set()
    with safe_open(file, framework="pt") as opened:
        return set(opened.keys())


def _optional(path: str, file: str, revision: str | None, strict: bool = False) -> str | None:
    try:
        found = cached_file(path, file, revision=revision, _raise_exceptions_for_missing_entries=False)
    except OSError:
        if strict:
            raise
        return None
    return str(found) if found is not None else None


def read_tensors(path: str, keys: Sequence[str], field: str, name: str, revision: str | None = None) -> dict[str, Tensor]:
    """These tensors of a checkpoint, on the CPU; ConfigError that names one that is missing."""
    found: dict[str, Tensor] = {}
    for file in _files(path, revision):
        where = _optional(path, file, revision)
        if where is None:
            continue
        with safe_open(where, framework="pt") as opened:
            for key in set(keys) & set(opened.keys()):
                found[key] = opened.get_tensor(key)
    missing = [key for key in keys if key not in found]
    if missing:
        raise ConfigError(field, f"{field} {name} has no tensor {missing[0]}; its head is not the one this family of models has.")
    return found


def read_model(
    path: str,
    config: Any,
    field: str,
    name: str,
    precision: Precision,
    device: str,
    *,
    backbone: bool = False,
    spread: bool = False,
    revision: str | None = None,
) -> PreTrainedModel:
    """The model on its device. ``backbone``: without the language model head. ``spread``: over all GPUs, layer by layer (accelerate)."""
    loader: Any = AutoModel if backbone else AutoModelForCausalLM
    arguments = precision.arguments()
    if spread and torch.cuda.device_count() > 1:
        arguments["device_map"] = "auto"
    elif "quantization_config" in arguments:
        arguments["device_map"] = {"": device}
    free = free_memory(device)
    if device == "cpu" and free and Shape.of(config).weight_bytes(precision.name) > free:
        raise ConfigError(field, _too_large(config, name, precision, device))  # or the system would end the whole process
    try:
        model, report = loader.from_pretrained(
            path,
            config=config,
            revision=revision or "main",
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation=attention.NAME,
            output_loading_info=True,
            **arguments,
        )
        if "device_map" not in arguments:
            model = model.to(device)
    except Exception as error:  # a damaged file raises whatever its reader raises
        if out_of_memory(error):
            raise ConfigError(field, _too_large(config, name, precision, device)) from None
        raise ConfigError(field, f"The weights of {name} could not be read: {first_line(error)}") from None
    if report["missing_keys"]:
        # transformers would fill them with random numbers and only log it.
        example = min(report["missing_keys"])
        raise ConfigError(field, f"The weights of {name} are incomplete: {len(report['missing_keys'])} tensors are missing, such as {example}.")
    result: PreTrainedModel = model
    return result


def _too_large(config: Any, name: str, precision: Precision, device: str) -> str:
    shape, free = Shape.of(config), free_memory(device)
    needs = f"{name} does not fit: its weights take {_gib(shape.weight_bytes(precision.name))} as {precision.name}, and {_gib(free)} are free"
    smaller = [kind for kind in ("bf16", "int8", "nf4") if shape.weight_bytes(kind) < min(free, shape.weight_bytes(precision.name))]
    if device.startswith("cuda") and smaller:
        return f"{needs}; as {smaller[-1]} they would take {_gib(shape.weight_bytes(smaller[-1]))} (--quantise {smaller[-1]})."
    return f"{needs}; choose a smaller model (python -m kvrescue doctor tells what fits)."


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def first_line(error: BaseException) -> str:
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return line[:200].rstrip(".") + "."
