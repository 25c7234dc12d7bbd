"""Accumulators of TOSA's products, NHWC: exact integers as floating-point numbers, or as int32 sums of raw codes.

INT8 operands add up to INT32, INT16 by INT8 (or, in MATMUL, by INT16) to INT48; `bits` is 31 or 47. A sum that
leaves that type is unpredictable. The kernels check that only where the weights allow it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8 import conv_accumulators, sums
from npu_assay.partitioners.common.int8.accumulate import (
    NO_PADDING,
    Padding,
    Pair,
    exact_dtype,
    factor,
    folded,
    largest_code,
)
from npu_assay.partitioners.common.int8.buffers import Place
from npu_assay.partitioners.ethosu.kernels import placed
from npu_assay.partitioners.ethosu.kernels.numbers import Codes, Kernel, Kernel2, require_within
from npu_assay.reference.affine import Affine

EXACT: Final = 53
"""Bits of a float64, in which every sum here is exact."""


@dataclass(frozen=True)
class Product:
    """A kernel of one or two tensors, and the largest magnitude that its accumulators may have.

    offset: int64 per output channel, to be added to the kernel's numbers, which have at most the magnitude `raw`.
    Without one the kernel's numbers are the accumulators. place: of a kernel that keeps its memory.
    """

    kernel: Callable[..., Tensor]
    bound: int
    offset: Tensor | None = None
    raw: int = 0
    place: Place | None = None


def integers(bits: int, offset: Tensor | None = None) -> Kernel:
    """Accumulators as INT32 or INT48."""
    dtype = torch.int32 if bits == 31 else torch.int64
    if offset is None:
        return lambda acc: acc.to(dtype)
    stored = offset.to(dtype)
    return lambda acc: acc.to(dtype) + stored


def _affine(x: Codes) -> Affine:
    return Affine(1.0, x.zero_point, x.low, x.high)


def _magnitudes(weights: Tensor, axis: int) -> Tensor:
    """Sums of magnitudes of weights of at most 32 bits along an axis: int64, by float64, which is exact and faster."""
    return weights.double().abs_().sum(axis).to(torch.int64)


def _bound(magnitudes: Tensor, bias: Tensor, x: Codes) -> int:
    """The largest magnitude of the accumulators. magnitudes: those of the weights, added up per output channel."""
    return int((magnitudes * x.reach + bias.to(torch.int64).abs()).max())


def _product(kernel: Kernel, magnitudes: Tensor, bias: Tensor, x: Codes, bits: int) -> Product:
    """magnitudes: those of the weights added up, per output channel."""
    bound = _bound(magnitudes, bias, x)
    if bound < 1 << bits:
        return Product(kernel, bound)
    limit = 1 << bits

    def checked(codes: Tensor) -> Tensor:
        acc = kernel(codes)
        require_within(acc, -limit, limit - 1, "accumulator")
        return acc

    return Product(checked, limit)


def _centred(weights: Tensor, zero_point: int) -> Tensor:
    return weights if zero_point == 0 else weights.to(torch.int32) - zero_point


def conv2d(
    weights: Tensor,
    bias: Tensor,
    x: Codes,
    bits: int = 31,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    weight_zero_point: int = 0,
    place: Place | None = None,
) -> Product:
    """weights [O, KH, KW, I], bias [O] or [1]; x [N, H, W, I] -> [N, OH, OW, O]."""
    flat = _centred(weights, weight_zero_point)
    biases = bias.expand(weights.shape[0])
    magnitudes = _magnitudes(flat.flatten(1), 1)
    raw = int(magnitudes.max()) * max(-x.low, x.high)
    bound = _bound(magnitudes, biases, x)
    if x.dtype == flat.dtype == torch.int8 and max(raw, bound) < 1 << 31 and sums.has_int8_product():
        windows = (_affine(x), stride, dilation, padding)
        kernel = placed.conv2d(flat, *windows, place) if place else sums.conv2d(flat, *windows)
        return Product(kernel, bound, sums.offset(flat, biases, _affine(x)), raw, place)
    kernel = conv_accumulators.conv2d(flat, biases, _affine(x), stride, dilation, padding, EXACT)
    return replace(_product(kernel, magnitudes, biases, x, bits), place=place)


def depthwise_conv2d(
    weights: Tensor,
    bias: Tensor,
    x: Codes,
    bits: int = 31,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    weight_zero_point: int = 0,
    place: Place | None = None,
) -> Product:
    """weights [KH, KW, C, M], bias [C * M] or [1]; x [N, H, W, C] -> [N, OH, OW, C * M]."""
    flat = _centred(weights, weight_zero_point).reshape(1, *weights.shape[:2], -1)
    biases = bias.expand(flat.shape[3])
    magnitudes = _magnitudes(flat.flatten(0, 2), 0)
    raw, bound = int(magnitudes.max()) * max(-x.low, x.high), _bound(magnitudes, biases, x)
    if place and weights.shape[3] == 1 and raw < 1 << 24 and bound < 1 << bits:
        kernel = placed.depthwise_conv2d(flat, _affine(x), stride, dilation, padding, place)
        offset = sums.offset(flat.permute(3, 0, 1, 2), biases, _affine(x))
        return Product(kernel, bound, offset, raw, place)
    kernel = conv_accumulators.depthwise_conv2d(flat, biases, _affine(x), stride, dilation, padding, EXACT)
    return replace(_product(kernel, magnitudes, biases, x, bits), place=place)


def transpose_conv2d(
    weights: Tensor,
    bias: Tensor,
    size: Pair,
    x: Codes,
    bits: int = 31,
    stride: Pair = (1, 1),
    before: Pair = (0, 0),
    weight_zero_point: int = 0,
) -> Product:
    """weights [O, KH, KW, I], bias [O] or [1]; x [N, H, W, I] -> [N, *size, O]; before: out_pad's top and left."""
    flat = _centred(weights, weight_zero_point)
    biases = bias.expand(weights.shape[0])
    kernel = conv_accumulators.transpose_conv2d(flat, biases, size, _affine(x), stride, before, EXACT)
    return _product(kernel, _magnitudes(flat.flatten(1), 1), biases, x, bits)


