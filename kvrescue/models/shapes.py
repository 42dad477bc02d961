"""What a model weighs, from the numbers in its config alone. Those of the model sets ship with the code, so this works offline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder-only transformer with grouped-query attention and a gated feed-forward."""

    layers: int
    hidden: int
    mlp: int
    heads: int
    kv_heads: int
    vocab: int
    head_dim: int
    tied: bool = False
    """The language model head is the embedding."""
    attention_bias: bool = False
    """Biases on the query, key and value projections (Qwen2)."""
    head_norms: bool = False
    """A norm on every query and key head (Qwen3)."""
    context: int = 4096

    @classmethod
    def of(cls, config: Any) -> Shape:
        """From a transformers config (or anything with its fields)."""
        heads = config.num_attention_heads
        kind = config.model_type
        return cls(
            layers=config.num_hidden_layers,
            hidden=config.hidden_size,
            mlp=config.intermediate_size,
            heads=heads,
            kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            vocab=config.vocab_size,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            tied=bool(getattr(config, "tie_word_embeddings", False)),
            attention_bias=kind == "qwen2" or bool(getattr(config, "attention_bias", False)),
            head_norms=kind == "qwen3",
            context=config.max_position_embeddings,
        )

    @property
    def linear(self) -> int:
        """Weights inside the layers' projections: what quantisation shrinks."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return self.layers * (2 * self.hidden * queries + 2 * self.hidden * keys + 3 * self.hidden * self.mlp)

    @property
    def linear_rows(self) -> int:
        """Output rows of those projections: int8 keeps one scale for each."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return self.layers * (queries + 2 * keys + 2 * self.hidden + 2 * self.mlp)

    @property
    def other(self) -> int:
        """Everything else: embedding, head, norms, biases."""
        biases = (self.heads + 2 * self.kv_heads) * self.head_dim if self.attention_bias else 0
        norms = 2 * self.hidden + (2 * self.head_dim if self.head_norms else 0)
        return self.vocab * self.hidden * (1 if self.tied else 2) + self.layers * (biases + norms) + self.hidden

    @property
    def parameters(self) -> int:
        return self.linear + self.other

    def weight_bytes(self, quantisation: str) -> int:
        """Bytes on the device. nf4 with double quantisation: 4 bits a weight, one byte a block of 64, four bytes 256 blocks."""
        if quantisation == "fp32":
            return 4 * self.parameters
        if quantisation == "bf16":
            return 2 * self.parameters
        if quantisation == "int8":
            return self.linear + 4 * self.linear_rows + 2 * self.other
        return round(self.linear * (1 / 2 + 1 / 64 + 4 / (64 * 256))) + 2 * self.other

    def kv_bytes_per_token(self, item: int) -> int:
        """Keys and values of one token, ``item`` bytes a number."""
        return 2 * self.layers * self.kv_heads * self.head_dim * item


def _qwen2(layers: int, hidden: int, mlp: int, heads: int, kv_heads: int, vocab: int, tied: bool = False, context: int = 4096) -> Shape:
    return Shape(layers, hidden, mlp, heads, kv_heads, vocab, 128, tied, attention_bias=True, context=context)


_QWEN_1_5B = (28, 1536, 8960, 12, 2, 151_936)
_QWEN_7B = (28, 3584, 18_944, 28, 4, 152_064)
_QWEN_72B = (80, 8192, 29_568, 64, 8, 152_064)
_LLAMA_8B = Shape(32, 4096, 14_336, 32, 8, 128_256, 128, context=131_072)

SMOLLM2 = Shape(30, 576, 1536, 9, 3, 49_152, 64, tied=True, context=8192)

KNOWN: dict[str, Shape] = {
    "Qwen/Qwen2.5-Math-1.5B-Instruct": _qwen2(*_QWEN_1_5B, tied=True),
    "Qwen/Qwen2.5-Math-7B-Instruct": _qwen2(*_QWEN_7B),
    "Qwen/Qwen2.5-Math-72B-Instruct": _qwen2(*_QWEN_72B),
    "Qwen/Qwen2.5-Math-PRM-7B": _qwen2(*_QWEN_7B),
    "Qwen/Qwen2.5-Math-PRM-72B": _qwen2(*_QWEN_72B),
    "Skywork/Skywork-o1-Open-PRM-Qwen-2.5-1.5B": _qwen2(*_QWEN_1_5B, tied=True),
    "Skywork/Skywork-o1-Open-PRM-Qwen-2.5-7B": _qwen2(*_QWEN_7B),
    "RLHFlow/Llama3.1-8B-PRM-Deepseek-Data": _LLAMA_8B,
    "RLHFlow/Llama3.1-8B-PRM-Mistral-Data": _LLAMA_8B,
    "peiyi9979/math-shepherd-mistral-7b-prm": Shape(32, 4096, 14_336, 32, 8, 32_000, 128, context=32_768),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": _qwen2(*_QWEN_1_5B, context=131_072),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": _qwen2(*_QWEN_7B, context=131_072),
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": _LLAMA_8B,
    "Qwen/Qwen3-8B": Shape(36, 4096, 12_288, 32, 8, 151_936, 128, head_norms=True, context=40_960),
    "Qwen/Qwen3-0.6B": Shape(28, 1024, 3072, 16, 8, 151_936, 128, tied=True, head_norms=True, context=40_960),
}
