#!/usr/bin/env python3
"""Prove the engine on a GPU, without any network: models of real shapes with random weights, made on the spot.

    python -m scripts.gpu_check [--out gpu_check.json] [--tiny]

Builds the shapes of Qwen2.5-Math-7B (nf4 and bf16), 1.5B (bf16) and PRM-7B (nf4), runs KV-Rescue and ReCo, checks what must hold, measures
what it costs, and writes one JSON. Under 8 minutes on one modern GPU with 40 GB or more. ``--tiny`` walks the same path with toy
shapes on a CPU in seconds; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import AutoModel, AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config

import kvrescue.cache.attention as attention
from kvrescue.cache.evicting import EvictingCache
from kvrescue.cache.policies import make_policy
from kvrescue.cache.shape import CacheShape, backbone_of
from kvrescue.config import RunConfig, make_config
from kvrescue.engine.proposer import forward
from kvrescue.engine.run import run
from kvrescue.models.load import Loaded, Pair, TrainedPrm, environment, load_model, wrap
from kvrescue.models.memory import Weights, predict, total
from kvrescue.models.shapes import KNOWN, Shape
from kvrescue.rewards.base import Step
from kvrescue.rewards.trained import FAMILIES
from kvrescue.rewards.trained.scorer import TrainedPrmScorer
from kvrescue.stop import Stop

TINY = Shape(2, 128, 256, 4, 2, 3000, 32, tied=False, attention_bias=True, context=4096)
CHATML = (
    "{% for m in messages %}{{ '<|im_start|> ' + m['role'] + ' ' + m['content'] + ' <|im_end|> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|> assistant ' }}{% endif %}"
)
PROBLEM = " ".join(f"w{number}" for number in range(200, 350))


def words(vocab: int) -> PreTrainedTokenizerFast:
    """One word a token for the whole vocabulary; every twentieth ends a step."""
    marks = ["<|im_start|>", "<|im_end|>", "<extra_0>", "<unk>"]
    table = {mark: index for index, mark in enumerate(marks)}
    for number in range(vocab - len(marks)):
        table[f"w{number}" + ("\n\n" if number % 20 == 0 else "")] = len(table)
    raw = Tokenizer(WordLevel(table, unk_token="<unk>"))
    raw.pre_tokenizer = Split(" ", "removed")
    raw.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>", "<extra_0>"])
    tokenizer.chat_template = CHATML
    return tokenizer


def build(shape: Shape, name: str, tokenizer: Any, device: str, quantise: str, *, backbone: bool = False, seed: int = 0) -> Loaded:
    """A random model of a real shape, made on the device, packed in place when it is to be quantised."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=shape.context,
        tie_word_embeddings=shape.tied,
        eos_token_id=None,
    )
    config._attn_implementation = attention.NAME
    maker: Any = AutoModel if backbone else AutoModelForCausalLM
    with torch.device(device):
        model = maker.from_config(config, dtype=torch.bfloat16 if device != "cpu" else torch.float32)
    if quantise == "nf4":
        pack(model)
    return wrap(model, tokenizer, name, quantisation=quantise)


def pack(model: torch.nn.Module) -> None:
    """Every projection inside the layers becomes 4-bit, one at a time, so that the whole never lies there twice."""
    import bitsandbytes as bnb

    for layer in backbone_of(model).layers:
        for owner in list(layer.modules()):
            for name, child in list(owner.named_children()):
                if type(child) is not torch.nn.Linear:
                    continue
                packed = bnb.nn.Linear4bit(
                    child.in_features, child.out_features, child.bias is not None, compute_dtype=child.weight.dtype, quant_type="nf4"
                )
                weight = child.weight.data
                packed.weight = bnb.nn.Params4bit(weight.cpu(), requires_grad=False, compress_statistics=True, quant_type="nf4")
                if child.bias is not None:
                    packed.bias = child.bias
                setattr(owner, name, packed.to(weight.device))
                del child, weight


