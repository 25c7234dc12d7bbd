"""Attention whose masks hold minus infinity, written in the ways that models write it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SIZE, WIDTH = 8, 16
INF = float("inf")
LEAST = torch.finfo(torch.float32).min
Heads: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values: each (1, SIZE, WIDTH)."""


class Masked(nn.Module):
    """Attention of its inputs; `attend` gets the model, for its masks, and queries, keys and values."""

    mask: Tensor
    seen: Tensor

    def __init__(self, attend: Callable[[Masked, Heads], Tensor]) -> None:
        super().__init__()
        self.register_buffer("mask", torch.full((SIZE, SIZE), -INF).triu(1))
        self.register_buffer("seen", torch.ones(SIZE, SIZE, dtype=torch.bool).tril())
        self.attend = attend

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.attend(self, (q, k, v))


def scores(heads: Heads) -> Tensor:
    """Scaled products of queries and keys."""
    return heads[0] @ heads[1].transpose(-1, -2) / math.sqrt(WIDTH)


def weighted(found: Tensor, heads: Heads) -> Tensor:
    """The values by the softmax of the scores."""
    return torch.softmax(found, -1) @ heads[2]


MASKED: Mapping[str, Callable[[Masked, Heads], Tensor]] = {
    "causal": lambda m, heads: F.scaled_dot_product_attention(*heads, is_causal=True),
    "float_mask": lambda m, heads: F.scaled_dot_product_attention(*heads, attn_mask=m.mask),
    "bool_mask": lambda m, heads: F.scaled_dot_product_attention(*heads, attn_mask=m.seen),
    "buffer": lambda m, heads: weighted(scores(heads) + m.mask, heads),
    "buffer_slice": lambda m, heads: weighted(scores(heads) + m.mask[None, :SIZE, :SIZE], heads),
    "filled": lambda m, heads: weighted(scores(heads).masked_fill(~m.seen, -INF), heads),
    "filled_least": lambda m, heads: weighted(scores(heads).masked_fill(~m.seen, LEAST), heads),
    "where": lambda m, heads: weighted(torch.where(m.seen, scores(heads), -INF), heads),
    "where_tensor": lambda m, heads: weighted(torch.where(m.seen, scores(heads), torch.tensor(-INF)), heads),
    "computed": lambda m, heads: weighted(scores(heads) + (~m.seen).float() * LEAST, heads),
}


def masked(name: str) -> Masked:
    """The model of that name, in evaluation mode."""
    model = Masked(MASKED[name])
    model.eval()
    return model


def heads(seed: int = 0) -> Heads:
    """Seeded inputs."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(1, SIZE, WIDTH, generator=generator) for _ in range(3))
    return q, k, v


def decibels(found: Tensor, wanted: Tensor) -> float:
    """The ratio of the wanted signal and the error."""
    signal, error = wanted.detach().pow(2).sum(), (found - wanted).detach().pow(2).sum()
    return float(10 * torch.log10(signal / error))
