"""How a model's weights are held: bf16, or int8 and nf4 by bitsandbytes on a GPU; on a CPU the fastest that works."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import torch

from kvrescue.config import ConfigError
from kvrescue.presets import QUANTISATIONS


@dataclass(frozen=True)
class Precision:
    name: str
    """fp32, bf16, int8 or nf4."""
    dtype: torch.dtype
    """Of everything that is not quantised, and of the arithmetic."""
    note: str = ""
    """A word why, when it is not what was asked for."""

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for ``from_pretrained``."""
        if self.name not in ("int8", "nf4"):
            return {"dtype": self.dtype}
        from transformers import BitsAndBytesConfig

        if self.name == "int8":
            return {"dtype": self.dtype, "quantization_config": BitsAndBytesConfig(load_in_8bit=True)}
        packed = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=self.dtype)
        return {"dtype": self.dtype, "quantization_config": packed}


def choose(wanted: str, device: str, parameters: int = 0, free: int = 0) -> Precision:
    """``wanted`` is one of QUANTISATIONS. On a CPU: float32, which is several times faster there than bf16 or nf4, unless ``parameters`` of it
    do not fit into ``free`` bytes (0: unknown). ConfigError with field ``quantise``."""
    if wanted not in QUANTISATIONS:
        raise ConfigError("quantise", f"quantise is {wanted!r}; allowed: {', '.join(QUANTISATIONS)}.")
    if device.split(":")[0] == "cpu":
        asked = "" if wanted in ("auto", "fp32") else f"{wanted} was asked for; "
        if wanted != "fp32" and free and 4 * parameters > 0.8 * free:
            return Precision("bf16", torch.bfloat16, f"{asked}bfloat16 on the CPU: float32 is faster but does not fit into the free memory")
        return Precision("fp32", torch.float32, f"{asked}float32 on the CPU, where it is the fastest that works" if asked else "")
    if wanted in ("int8", "nf4"):
        if importlib.util.find_spec("bitsandbytes") is None:
            raise ConfigError("quantise", f"quantise is {wanted!r}, which needs the package bitsandbytes; install it or use 'bf16'.")
        return Precision(wanted, torch.bfloat16)
    return Precision("fp32", torch.float32) if wanted == "fp32" else Precision("bf16", torch.bfloat16)
