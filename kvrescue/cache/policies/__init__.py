"""Eviction policies, one a file. ``make_policy`` builds the one a RunConfig names."""

from __future__ import annotations

from collections.abc import Callable

from kvrescue.cache.policies.base import LayerState, Policy
from kvrescue.cache.policies.h2o import H2O
from kvrescue.cache.policies.keydiff import KeyDiff
from kvrescue.cache.policies.knorm import Knorm
from kvrescue.cache.policies.rkv import RKV
from kvrescue.cache.policies.selection import compact_indices, select_indices
from kvrescue.cache.policies.snapkv import SnapKV
from kvrescue.cache.policies.snapkv_decode import SnapKVDecode
from kvrescue.cache.policies.streaming_llm import StreamingLLM
from kvrescue.cache.policies.tova import Tova
from kvrescue.config import RunConfig

_MAKERS: dict[str, Callable[[RunConfig], Policy]] = {
    "snapkv": lambda c: SnapKV(c.window, c.kernel),
    "snapkv-decode": lambda c: SnapKVDecode(c.window, c.kernel),
    "rkv": lambda c: RKV(c.window, c.kernel, c.rkv_lambda),
    "streaming-llm": lambda c: StreamingLLM(c.sinks),
    "h2o": lambda c: H2O(),
    "tova": lambda c: Tova(),
    "keydiff": lambda c: KeyDiff(c.window, c.protect_sink),
    "knorm": lambda c: Knorm(c.window, c.protect_sink),
}


def make_policy(config: RunConfig) -> Policy:
    return _MAKERS[config.policy](config)


__all__ = ["LayerState", "Policy", "compact_indices", "make_policy", "select_indices"]
