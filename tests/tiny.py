"""Tiny random models of each supported family, with a byte-level tokenizer and a ChatML template."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from kvrescue.models.load import Loaded, wrap

FAMILIES = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_tokenizer(extra_tokens: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """One token per byte, the two ChatML marks, and any ``extra_tokens``."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>"])
    tokenizer.add_tokens(list(extra_tokens))
    tokenizer.chat_template = CHATML
    return tokenizer


def tiny_config(kind: str, vocab: int, layers: int = 2, **changes: object):
    config_class, _ = FAMILIES[kind]
    settings = dict(
        vocab_size=vocab,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=1024,
        initializer_range=0.15,
        tie_word_embeddings=True,
    )
    return config_class(**{**settings, **changes})


def make_tiny(kind: str, seed: int = 0, *, layers: int = 2, extra_tokens: Sequence[str] = (), attention: str = "kvrescue") -> Loaded:
    """A fresh random model: float32, 2 layers, 4 query and 2 KV heads of 16. The tokenizer object is shared per vocabulary."""
    tokenizer = _shared_tokenizer(tuple(extra_tokens))
    config = tiny_config(kind, len(tokenizer), layers, eos_token_id=tokenizer.eos_token_id)
    torch.manual_seed(seed)
    model = FAMILIES[kind][1](config)
    for name, parameter in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            torch.nn.init.uniform_(parameter, 0.5, 1.5)  # at 1 all of Qwen3's key norms tie
    model.set_attn_implementation(attention)
    return wrap(model, tokenizer, f"tiny-{kind}-{seed}")


_shared_tokenizer = cache(byte_tokenizer)
