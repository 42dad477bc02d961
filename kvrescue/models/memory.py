"""What a run takes in memory, predicted from config shapes alone: weights, caches at their largest, and what one forward needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvrescue.cache.policies import make_policy
from kvrescue.cache.prefix import FIRST_CAPACITY
from kvrescue.config import RECO_METHODS, RunConfig
from kvrescue.engine.methods import PARTS
from kvrescue.engine.proposer import PIECE_TOKENS
from kvrescue.models.shapes import Shape
from kvrescue.rewards.reader import tokens_per_forward

_CUDA_CONTEXT = 600 << 20
"""What the driver and the libraries take on a GPU before any tensor."""


@dataclass(frozen=True)
class Weights:
    """One model as it will be loaded."""

    shape: Shape
    quantise: str
    """fp32, bf16, int8 or nf4."""

    @property
    def item(self) -> int:
        """Bytes of one number in its caches and activations."""
        return 4 if self.quantise == "fp32" else 2


@dataclass(frozen=True)
class PartMemory:
    """Bytes of one model of a run."""

    part: str
    weights: int
    cache: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.activations


def predict(models: Mapping[str, Weights], config: RunConfig, tokens: int, *, same: bool = False, device: str = "cuda") -> list[PartMemory]:
    """One entry for each of base, helper and prm that the run uses, when prompt and answer together reach ``tokens``.

    ``same``: base and helper share their weights. Activations are those of the largest forward of each part; only one runs at a time.
    """
    parts = PARTS[config.method]
    found: list[PartMemory] = []
    for part, model in models.items():
        if part in ("base", "helper") and part not in parts.sources:
            continue
        if part == "prm" and config.scorer != "prm":
            continue
        weights = 0 if same and part == "helper" and "base" in parts.sources else model.shape.weight_bytes(model.quantise)
        if part == "base" and parts.evicting:
            cache = _evicting(model, config, tokens)
        else:
            rows = config.candidates * (len(parts.sources) if part == "prm" else 1)
            cache = _prefix(model, rows, tokens, config.max_step_tokens)
        found.append(PartMemory(part, weights, cache, _activations(model, part, config, tokens, device)))
    reader = models.get("helper" if config.scorer_model == "helper" or config.scorer == "estimator" else "base")
    if config.scorer in ("likelihood", "estimator") and reader:
        # A judge that reads with one of the sources has a cache of its own, and looks at the logits of every token it reads.
        cache = _prefix(reader, config.candidates * len(parts.sources), tokens, config.max_step_tokens)
        width = tokens_per_forward(device)
        logits = 3 * width * reader.shape.vocab * 4
        found.append(PartMemory("judge", 0, cache, _activations(reader, "prm", config, tokens, device) + logits))
    return found


def total(parts: list[PartMemory], device: str = "cuda") -> int:
    """Everything at once: all weights and caches, the largest forward, and the driver's own on a GPU."""
    standing = sum(part.weights + part.cache for part in parts)
    return standing + max((part.activations for part in parts), default=0) + (_CUDA_CONTEXT if device == "cuda" else 0)


def _prefix(model: Weights, rows: int, tokens: int, step: int) -> int:
    """A committed prefix, which grows by doubling, and ``rows`` suffixes of a step; one row writes behind the prefix."""
    per_token = model.shape.kv_bytes_per_token(model.item)
    suffixes = rows * _capacity(min(step, tokens)) if rows > 1 else 0
    return per_token * (_capacity(tokens) + suffixes)


def _capacity(tokens: int) -> int:
    return max(FIRST_CAPACITY, 1 << max(0, tokens - 1).bit_length())


def _evicting(model: Weights, config: RunConfig, tokens: int) -> int:
    """Fixed slots, once committed and once for each candidate; ReCo's hold everything between two decisions."""
    slots = tokens if config.method in RECO_METHODS else min(tokens, config.budget + config.buffer)
    policy, shape = make_policy(config), model.shape
    places = shape.layers * shape.kv_heads * slots * (8 + (4 if policy.needs_mass else 0))
    queries = shape.layers * shape.heads * policy.query_window * shape.head_dim * model.item
    return (1 + config.candidates) * (shape.kv_bytes_per_token(model.item) * slots + places + queries)


def _activations(model: Weights, part: str, config: RunConfig, tokens: int, device: str) -> int:
    """The largest forward: hidden states, feed-forward, attention over the prefix in float32, and logits where they are read."""
    shape = model.shape
    width = min(tokens_per_forward(device), tokens * config.candidates * 2) if part == "prm" else max(PIECE_TOKENS, config.candidates)
    hidden = width * (4 * shape.hidden + 3 * shape.mlp) * model.item
    attention = 2 * shape.heads * width * min(tokens, 4096 if part != "base" else config.budget + config.buffer) * 4
    logits = 0 if part == "prm" else 3 * config.candidates * shape.vocab * 4
    return hidden + attention + logits
