"""What this machine can run, in numbers and in plain words."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from dataclasses import asdict, dataclass
from typing import Any

import torch

from kvrescue.models.smollm2 import cached_smollm2
from kvrescue.paths import cache_folder
from kvrescue.presets import MODEL_SETS

_OVERHEAD = 1.2
"""Weights to all memory of a run of the small sets: activations, caches and the libraries' own buffers."""


@dataclass(frozen=True)
class SetReport:
    name: str
    title: str
    weights_bytes: int
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
    sets: list[SetReport]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def examine() -> Report:
    total, free = _memory()
    gpus = _gpus()
    room = max([gpu["free"] for gpu in gpus], default=free)
    item = 2 if gpus else 4
    sets = [_set_report(name, room, item) for name in MODEL_SETS]
    versions = {"python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in ("torch", "transformers", "gradio")}
    return Report(
        versions=versions,
        cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        memory_total=total,
        memory_free=free,
        gpus=gpus,
        bitsandbytes=bool(gpus) and importlib.util.find_spec("bitsandbytes") is not None,
        cache=str(cache_folder()),
        sets=sets,
    )


def _set_report(name: str, room: int, item_bytes: int) -> SetReport:
    weights = MODEL_SETS[name].parameters * item_bytes
    cached = name == "lab" or (name == "smollm2" and cached_smollm2() is not None)
    return SetReport(name, MODEL_SETS[name].title, weights, cached, weights * _OVERHEAD < room)


def _gpus() -> list[dict[str, Any]]:
    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        found.append({"name": torch.cuda.get_device_name(index), "free": free, "total": total})
    return found


def _memory() -> tuple[int, int]:
    """(total, available) bytes of main memory; zeros where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            table = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        return table["MemTotal"], table["MemAvailable"]
    except (OSError, KeyError, ValueError):
        return 0, 0


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
        lines.append(f"model set {one.name} ({one.title}): about {one.weights_bytes / 2**20:,.0f} MiB of weights, {fit}, {where}")
    return lines


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
