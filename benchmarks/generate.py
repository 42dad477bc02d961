"""The engine with full KV against transformers' own ``generate``: same prompt, greedy, batch 1, in turns."""

from __future__ import annotations

import time
from typing import Any

import torch

from benchmarks.common import STORY, read_bandwidth, spread, weight_bytes
from kvrescue import events
from kvrescue.config import make_config
from kvrescue.engine.proposer import prompt_ids
from kvrescue.engine.run import run
from kvrescue.models.load import Pair

TARGET = 0.95


def by_generate(pair: Pair, tokens: int) -> tuple[int, float]:
    model: Any = pair.base.model
    ids = torch.tensor([prompt_ids(pair.base, STORY, "")], device=model.device)
    model.set_attn_implementation("sdpa")
    try:
        began = time.perf_counter()
        output = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False)
        return output.shape[1] - ids.shape[1], time.perf_counter() - began
    finally:
        model.set_attn_implementation("kvrescue")


def by_engine(pair: Pair, tokens: int) -> tuple[int, float]:
    config = make_config(method="full", scorer="none", temperature=0.0, max_tokens=tokens, max_step_tokens=tokens, system_prompt="", deadline_s=3600)
    began = time.perf_counter()
    closing = list(run(STORY, config, pair))[-1]
    assert isinstance(closing, events.End), closing
    return closing.totals["base"].generated, time.perf_counter() - began


def measure(pair: Pair, tokens: int = 256, rounds: int = 5) -> bool:
    print(f"\n## Engine (full KV) against generate: {tokens} new tokens, batch 1, greedy, {rounds} rounds in turns")
    by_generate(pair, 8), by_engine(pair, 8)
    rates: dict[str, list[float]] = {"generate": [], "engine": []}
    for turn in range(rounds):
        order = [("generate", by_generate), ("engine", by_engine)]
        for name, call in order if turn % 2 else reversed(order):
            count, seconds = call(pair, tokens)
            rates[name].append(count / seconds)
    ratios = [ours / theirs for ours, theirs in zip(rates["engine"], rates["generate"], strict=True)]
    floor = read_bandwidth(pair.base.model.device) / weight_bytes(pair)
    for name, values in rates.items():
        print(f"{name:9} {spread(values)} tokens/s")
    print(f"ratio     {spread(ratios, digits=3)}, wanted at least {TARGET}")
    print(f"floor     {floor:.1f} tokens/s if reading the weights once per token were all there is to do")
    return sorted(ratios)[len(ratios) // 2] >= TARGET
