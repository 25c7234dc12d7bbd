"""XNNPACK's products of dynamically quantized activations with int8 or 4-bit weights: reals to reals.

The activations of a row (the last axis; for images all of H x W x C of one image) are quantized on the way in
with a scale and a zero point chosen from their extremes; the integer accumulator is exact, and the scales are
applied in float32 with one fused multiply-add at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import NO_PADDING, Padding, Pair, exact_dtype
from npu_assay.partitioners.common.int8.output import Kernel, check_scales
from npu_assay.partitioners.xnnpack.kernels import accumulators
from npu_assay.partitioners.xnnpack.kernels.fma import accumulate, fma

Reals = tuple[float, float]
"""Lower and upper limit of a fused activation, as reals."""

Product = Callable[["Rows"], Tensor]


@dataclass(frozen=True)
class Rows:
    """Quantized activations: int8 codes of any shape [rows, ...], and for each row its zero point and its scale.

    zero_points and scales: float32 [rows, 1, ...], as many axes as the codes.
    """

    codes: Tensor
    zero_points: Tensor
    scales: Tensor


def quantize_rows(reals: Tensor) -> Rows:
    """Quantize each index of the first axis of `reals` (float32 or float16) with its own parameters.

    The range holds zero; a row of equal numbers zero has scale 1. The zero point is that of the end of the range
    whose own code it hits more exactly.
    """
    x = reals.float()
    axes = tuple(range(1, x.dim()))
    low, high = x.amin(axes, keepdim=True).clamp_max_(0.0), x.amax(axes, keepdim=True).clamp_min_(0.0)
    steps = torch.where(low == high, 1.0, torch.full_like(low, 255.0) / (high - low))
    first, last = low * steps, high * steps
    nearer = (-128.0 + first) + (127.0 + last) > 0
    zero_points = torch.where(nearer, -128.0 - first, 127.0 - last).clamp_(-128.0, 127.0).round_()
    codes = (x * steps).round_().add_(zero_points).clamp_(-128.0, 127.0)
    return Rows(codes.to(torch.int8), zero_points, torch.reciprocal(steps))


def linear(weights: Tensor, w_scales: Sequence[float], bias: Tensor | None, activation: Reals | None = None) -> Kernel:
    """weights [O, I] int8, bias [O] float32; returns x [..., I] real -> y [..., O] real. One scale per output."""
    outputs, inputs = weights.shape
    multiply, finish = accumulators.linear(weights, None, _LARGEST), _stage(w_scales, bias, outputs, activation)

    def apply(x: Tensor) -> Tensor:
        rows = quantize_rows(x.reshape(-1, inputs))
        y = finish(multiply(rows.codes.float().sub_(rows.zero_points)), rows.scales)
        return y.view(*x.shape[:-1], outputs).to(x.dtype)

    return apply


def groupwise_linear(weights: Tensor, scales: Tensor, bias: Tensor | None, activation: Reals | None = None) -> Kernel:
    """weights [O, I] 4-bit codes within [-8, 7] as int8, scales [O, groups]; x [..., I] real -> y [..., O] real.

    The scales are rounded to bfloat16. Groups are added up one after the other, from a float32 correction for the
    zero point that is summed in the same order, `_PACKED` weights at a time; codes and zero point are unsigned
    (128 more) on the way, as in the kernels for processors with VNNI.
    """
    outputs, inputs = weights.shape
    steps = scales.to(torch.bfloat16).float()
    groups = steps.shape[1]
    size = inputs // groups
    exact = exact_dtype(size * 255 * 8)
    matrices = [part.t().to(exact).contiguous() for part in weights.chunk(groups, dim=1)]
    correction = torch.zeros(outputs)
    for matrix, step in zip(matrices, steps.unbind(1), strict=True):
        for part in torch.split(matrix, _PACKED):
            correction = correction + part.sum(0).float() * step
    wide = steps.double()
    add = torch.zeros(outputs) if bias is None else bias.float()

    def apply(x: Tensor) -> Tensor:
        rows = quantize_rows(x.reshape(-1, inputs))
        codes = rows.codes.to(exact).add_(128)
        acc = (-(rows.zero_points + 128) * correction).double()
        for index, (part, matrix) in enumerate(zip(codes.chunk(groups, dim=1), matrices, strict=True)):
            acc = accumulate(acc, (part @ matrix).float().double(), wide[:, index])
        y = _limited(acc.float() * rows.scales + add, activation)
        return y.view(*x.shape[:-1], outputs).to(x.dtype)

    return apply


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
    """weights [O, KH, KW, I / groups] int8; x [N, H, W, I] real -> y [N, OH, OW, O] real.

    XNNPACK computes a convolution of single elements as a matrix product, which quantizes them one by one.
    """
    if is_matrix_product(weights.shape[1:3], stride, padding, groups):
        return linear(weights.flatten(1), w_scales, bias, activation)
    multiply = accumulators.conv2d(weights, None, _LARGEST, stride, dilation, padding, groups)
    return _on_images(multiply, _stage(w_scales, bias, len(weights), activation))


def is_matrix_product(
    kernel: Sequence[int], stride: Sequence[int], padding: Sequence[Sequence[int]], groups: int
) -> bool:
    """Whether a convolution, not a transposed one, multiplies single elements by one matrix."""
    ones = all(size == 1 for size in (*kernel, *stride, groups))
    return ones and not any(size for pads in padding for size in pads)


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
    multiply = accumulators.transpose_conv2d(weights, None, _LARGEST, stride, dilation, padding, output_padding, groups)
    return _on_images(multiply, _stage(w_scales, bias, len(weights), activation))


_PACKED = 16
"""4-bit weights of an output that XNNPACK packs at a time: two in each of 8 bytes."""

_LARGEST = 255
"""The largest magnitude of a code less its zero point."""


def _on_images(multiply: Kernel, finish: Callable[[Tensor, Tensor], Tensor]) -> Kernel:
    def apply(x: Tensor) -> Tensor:
        rows = quantize_rows(x)
        return finish(multiply(rows.codes.float().sub_(rows.zero_points)), rows.scales).to(x.dtype)

    return apply


def _stage(
    w_scales: Sequence[float], bias: Tensor | None, outputs: int, activation: Reals | None
) -> Callable[[Tensor, Tensor], Tensor]:
    """(acc, row scales) -> fma(f32(acc * row scale), weight scale, bias), within the activation's limits."""
    check_scales(w_scales, outputs)
    steps = torch.tensor(list(w_scales), dtype=torch.float32)
    add = torch.zeros(outputs) if bias is None else bias.float()
    return lambda acc, scales: _limited(fma(acc.float() * scales, steps, add), activation)


def _limited(y: Tensor, activation: Reals | None) -> Tensor:
    return y if activation is None else y.clamp(*activation)
