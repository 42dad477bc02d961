"""Published process reward models, one family a file, run by native model classes and read from safetensors."""

from __future__ import annotations

from kvrescue.rewards.trained.family import Family
from kvrescue.rewards.trained.qwen import QWEN
from kvrescue.rewards.trained.rlhflow import RLHFLOW
from kvrescue.rewards.trained.shepherd import SHEPHERD
from kvrescue.rewards.trained.skywork import SKYWORK

FAMILIES: dict[str, Family] = {family.name: family for family in (QWEN, SKYWORK, RLHFLOW, SHEPHERD)}
