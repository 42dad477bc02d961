"""What every benchmark prints first, and the statistics they share."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence

import torch
import transformers

from kvrescue.models.load import Pair

STORY = (
    "Write a very long and detailed story about a lighthouse keeper who repairs clocks. "
    "Describe every day of a whole week, with at least ten sentences for each day."
)


def print_machine(pair: Pair) -> None:
    info = pair.base.info
    print(f"machine   {processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, {info.device}")
    print(f"versions  Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}")
    print(f"model     {info.id}: {info.parameters / 1e6:.1f}M parameters, {info.dtype}, {info.layers} layers, {info.kv_heads} KV heads")


def processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def spread(values: Sequence[float], unit: str = "", digits: int = 2) -> str:
    """``median (min-max)``"""
    return f"{statistics.median(values):.{digits}f}{unit} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def read_bandwidth(device: torch.device) -> float:
    """Bytes per second of reading a large tensor once: the best that decoding at batch 1 can hope for."""
    block = torch.ones(64 << 20, dtype=torch.float32, device=device)
    vector = torch.ones(8192, device=device)
    matrix = block.view(-1, 8192)
    times = [timed(lambda: (matrix @ vector).sum().item()) for _ in range(5)]
    return block.numel() * 4 / min(times)


def weight_bytes(pair: Pair) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in pair.base.model.parameters())
