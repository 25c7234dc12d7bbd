"""XNNPACK's products of dynamically quantised activations with int8 or 4-bit weights: reals to reals.

The activations of a row (the last axis; for images all of H x W x C of one image) are quantised on the way in
with a scale and a zero point chosen from their extremes; the integer accumulator is exact, and the scales are
applied in float32 with one fused multiply-add at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from reference.int8.accumulate import NO_PADDING, Padding, Pair
from reference.xnnpack.output import Kernel

Reals = tuple[float, float]
"""Lower and upper limit of a fused activation, as reals."""


@dataclass(frozen=True)
class Rows:
    """Rows as codes: int8 [rows, n], and per row the zero point and the scale (f32(1 / steps per unit)) [rows, 1]."""

    codes: Tensor
    zero_points: Tensor
    scales: Tensor


def quantize_rows(reals: Tensor) -> Rows:
    """Quantise the rows of a float32 or float16 matrix [rows, n] as XNNPACK does."""
    raise ValueError("rows: not yet")


def linear(weights: Tensor, w_scales: Sequence[float], bias: Tensor | None, activation: Reals | None = None) -> Kernel:
    """weights [O, I] int8, bias [O] float32; returns x [..., I] real -> y [..., O] real."""
    raise ValueError("linear: not yet")


def groupwise_linear(weights: Tensor, scales: Tensor, bias: Tensor | None, activation: Reals | None = None) -> Kernel:
    """weights [O, I] 4-bit codes within [-8, 7] as int8, scales [O, groups]; x [..., I] real -> y [..., O] real."""
    raise ValueError("groupwise_linear: not yet")


def conv2d(
    weights: Tensor,
    w_scales: Sequence[float],
    bias: Tensor | None,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    groups: int = 1,
    activation: Reals | None = None,
) -> Kernel:
    """weights [O, KH, KW, I / groups] int8; x [N, H, W, I] real -> y [N, OH, OW, O] real."""
    raise ValueError("conv2d: not yet")


def transpose_conv2d(
    weights: Tensor,
    w_scales: Sequence[float],
    bias: Tensor | None,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    output_padding: Pair = (0, 0),
    groups: int = 1,
    activation: Reals | None = None,
) -> Kernel:
    """weights [O, KH, KW, I / groups] int8; x [N, H, W, I] real -> y [N, OH, OW, O] real."""
    raise ValueError("transpose_conv2d: not yet")
