"""FULLY_CONNECTED and BATCH_MATMUL of TensorFlow Lite on int8.

FULLY_CONNECTED rescales by `tflite_float64`: LiteRT multiplies the accumulator by a float64 ratio where
older TensorFlow Lite kernels use the fixed-point scheme. BATCH_MATMUL uses `tflite_double_round`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import (
    as_float,
    exact_dtype,
    factor,
    folded,
    largest_code,
    largest_input,
)
from npu_assay.partitioners.common.int8.output import (
    Bounds,
    Kernel,
    Kernel2,
    check_scales,
    double_round_stage,
    float64_stage,
)
from npu_assay.partitioners.common.rescale import quantize_multiplier
from npu_assay.reference.affine import Affine, float32


def fully_connected(
    weights: Tensor,
    bias: Tensor | None,
    x: Affine,
    w_scales: Sequence[float],
    y: Affine,
    w_zero_point: int = 0,
    keep_dims: bool = False,
    activation: Bounds | None = None,
) -> Kernel:
    """weights [O, I] int8, bias [O] int32; returns x [..., I] -> y [batch, O], or [..., O] with keep_dims.

    w_scales: one, or one per output. Raises ValueError for another number of scales.
    """
    outputs, depth = weights.shape
    centred, offset = folded(weights.to(torch.int32) - w_zero_point, bias, x)
    by = factor(centred, offset, largest_code(x))
    finish = float64_stage(_ratios(x, w_scales, y, outputs), y, activation)

    def apply(codes: Tensor) -> Tensor:
        result = finish(by.product(as_float(codes, by.dtype).reshape(-1, depth)))
        return result.view(*codes.shape[:-1], outputs) if keep_dims else result

    return apply


def fully_connected_dynamic(
    x: Affine, w: Affine, y: Affine, bias: Tensor | None = None, keep_dims: bool = False
) -> Kernel2:
    """FULLY_CONNECTED whose weights [O, I] are an activation: f(x [..., I], w [O, I])."""

    def apply(codes: Tensor, weights: Tensor) -> Tensor:
        return fully_connected(weights, bias, x, (w.scale,), y, w.zero_point, keep_dims)(codes)

    return apply


def batch_matmul(a: Affine, b: Affine, y: Affine, adj_x: bool = False, adj_y: bool = False) -> Kernel2:
    """f(a [..., M, K], b [..., K, N]) -> [..., M, N]; adj_* swap the last two dims of an input first."""
    ratio = float32(a.scale32 * b.scale32) / y.scale32
    finish = double_round_stage([quantize_multiplier(ratio)], y)
    largest = largest_input(a) * largest_input(b)

    def apply(left: Tensor, right: Tensor) -> Tensor:
        left = left.mT if adj_x else left
        right = right.mT if adj_y else right
        dtype = exact_dtype(left.shape[-1] * largest)
        return finish((as_float(left, dtype) - a.zero_point) @ (as_float(right, dtype) - b.zero_point))

    return apply


def _ratios(x: Affine, w_scales: Sequence[float], y: Affine, outputs: int) -> list[float]:
    check_scales(w_scales, outputs)
    return [x.scale32 * float32(scale) / y.scale32 for scale in w_scales]
