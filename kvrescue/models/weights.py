"""Read weights: from a folder or the hub, safetensors only, in the precision that was chosen; every failure becomes one sentence."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoModel, AutoModelForCausalLM, PreTrainedModel
from transformers.utils.hub import cached_file

import kvrescue.cache.attention as attention
from kvrescue.config import ConfigError
from kvrescue.models.hub import hub_says
from kvrescue.models.precision import Precision
from kvrescue.models.shapes import Shape

Progress = Callable[[str], None]
_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"


_MOST_OF_A_GPU = 0.8
"""A base that takes more of a GPU's free memory is spread over all of them: caches and forwards need room too."""


def best_device() -> str:
    """The GPU with the most free memory; the CPU without one."""
    if not torch.cuda.is_available():
        return "cpu"
    count = torch.cuda.device_count()
    return "cuda" if count == 1 else f"cuda:{max(range(count), key=lambda index: free_memory(f'cuda:{index}'))}"


def free_memory(device: str) -> int:
    """Free bytes on the device, those included that torch holds without using them; 0 where that is unknown."""
    if device.startswith("cuda") and torch.cuda.is_available():
        index = torch.device(device).index or 0
        return int(torch.cuda.mem_get_info(index)[0] + torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index))
    return main_memory()[1]


@dataclass(frozen=True)
class Place:
    """Where a model's weights go, and whether they fit."""

    device: str
    spread: bool
    """Over all GPUs, layer by layer (accelerate's device map)."""
    free: int
    """Bytes, before anything is loaded; 0 where that is unknown."""

    @classmethod
    def of(cls, shape: Shape, kind: str, device: str, may_spread: bool = False) -> Place:
        free, needed = free_memory(device), shape.weight_bytes(kind)
        if may_spread and device.startswith("cuda") and torch.cuda.device_count() > 1 and needed > _MOST_OF_A_GPU * free:
            return cls(device, True, sum(free_memory(f"cuda:{index}") for index in range(torch.cuda.device_count())))
        return cls(device, False, free)

    def check(self, shape: Shape, kind: str, field: str, name: str) -> None:
        """ConfigError when the weights alone are too large: before they are fetched, and before the system would end the whole process."""
        if self.free and shape.weight_bytes(kind) > self.free:
            raise self.too_large(shape, kind, field, name)

    def too_large(self, shape: Shape, kind: str, field: str, name: str) -> ConfigError:
        needs = f"{name} does not fit: its weights take {_gib(shape.weight_bytes(kind))} as {kind}, and {_gib(self.free)} are free"
        smaller = [one for one in ("bf16", "int8", "nf4") if shape.weight_bytes(one) < min(self.free, shape.weight_bytes(kind))]
        if self.device.startswith("cuda") and smaller:
            least = smaller[-1]
            return ConfigError(field, f"{needs}; as {least} they would take {_gib(shape.weight_bytes(least))} (--quantise {field}={least}).")
        return ConfigError(field, f"{needs}; choose a smaller model (python -m kvrescue doctor tells what fits).")


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
        files = _files(path, revision)
        for number, file in enumerate(files, 1):
            say(f"{name}: weights {number}/{len(files)}")
            cached_file(path, file, revision=revision)
        if not files:
            cached_file(path, _SINGLE, revision=revision)  # raises, and by what it raises tells whether anybody could be asked
    except Exception as error:
        said = hub_says(error, path, field, revision)
        if said is None and not files:
            said = (
                f"{field} {name} has no safetensors weights on the hub; pickled ones, which can run code, are not read. "
                "Convert them, and name the folder."
            )
        raise ConfigError(field, said or f"The weights of {name} could not be fetched: {first_line(error)}") from None


def _files(path: str, revision: str | None) -> list[str]:
    """The safetensors files of a model, folder or hub; empty when it has none, or nobody could be asked."""
    index = _optional(path, _INDEX, revision)
    if index is not None:
        return sorted(set(_weight_map(index).values()))
    return [_SINGLE] if _optional(path, _SINGLE, revision) is not None else []


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


def _optional(path: str, file: str, revision: str | None) -> str | None:
    try:
        found = cached_file(path, file, revision=revision, _raise_exceptions_for_missing_entries=False)
    except OSError:
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
    path: str, config: Any, field: str, name: str, precision: Precision, place: Place, *, backbone: bool = False, revision: str | None = None
) -> PreTrainedModel:
    """The model on its device. ``backbone``: without the language model head."""
    loader: Any = AutoModel if backbone else AutoModelForCausalLM
    arguments = precision.arguments()
    if place.spread:
        arguments["device_map"] = "auto"
    elif "quantization_config" in arguments:
        arguments["device_map"] = {"": place.device}
    too_large = place.too_large(shape_read(config, backbone), precision.name, field, name)
    with _report() as report:
        try:
            model, found = loader.from_pretrained(
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
                model = model.to(place.device)
        except Exception as error:  # a damaged file raises whatever its reader raises
            if out_of_memory(error) or _NO_ROOM in str(error) or any("OutOfMemoryError" in text for text in report):
                raise too_large from None
            raise ConfigError(field, f"The weights of {name} could not be read: {first_line(error)}") from None
    if {"cpu", "disk"} & set(map(str, (getattr(model, "hf_device_map", None) or {}).values())) and place.device != "cpu":
        raise too_large  # what the GPUs can't hold would be carried there again for every token
    if found["missing_keys"]:
        # transformers would fill them with random numbers and only log it.
        example = min(found["missing_keys"])
        raise ConfigError(field, f"The weights of {name} are incomplete: {len(found['missing_keys'])} tensors are missing, such as {example}.")
    result: PreTrainedModel = model
    return result


_NO_ROOM = "dispatched on the CPU or the disk"
"""What transformers says when packed weights do not fit."""


def shape_read(config: Any, backbone: bool) -> Shape:
    """Of what is read: a backbone comes without the language model head."""
    shape = Shape.of(config)
    return replace(shape, tied=True) if backbone else shape


@contextmanager
def _report() -> Iterator[list[str]]:
    """What transformers logs while it loads: of weights that it could not pack it says why there, and not in its exception."""
    logger, heard = logging.getLogger("transformers.modeling_utils"), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    before = logger.level, logger.propagate
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield heard
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def first_line(error: BaseException) -> str:
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return line[:200].rstrip(".") + "."
