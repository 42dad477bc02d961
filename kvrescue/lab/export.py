"""Write a trained model in the standard Hugging Face format: safetensors, config, fast tokenizer."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from kvrescue.lab import language

# The problem opens with a blank, so that its first word is the same token as anywhere else.
_TEMPLATE = "{% for turn in messages %}{% if turn.role == 'user' %} {{ turn.content.split() | join(' ') }}\n\n{% endif %}{% endfor %}"


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a word, blank included, so that decoding is plain joining."""
    inner = Tokenizer(models.WordLevel(language.vocabulary(), unk_token=language.UNKNOWN))
    inner.normalizer = normalizers.Replace(Regex(" +"), " ")
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(language.PIECE.pattern), "isolated")
    inner.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token=language.END,
        pad_token=language.PAD,
        unk_token=language.UNKNOWN,
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


def export(model: LlamaForCausalLM, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
