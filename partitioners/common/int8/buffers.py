"""Memory that kernels keep between runs, for programs that run again and again on the same shapes.

Allocating memory and making views takes longer than the arithmetic of a small layer. A kernel with a `Place` has
done both before it runs: its result is the same tensor in every run, overwritten by the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

Shape = tuple[int, ...]


class Buffers:
    """Memory of one program: all kernels share the memory that they need only while they run."""

    def __init__(self) -> None:
        self._shared: dict[tuple[str, torch.dtype], Tensor] = {}

    def shared(self, use: str, shape: Shape, dtype: torch.dtype) -> Tensor:
        """Contiguous memory of a shape, whose numbers the next kernel with the same `use` overwrites."""
        count = prod(shape)
        found = self._shared.get((use, dtype))
        if found is None or found.numel() < count:
            found = self._shared[use, dtype] = torch.empty(count, dtype=dtype)
        return found[:count].view(shape)


@dataclass(frozen=True)
class Place:
    """Where one kernel runs: the shapes of its first operand and of its result, and the memory of its program."""

    buffers: Buffers
    x: Shape
    y: Shape


def remembered(view: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """`view`, made anew only for another tensor. It must share the tensor's memory."""
    seen = made = torch.empty(0)

    def apply(x: Tensor) -> Tensor:
        nonlocal seen, made
        if x is not seen:
            made = view(x)
            seen = x
        return made

    return apply