def judge(shape: Shape, tokenizer: Any, device: str, quantise: str) -> TrainedPrm:
    loaded = build(shape, "PRM", tokenizer, device, quantise, backbone=True, seed=3)
    family, dtype = FAMILIES["qwen"], loaded.model.dtype
    wide = shape.hidden
    sizes = {"score.0.weight": (wide, wide), "score.0.bias": (wide,), "score.2.weight": (2, wide), "score.2.bias": (2,)}
    tensors = {key: torch.randn(size, device=device, dtype=dtype) / wide**0.5 for key, size in sizes.items()}
    return TrainedPrm(loaded, family, family.make_format(tokenizer), family.make_head(tensors, tokenizer, None), shape.context)


class Check:
    """Results pile up here; the file is written after every part, so that a cut leaves what was measured."""

    def __init__(self, out: Path, device: str, tiny: bool) -> None:
        self.out, self.device, self.failures = out, device, 0
        self.found: dict[str, Any] = {"environment": environment(), "tiny": tiny, "holds": {}, "measured": {}}
        self._began = time.perf_counter()

    def holds(self, name: str, good: bool) -> None:
        self.failures += not good
        self._keep("holds", name, bool(good))

    def measured(self, name: str, value: Any) -> None:
        self._keep("measured", name, value)

    def wanted(self, name: str, ratio: float, most: float) -> None:
        """A ratio with a bound, which holds on a GPU only: toy shapes on a CPU measure nothing."""
        self.measured(f"{name} (wanted at most {most})", round(ratio, 3))
        if self.device != "cpu":
            self.holds(f"{name}: at most {most}", ratio <= most)

    def _keep(self, part: str, name: str, value: Any) -> None:
        self.found[part][name] = value
        self.found["seconds"] = round(time.perf_counter() - self._began, 1)
        self.out.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
        print(f"{self.found['seconds']:7.1f} s  {name}: {json.dumps(value)}", flush=True)

    def sync(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()

    def timed(self, call: Callable[[], object]) -> float:
        self.sync()
        began = time.perf_counter()
        call()
        self.sync()
        return time.perf_counter() - began


def invariants(check: Check, base: Loaded, config: RunConfig) -> None:
    """A chunk and its tokens one by one leave the same cache; slots never exceed budget + buffer; a fork leaves its parent alone."""
    ids = torch.randint(4, 900, (1, 400))
    caches, logits = [], []
    for width in (1, 32):
        cache = EvictingCache(CacheShape.of(base.model), make_policy(config), config.budget, config.buffer)
        done = 0
        with torch.no_grad():
            while done < ids.shape[1]:
                step = min(width, cache.room, ids.shape[1] - done)
                out = forward(base, cache, ids[:, done : done + step], keep=1)
                cache.advance(step)
                done += step
        caches.append(cache)
        logits.append(out[0, -1].float())
    check.holds("peak is budget + buffer, exactly", all(cache.peak == config.budget + config.buffer for cache in caches))
    storage = caches[0].blocks[0].keys.shape[3]
    check.holds("slots in memory are budget + buffer, exactly", storage == config.budget + config.buffer)
    check.holds("chunk and single tokens hold equally many", caches[0].resident == caches[1].resident)
    same = (caches[0].blocks[0].positions[..., : caches[0].resident] == caches[1].blocks[0].positions[..., : caches[1].resident]).float().mean()
    check.measured("share of slots that chunk and single tokens agree on", round(float(same), 4))
    check.measured("largest difference of logits, chunk against single tokens", round(float((logits[0] - logits[1]).abs().max()), 4))
    before = caches[0].blocks[0].keys.clone()
    fork = caches[0].fork(4)
    with torch.no_grad():
        forward(base, fork, torch.randint(4, 900, (4, 4)))
    check.holds("a fork leaves its parent bit-identical", torch.equal(before, caches[0].blocks[0].keys))


def speed(check: Check, name: str, loaded: Loaded, config: RunConfig, bandwidth: float) -> None:
    """Decoding at batch 1 with a full evicted cache, against the floor of reading every weight once a token."""
    cache = EvictingCache(CacheShape.of(loaded.model), make_policy(config), config.budget, config.buffer)
    token = torch.full((1, 1), 7)

    def tokens(count: int) -> None:
        with torch.no_grad():
            for _ in range(count):
                forward(loaded, cache, token, keep=1)
                cache.advance(1)

    tokens(config.budget + config.buffer)
    cache.compactions.clear()
    count = 8 if check.device == "cpu" else 96
    seconds = check.timed(lambda: tokens(count))
    evicting = sum(one.seconds for one in cache.compactions)
    size = sum(one.nbytes for one in backbone_of(loaded.model).layers.parameters())
    head = loaded.model.lm_head.weight.nbytes if hasattr(loaded.model, "lm_head") else 0
    check.measured(
        f"decoding {name}",
        {
            "tokens_per_second": round(count / seconds, 1),
            "floor_tokens_per_second": round(bandwidth / (size + head), 1),
            "eviction_share": round(evicting / seconds, 4),
        },
    )


def bandwidth_of(check: Check) -> float:
    """Bytes a second of reading a large tensor once."""
    block = torch.ones((256 << 20) if check.device != "cpu" else (8 << 20), dtype=torch.bfloat16, device=check.device)
    return block.nbytes / min(check.timed(lambda: block.sum()) for _ in range(5))


def judging(check: Check, prm: TrainedPrm, candidates: int) -> None:
    """Cost of judging the candidates of one step, behind a short and a long committed text."""
    text = " ".join(f"w{number}" for number in range(401, 1200) if number % 20)
    costs: dict[int, float] = {}
    for length in (200, 2000):
        scorer = TrainedPrmScorer(prm, "w1 w2 w3")
        scorer.begin("w1 w2 w3", [], Stop())
        while scorer.reader.cache.seen < length:
            scorer.commit(Step(" ".join(text.split()[:97]), ()))
        steps = [Step(" ".join(text.split()[k : k + 48]), ()) for k in range(candidates)]
        scorer.score(steps)
        costs[length] = statistics.median(check.timed(lambda scorer=scorer, steps=steps: scorer.score(steps)) for _ in range(5))  # type: ignore[misc]
    check.measured("judging a step, ms by committed length", {str(length): round(1000 * cost, 1) for length, cost in costs.items()})
    check.wanted("judging at 2,000 against 200", costs[2000] / costs[200], 1.3)


def loading(check: Check, shape: Shape, tokenizer: Any, problem: str = "w1 w2 w3") -> None:
    """From a checkpoint on disk, as the app does, in every precision: two layers suffice."""
    config = make_config(method="evicted", scorer="none", budget=16, buffer=8, window=8, max_step_tokens=8, max_steps=2, system_prompt="")
    made = build(replace(shape, layers=2), "checkpoint", tokenizer, "cpu", "fp32", seed=4)
    with tempfile.TemporaryDirectory() as folder:
        made.model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for kind in ("auto", "int8", "nf4"):
            loaded = load_model(folder, "base", check.device, quantise=kind)
            end = list(run(problem, config, Pair("own", loaded, loaded)))[-1]
            check.holds(f"a checkpoint is loaded as {kind} ({loaded.info.dtype}) and writes", end.type == "end" and end.totals["base"].generated > 0)


def whole_runs(check: Check, name: str, pair: Pair, config: RunConfig, weights: dict[str, Weights]) -> None:
    """KV-Rescue at N = 1 and 4, and ReCo; memory against the doctor's prediction."""
    per_step: dict[int, float] = {}
    for n in (1, 4):
        changed = config.model_copy(update={"n": n})
        if check.device != "cpu":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        stream: list[Any] = list(run(PROBLEM, changed, pair))
        end: Any = stream[-1]
        check.holds(f"{name}: KV-Rescue with N = {n} runs to its end", end.type == "end")
        steps, written = max(1, end.steps), sum(one.generated for one in end.totals.values())
        # A source writes its candidates together: as many forwards as the longest of them has tokens.
        longest: dict[tuple[int, str], int] = {}
        for event in stream:
            if event.type == "candidate":
                place = (event.step, event.source)
                longest[place] = max(longest.get(place, 0), event.tokens)
        per_step[n] = end.seconds / max(1, sum(longest.values()))
        check.measured(
            f"{name}: KV-Rescue, N = {n}",
            {
                "seconds": round(end.seconds, 2),
                "steps": steps,
                "tokens_written": written,
                "forwards_of_writing": sum(longest.values()),
                "propose_share": round(end.propose_seconds / end.seconds, 3),
                "score_share": round(end.score_seconds / end.seconds, 3),
                "evict_share": round(end.evict_seconds / end.seconds, 4),
                "peak_resident": end.peak_resident,
            },
        )
        check.holds(f"{name}: peak resident with N = {n} is at most budget + buffer", end.peak_resident <= config.budget + config.buffer)
        if check.device != "cpu":
            measured = torch.cuda.max_memory_allocated()
            seen = len(PROBLEM.split()) + config.max_tokens
            expected = total(predict(weights, changed, seen), "none")
            check.measured(f"{name}: memory, N = {n}", {"measured": measured, "predicted": expected, "ratio": round(expected / measured, 3)})
            check.holds(f"{name}: the doctor's prediction with N = {n} is within 10 %", 0.9 <= expected / measured <= 1.1)
    check.wanted(f"{name}: time of a forward with N = 4 against N = 1", per_step[4] / per_step[1], 1.5)
    reco = make_config(**{**config.model_dump(), "method": "reco", "scorer": "prm", "retention_ratio": 0.5, "reco_every": config.budget})
    end = list(run(PROBLEM, reco, pair))[-1]
    check.holds(f"{name}: ReCo runs to its end", end.type == "end")
    check.measured(f"{name}: ReCo", {"seconds": round(end.seconds, 2), "mean_retention": round(end.mean_retention, 3), "probes": end.probes})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"))
    parser.add_argument("--tiny", action="store_true", help="toy shapes on the CPU: proves the path, measures nothing")
    args = parser.parse_args()
    if not args.tiny and not torch.cuda.is_available():
        print("gpu_check: there is no CUDA GPU here; --tiny walks the same path on the CPU", file=sys.stderr)
        return 2
    device = "cpu" if args.tiny else "cuda"
    check = Check(args.out, device, args.tiny)
    large, small = (TINY, TINY) if args.tiny else (KNOWN["Qwen/Qwen2.5-Math-7B-Instruct"], KNOWN["Qwen/Qwen2.5-Math-1.5B-Instruct"])
    small = replace(small, vocab=large.vocab)
    tokenizer = words(large.vocab)
    toy = {"budget": 16, "buffer": 8, "max_step_tokens": 8, "max_tokens": 24, "max_steps": 3}
    sizes = toy if args.tiny else {"budget": 64, "buffer": 64, "max_step_tokens": 48, "max_tokens": 256}
    config = make_config(method="kv-rescue", scorer="prm", policy="rkv", early_exit=False, system_prompt="", **sizes)
    bandwidth = bandwidth_of(check)
    check.measured("read bandwidth, GB/s", round(bandwidth / 1e9, 1))
    helper = build(small, "helper-1.5B", tokenizer, device, "bf16" if not args.tiny else "fp32", seed=2)
    prm = judge(large, tokenizer, device, "nf4")
    judging(check, prm, 8)
    loading(check, small, tokenizer)
    plain = "fp32" if args.tiny else "bf16"
    for kind in (plain, "nf4"):
        base = build(large, "base-7B", tokenizer, device, kind, seed=1)
        if kind == plain:
            invariants(check, base, config)
        speed(check, kind, base, config, bandwidth)
        weights = {"base": Weights(large, kind), "helper": Weights(small, plain), "prm": Weights(replace(large, tied=True), "nf4")}
        whole_runs(check, f"base as {kind}", Pair("own", base, helper, prm=prm), config, weights)
        del base
        gc.collect()
        if device != "cpu":
            torch.cuda.empty_cache()
    check.measured("settings", {name: value for name, value in asdict(large).items()})
    print(f"gpu_check: {check.failures} of {len(check.found['holds'])} checks failed; written to {args.out}")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
