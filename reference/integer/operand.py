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


def added(numbers: int | Sequence[int], rank: int = 2) -> Pair:
    """As `pair`, for what is added to sizes: of a 1-D operator nothing to the height."""
    return (0, pair(numbers, 1)[1]) if rank == 1 else pair(numbers)


def symmetric(numbers: int | Sequence[int], rank: int = 2) -> tuple[Pair, Pair]:
    h, w = added(numbers, rank)
    return ((h, h), (w, w))


def window(given: Given, rank: int) -> tuple[Pair, Pair, tuple[Pair, Pair]]:
    """A convolution's stride, dilation and padding."""
    return pair(given["stride"], rank), pair(given["dilation"], rank), symmetric(given["padding"], rank)


def pooled(given: Given, rank: int) -> tuple[QTensor, Pair, Pair, tuple[Pair, Pair]]:
    """A pool's operand, kernel, stride (the kernel if left out) and padding."""
    kernel = pair(given["kernel_size"], rank)
    stride = pair(given["stride"], rank) if given["stride"] else kernel
    return operand(given, "self"), kernel, stride, symmetric(given["padding"], rank)


def binary(op: str, function: Callable[[Tensor, Tensor, Affine, Affine, Affine], Tensor], near: float = 0.0) -> Rule:
    """A function of two operands on codes. near: how far alpha, a factor of 1, may be from 1."""

    def rule(given: Given, y: Affine) -> Tensor:
        a, b = operand(given, "self"), operand(given, "other")
        alpha = given.get("alpha", 1)
        require(abs(alpha - 1) <= near, op, f"alpha = {alpha}", "alpha = 1")
        return function(a.codes, b.codes, a.affine, b.affine, y)

    return rule


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
