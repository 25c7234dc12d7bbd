"""Attention: a softmax of products, times values."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.activation import softmax
from npu_assay.reference.golden.bounded import Bounded, GoldenError
from npu_assay.reference.golden.elementwise import add, mul
from npu_assay.reference.golden.linear import matmul


def attention(
    query: Bounded,
    key: Bounded,
    value: Bounded,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Bounded:
    """aten.scaled_dot_product_attention.default: softmax(query @ key.T * scale + mask) @ value.

    A mask is added; a causal one hides what comes later. Raises GoldenError for dropout and for shared heads.
    """
    if dropout_p or enable_gqa:
        raise GoldenError("attention: found dropout or shared heads, expected neither")
    turned = Bounded(key.value.mT, key.error if key.exact else key.spread().mT.contiguous())
    scores = mul(matmul(query, turned), 1 / sqrt(query.value.shape[-1]) if scale is None else scale)
    if attn_mask is not None:
        scores = add(scores, attn_mask)
    if is_causal:
        scores = _hidden(scores)
    return matmul(softmax(scores, -1), value)


def _hidden(scores: Bounded) -> Bounded:
    """Minus infinity where a column comes after the row: exact there."""
    later = torch.ones(scores.value.shape[-2:], dtype=torch.bool).triu(1)

    def masked(t: Tensor, by: float) -> Tensor:
        return t.masked_fill(later, by)

    return Bounded(masked(scores.value, -torch.inf), scores.error if scores.exact else masked(scores.spread(), 0.0))