Triple = tuple[int, int, int]


def conv3d(
    weights: Tensor,
    bias: Tensor,
    x: Codes,
    bits: int = 31,
    stride: Triple = (1, 1, 1),
    dilation: Triple = (1, 1, 1),
    padding: tuple[Pair, Pair, Pair] = ((0, 0), (0, 0), (0, 0)),
    weight_zero_point: int = 0,
) -> Product:
    """weights [O, KD, KH, KW, I], bias [O] or [1]; x [N, D, H, W, I] -> [N, OD, OH, OW, O]."""
    flat = _centred(weights, weight_zero_point).reshape(weights.shape[0], -1)
    biases = bias.expand(weights.shape[0])
    rows, offset = folded(flat, biases, _affine(x), EXACT)
    by, kernel = factor(rows, offset, largest_code(_affine(x))), weights.shape[1:4]
    widths = [width for pair in reversed(padding) for width in pair]

    def apply(codes: Tensor) -> Tensor:
        value = torch.constant_pad_nd(codes.to(by.dtype), [0, 0, *widths], x.zero_point).contiguous()
        taps = _windows3d(value, kernel, stride, dilation)
        return by.product(taps.reshape(-1, rows.shape[1])).view(*taps.shape[:4], -1)

    return _product(apply, _magnitudes(flat, 1), biases, x, bits)


def _windows3d(x: Tensor, kernel: tuple[int, ...], stride: Triple, dilation: Triple) -> Tensor:
    """A view of a contiguous [N, D, H, W, C] as [N, OD, OH, OW, KD, KH, KW, C]."""
    sizes, strides = x.shape[1:4], x.stride()
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)]
    steps = [step * s for step, s in zip(strides[1:4], stride, strict=True)]
    within = [step * d for step, d in zip(strides[1:4], dilation, strict=True)]
    return x.as_strided((x.shape[0], *counts, *kernel, x.shape[4]), (strides[0], *steps, *within, strides[4]))


def matmul(a: Codes, b: Codes, depth: int, bits: int = 31) -> tuple[Kernel2, int]:
    """[N, H, C] by [N, C, W] with C = depth: the kernel, and the largest magnitude of its accumulators."""
    bound = depth * a.reach * b.reach
    dtype = exact_dtype(bound, EXACT)

    def apply(p: Tensor, q: Tensor) -> Tensor:
        acc = torch.matmul(p.to(dtype).sub_(a.zero_point), q.to(dtype).sub_(b.zero_point))
        if bound >= 1 << bits:
            require_within(acc, -(1 << bits), (1 << bits) - 1, "accumulator")
        return acc

    return apply, min(bound, 1 << bits)
