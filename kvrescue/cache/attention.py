"""The attention function of the engine, registered with transformers as ``"kvrescue"``.

A model loaded with ``attn_implementation="kvrescue"`` hands every layer's post-RoPE query, and the keys and values
that the cache returned from ``update``, to the cache itself: ``model(..., cache=c, kv=c)`` reaches ``c.attend``. The cache thus
sees the queries it needs to judge its tokens, and decides how attention over its own storage is computed.

No mask function is registered under this name on purpose: transformers then builds no mask, and causality is decided here
from the shapes alone (queries are always the newest tokens).
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface

NAME = "kvrescue"


class AttendingCache(Protocol):
    def update(self, keys: Tensor, values: Tensor, layer: int, **kwargs: object) -> tuple[Tensor, Tensor]: ...

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor: ...


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    kv: AttendingCache | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """query (b, Hq, q, d), key/value (b, Hk, n, d) -> output (b, q, Hq, d) and no weights."""
    scale = float(query.shape[-1] ** -0.5 if scaling is None else scaling)
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    output = causal_attention(query, key, value, scale) if kv is None else kv.attend(layer, query, key, value, scale)
    return output.transpose(1, 2), None


def causal_attention(query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
    """Attention of the newest q tokens over n >= q keys: (b, Hq, q, d), (b, Hk, n, d) -> (b, Hq, q, d).

    The heads of a GQA group are folded into the query axis, so that keys and values are never repeated.
    """
    batch, heads, length, dim = query.shape
    kv_heads, total = keys.shape[1], keys.shape[2]
    if length == total and length > 1:
        return F.scaled_dot_product_attention(query, keys, values, is_causal=True, scale=scaling, enable_gqa=heads != kv_heads)
    group = heads // kv_heads
    folded = query.reshape(batch, kv_heads, group * length, dim)
    mask = None if length == 1 else causal_mask(length, total, query.device).repeat(group, 1)
    output = F.scaled_dot_product_attention(folded, keys, values, attn_mask=mask, scale=scaling)
    return output.reshape(batch, heads, length, dim)


def causal_mask(length: int, total: int, device: torch.device) -> Tensor:
    """Bool (length, total), True where the i-th newest query may look."""
    return torch.ones(length, total, dtype=torch.bool, device=device).tril(total - length)


def attention_probabilities(query: Tensor, keys: Tensor, scaling: float) -> Tensor:
    """float32 (b, Hk, g, q, n): what :func:`causal_attention` weighs the values with."""
    batch, heads, length, dim = query.shape
    kv_heads, total = keys.shape[1], keys.shape[2]
    folded = query.reshape(batch, kv_heads, heads // kv_heads * length, dim).float()
    logits = (folded @ keys.float().transpose(-1, -2) * scaling).view(batch, kv_heads, -1, length, total)
    if length > 1:
        logits = logits.masked_fill(~causal_mask(length, total, query.device), float("-inf"))
    return logits.softmax(-1)


def shared_prefix_attention(query: Tensor, prefix_keys: Tensor, prefix_values: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
    """Attention of N rows over one shared prefix and each row's own suffix, the prefix being read once for all rows.

    query (N, Hq, q, d); prefix (1, Hk, p, d); keys/values (N, Hk, s, d), the newest q of them being the queries' own.
    Returns (N, Hq, q, d). Exact: both parts are softmaxed by themselves and weighed by their share of the whole mass.
    """
    rows, heads, length, dim = query.shape
    kv_heads = keys.shape[1]
    folded = heads // kv_heads * length
    per_row = query.reshape(rows, kv_heads, folded, dim)
    per_head = per_row.transpose(0, 1).reshape(1, kv_heads, rows * folded, dim)

    before, before_mass = _attend_with_mass(per_head, prefix_keys, prefix_values, scaling)
    before = before.view(kv_heads, rows, folded, dim).transpose(0, 1)
    before_mass = before_mass.view(kv_heads, rows, folded).transpose(0, 1)
    own, own_mass = _masked_with_mass(per_row, keys, values, scaling, length)

    share = torch.sigmoid(before_mass - own_mass).unsqueeze(-1).to(query.dtype)
    return torch.lerp(own, before, share).reshape(rows, heads, length, dim)


def _attend_with_mass(query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
    """Unmasked attention (b, h, q, d) and its log mass (b, h, q): the logsumexp of the scaled logits, float32."""
    if query.device.type == "cpu":
        # The fused kernel behind scaled_dot_product_attention; only this form of it returns the mass (2x faster at 1,500 tokens).
        output, mass = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, keys, values, 0.0, False, scale=scaling)
        return output, mass
    return _masked_with_mass(query, keys, values, scaling, 1)


def _masked_with_mass(query: Tensor, keys: Tensor, values: Tensor, scaling: float, length: int) -> tuple[Tensor, Tensor]:
    """Like :func:`_attend_with_mass`, with queries folded as (g * length), causal over the newest ``length`` keys.

    The logits are float32 from the product on, as inside the fused kernels: rounded to bfloat16, a logit of 50 is off by 0.1.
    """
    logits = query.float() @ keys.float().transpose(-1, -2) * scaling
    if length > 1:
        hidden = ~causal_mask(length, keys.shape[2], query.device)
        logits = logits.unflatten(2, (-1, length)).masked_fill_(hidden, float("-inf")).flatten(2, 3)
    mass = logits.logsumexp(-1)
    return (logits - mass.unsqueeze(-1)).exp().to(query.dtype) @ values, mass


AttentionInterface.register(NAME, attention_forward)  # type: ignore[arg-type]
