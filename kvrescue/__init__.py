"""kvrescue: watch a language model forget under KV-cache eviction, and see it rescued step by step."""

__version__ = "0.1.0"
