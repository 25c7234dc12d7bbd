"""XNNPACK's products of real activations, quantized at run time, with int8 or 4-bit weights: reals to reals.

Sources: XNNPACK's parameters of dynamic quantization (per row, the range with zero in it) and its microkernels
qd8-f32-qc8w, qd8-f32-qc4w and qd8-f32-qb4w. Every sum of products of codes is an exact integer; what is computed in
float32 says so. Where the scheme leaves freedom:

- in which order the groups of 4-bit weights are added, and whether codes are shifted by 128 on the way. Here as
  on processors with VNNI; others may differ in the last bits, by no more than `groupwise_error`;
- whether the last product and sum are one operation (`fused`) or two roundings. Here as with fused instructions;
- what chooses the range: the device goes by rows whatever the program says, see `conformance.chain`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from npu_assay.reference.affine import check_scale
from npu_assay.reference.arithmetic.windows import NO_PADDING, Padding, Pair, convolved, padded, scattered, transposed
from npu_assay.reference.arithmetic.xnnpack.floats import fused

LOWEST, HIGHEST = -128, 127
UNSIGNED = 128
"""What makes an int8 code unsigned."""
LARGEST = 255
"""The largest of unsigned codes."""
PACKED = 16
"""4-bit weights of an output that are packed at a time, two in each of 8 bytes; groups have a multiple of 32."""
_HALF_UNIT = 2.0**-24
"""Half a unit in the last place of float32, relative: the most that one rounding changes."""


@dataclass(frozen=True)
class Rows:
    """Activations [rows, ...] as steps of their row (codes less the zero point, int64); scale and zero point [rows].

    Both parameters are float32 [rows, 1, ...], with as many axes as the steps.
    """

    steps: Tensor
    zero_points: Tensor
    scales: Tensor


def rows(reals: Tensor) -> Rows:
    """Each index of the first axis quantized with its own parameters, all of it in float32.

    255 steps span the range, which holds zero; a range of zero alone has steps of 1. Of the ends of the range the
    zero point is reckoned from the one where the error is smaller, and rounded, ties to even. No codes stand for a
    range that is not finite: its scale is NaN, and so is all that is made of it.
    """
    x = reals.float()
    axes = tuple(range(1, x.dim()))
    low, high = x.amin(axes, keepdim=True).clamp(max=0), x.amax(axes, keepdim=True).clamp(min=0)
    span = high - low
    per_real = torch.where(low == high, 1.0, torch.full_like(span, 255) / span)  # torch's 255 / span rounds twice
    from_low, from_high = LOWEST - low * per_real, HIGHEST - high * per_real
    upwards = (LOWEST + low * per_real) + (HIGHEST + high * per_real) > 0
    zero_points = torch.where(upwards, from_low, from_high).clamp(LOWEST, HIGHEST).round()
    codes = ((x * per_real).round() + zero_points).clamp(LOWEST, HIGHEST)
    known = span.isfinite()
    steps = torch.where(known, codes - zero_points, 0.0).to(torch.int64)
    return Rows(steps, torch.where(known, zero_points, 0.0), torch.where(known, 1 / per_real, math.nan))


def linear(x: Tensor, weights: Tensor, scales: Sequence[float], bias: Tensor | None) -> Tensor:
    """x [..., I] real, quantized by rows of I; weights [O, I] int8 or 4-bit, one scale or one per output: [..., O]."""
    flat = rows(x.reshape(-1, x.shape[-1]))
    acc = flat.steps @ weights.to(torch.int64).mT
    return _reals(acc, flat, scales, bias).view(*x.shape[:-1], len(weights)).to(x.dtype)


def groupwise_linear(x: Tensor, weights: Tensor, scales: Tensor, bias: Tensor | None) -> Tensor:
    """x [..., I] real, weights [O, I] within [-8, 7], scales [O, groups], which are rounded to bfloat16: [..., O].

    A group's sum of products of unsigned codes is added, times its scale, to -(unsigned zero point) * correction. The
    correction is the sum of the weights times their scales in float32, `PACKED` weights after the other.
    """
    flat = rows(x.reshape(-1, x.shape[-1]))
    zero_points = flat.zero_points + UNSIGNED
    steps, size = scales.to(torch.bfloat16).float(), x.shape[-1] // scales.shape[1]
    kernel = weights.to(torch.int64).view(len(weights), -1, size)
    codes = (flat.steps + zero_points.to(torch.int64)).view(len(flat.steps), -1, size)
    correction = torch.zeros(len(weights))
    for first in range(0, x.shape[-1], PACKED):
        part = weights[:, first : first + PACKED].to(torch.int64)
        correction = correction + part.sum(1).float() * steps[:, first // size]
    acc = -zero_points * correction
    for group in range(steps.shape[1]):
        acc = fused((codes[:, group] @ kernel[:, group].mT).float(), steps[:, group], acc)
    y = acc * flat.scales + (0.0 if bias is None else bias.float())
    return y.view(*x.shape[:-1], len(weights)).to(x.dtype)


def groupwise_error(x: Tensor, weights: Tensor, scales: Tensor, bias: Tensor | None) -> Tensor:
    """How far two orders of `groupwise_linear`'s float32 sums may be apart, for its arguments: float64 [..., O].

    Each of two orders makes at most two roundings per group and per `PACKED` weights of the correction, and some for
    the scale of the row and the bias, each of a number no larger than the sum of all sizes. Codes and zero points are
    no larger than `LARGEST`, whether signed or not.
    """
    flat = rows(x.reshape(-1, x.shape[-1]))
    steps, size = scales.to(torch.bfloat16).double(), x.shape[-1] // scales.shape[1]
    reals = (weights.abs().double() * steps.repeat_interleave(size, 1)).sum(1)
    sizes = 2 * LARGEST * reals * flat.scales + (0.0 if bias is None else bias.abs().double())
    roundings = 2 * scales.shape[1] + 2 * (x.shape[-1] // PACKED) + 4
    return (2 * roundings * _HALF_UNIT * sizes).view(*x.shape[:-1], len(weights))


def conv2d(
    x: Tensor,
    weights: Tensor,
    scales: Sequence[float],
    bias: Tensor | None,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
) -> Tensor:
    """x [N, H, W, I * groups] real, quantized by images; weights [O, KH, KW, I] int8: [N, OH, OW, O].

    A convolution of single elements is a matrix product, which quantizes them one by one.
    """
    if is_matrix_product(weights.shape[1:3], stride, padding, x.shape[3] // weights.shape[3]):
        return linear(x, weights.flatten(1), scales, bias)
    images = rows(x)
    acc = convolved(padded(images.steps, padding, 0), weights, stride, dilation)
    return _reals(acc, images, scales, bias).to(x.dtype)


def is_matrix_product(
    kernel: Sequence[int], stride: Sequence[int], padding: Sequence[Sequence[int]], groups: int
) -> bool:
    """Whether a convolution, not a transposed one, multiplies single elements by one matrix."""
    return {*kernel, *stride, groups} == {1} and not any(size for pads in padding for size in pads)


def transpose_conv2d(
    x: Tensor,
    weights: Tensor,
    scales: Sequence[float],
    bias: Tensor | None,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    output_padding: Pair = (0, 0),
) -> Tensor:
    """x [N, H, W, I * groups] real, quantized by images; weights [O, KH, KW, I] int8: [N, OH, OW, O]."""
    images = rows(x)
    acc = scattered(images.steps, weights, *transposed(x, weights, stride, dilation, padding, output_padding))
    return _reals(acc, images, scales, bias).to(x.dtype)


def _reals(acc: Tensor, quantised: Rows, scales: Sequence[float], bias: Tensor | None) -> Tensor:
    """fused(f32(f32(acc) * row scale), weight scale, bias), the outputs on the last axis."""
    if len(scales) not in (1, acc.shape[-1]):
        raise ValueError(f"weight scales: found {len(scales)}, expected 1 or {acc.shape[-1]}, one per output")
    for scale in scales:
        check_scale(scale, "weight scale")
    add = torch.zeros(()) if bias is None else bias.float()
    return fused(acc.float() * quantised.scales, torch.tensor(list(scales), dtype=torch.float32), add)
