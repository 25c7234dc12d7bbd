"""Operands of the exact-integer golden, and how their arguments are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import tflite

Given = Mapping[str, Any]  # arguments by their schema names
Pair = tuple[int, int]
Rule = Callable[[Given, Affine], Tensor]


class IntegerError(ValueError):
    """An operator, or its operands, without integer semantics on an NPU."""


@dataclass(frozen=True)
class QTensor:
    """Codes and what they stand for: real = scale * (code - zero_point).

    codes: int8, or int32 for a bias. scale: one number, or one per index of `axis`; with `group`, one per that many
    neighbors in a row of a matrix, row by row.
    """

    codes: Tensor
    scale: float | tuple[float, ...]
    zero_point: int = 0
    axis: int | None = None
    group: int | None = None

    @property
    def affine(self) -> Affine:
        """The per-tensor quantization. Raises IntegerError for a per-channel one."""
        if isinstance(self.scale, tuple):
            raise IntegerError(f"operand: found {len(self.scale)} scales, expected one")
        return Affine(self.scale, self.zero_point)

    @property
    def scales(self) -> tuple[float, ...]:
        return self.scale if isinstance(self.scale, tuple) else (self.scale,)


def operand(given: Given, name: str, dtype: torch.dtype = torch.int8) -> QTensor:
    x = given[name]
    if not isinstance(x, QTensor) or x.codes.dtype != dtype:
        found = x.codes.dtype if isinstance(x, QTensor) else type(x).__name__
        raise IntegerError(f"operand {name!r}: found {found}, expected codes of {dtype}")
    return x


def bias_codes(given: Given, name: str = "bias") -> Tensor | None:
    return None if given[name] is None else operand(given, name, torch.int32).codes


def pair(numbers: int | Sequence[int], rank: int = 2) -> Pair:
    """One number for both axes, or one each; of a 1-D operator the height is 1 (stride, kernel, dilation)."""
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    if rank == 1:
        return (1, listed[0])
    return (listed[0], listed[-1])


def symmetric(numbers: int | Sequence[int], rank: int = 2) -> tuple[Pair, Pair]:
    h, w = (0, pair(numbers, 1)[1]) if rank == 1 else pair(numbers)
    return ((h, h), (w, w))


def on_images(kernel: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Runs a channels-last kernel on [N, C, H, W], or on [N, C, W] as images of height 1.

    Raises IntegerError for another rank.
    """
    if x.dim() == 3:
        return on_images(kernel, x.unsqueeze(-2)).squeeze(-2)
    if x.dim() != 4:
        raise IntegerError(f"operand: found rank {x.dim()}, expected an image, [N, C, H, W] or [N, C, W]")
    return kernel(x.permute(0, 2, 3, 1).contiguous()).permute(0, 3, 1, 2).contiguous()


def _same(x: Affine, y: Affine) -> bool:
    return (x.scale32, x.zero_point) == (y.scale32, y.zero_point)


def requantised(codes: Tensor, x: Affine, y: Affine) -> Tensor:
    """The codes in another quantization; where only the range differs, within that."""
    return codes.clamp(y.qmin, y.qmax) if _same(x, y) else tflite.requantize(codes, x, y)


def require(holds: bool, op: str, found: str, expected: str) -> None:
    if not holds:
        raise IntegerError(f"{op}: found {found}, expected {expected}")
