"""Layers of attention in the forms that models call them in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor, nn

SIZE, WIDTH, HEADS = 4, 8, 2
Call: TypeAlias = "Callable[[Attention, Tensor], Tensor]"


class Attention(nn.Module):
    """Self-attention; `attend` gets the model, for its layers and its mask, and the sequence."""

    mask: Tensor

    def __init__(self, attend: Call) -> None:
        super().__init__()
        self.sequence_first = nn.MultiheadAttention(WIDTH, HEADS)
        self.batch_first = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.register_buffer("mask", torch.linspace(-2, 0, SIZE * SIZE).view(SIZE, SIZE))
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(self, x)


def first(layer: nn.Module, x: Tensor, mask: Tensor | None = None, *, need_weights: bool = True) -> Tensor:
    """What a layer gives for a sequence; its weights are left out, though it may have computed them."""
    found: Tensor = layer(x, x, x, attn_mask=mask, need_weights=need_weights)[0]
    return found


ATTENTION: Mapping[str, Call] = {
    "plain": lambda m, x: first(m.sequence_first, x, need_weights=False),
    "masked": lambda m, x: first(m.sequence_first, x, m.mask, need_weights=False),
    "with_weights": lambda m, x: first(m.sequence_first, x),
    "with_weights_masked": lambda m, x: first(m.sequence_first, x, m.mask),
    "batch_first": lambda m, x: first(m.batch_first, x, need_weights=False),
    "batch_first_masked": lambda m, x: first(m.batch_first, x, m.mask, need_weights=False),
    "batch_first_with_weights_masked": lambda m, x: first(m.batch_first, x, m.mask),
}
"""By name. Masks of layers that compute their weights are added by `baddbmm`."""


def attention(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model in evaluation mode, with seeded weights and inputs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        shape = (1, SIZE, WIDTH) if name.startswith("batch_first") else (SIZE, 1, WIDTH)
        return Attention(ATTENTION[name]).eval(), (torch.randn(shape),)
