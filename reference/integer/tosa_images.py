"""Convolutions, pools and resizing on codes, as TOSA 1.0 defines them; layouts are torch's."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from npu_assay.reference.affine import Affine, float32
from npu_assay.reference.golden.aten import aten
from npu_assay.reference.integer.operand import Given, QTensor, Rule, pair, require
from npu_assay.reference.integer.tosa_rescale import NARROW, WIDE, centred, is_wide, output, requantised, shifted, step


def bits(x: QTensor) -> int:
    """Bits of the multiplier behind sums of products with these codes."""
    return WIDE if is_wide(x) else NARROW


def _product(given: Given, sums: Tensor, x: QTensor, weight: QTensor, y: Affine, axis: int) -> Tensor:
    """Sums of products, with the bias (int32 codes in their steps), as codes."""
    bias = given["bias"]
    if bias is not None:
        require(isinstance(bias, QTensor), "bias", type(bias).__name__, "int32 codes")
        sums = sums + bias.codes.long().reshape(-1, *[1] * (sums.dim() - 1 - axis))
    scales = weight.scale
    if isinstance(scales, tuple):
        ratios = [step(x) * float32(scale) / y.scale for scale in scales]
        return output(sums, ratios, y, axis, bits(x))
    return output(sums, step(x) * scales / y.scale, y, axis, bits(x))


def _linear(given: Given, y: Affine) -> Tensor:
    x, weight = given["input"], given["weight"]
    sums = functional.linear(centred(x).double(), centred(weight).double()).long()
    return _product(given, sums, x, weight, y, x.codes.dim() - 1)


def _convolution(given: Given, y: Affine) -> Tensor:
    """Of one, two or three dimensions, in groups, transposed; float64 holds every sum exactly."""
    x, weight = given["input"], given["weight"]
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    arguments = [given[name] for name in names]
    made = aten("aten.convolution.default")(centred(x).double(), centred(weight).double(), None, *arguments)
    return _product(given, made.long(), x, weight, y, 1)


def _avg_pool(given: Given, y: Affine) -> Tensor:
    """Each window's sum times 2**(30 + k) / count in fixed point; a divisor of its own is a sum and a rescale."""
    x = given["self"]
    kernel = pair(given["kernel_size"])
    window = (kernel, pair(given["stride"]) if given["stride"] else kernel, pair(given["padding"]), given["ceil_mode"])
    ones = torch.ones_like(x.codes, dtype=torch.float64)
    sums = _window_sums(centred(x).double(), *window)
    if given["divisor_override"] is not None:
        return output(sums.long(), step(x) / (given["divisor_override"] * y.scale), y, bits=bits(x))
    if given["count_include_pad"]:
        pads = [window[2][1]] * 2 + [window[2][0]] * 2
        ones = functional.pad(ones, pads, value=1.0)
        window = (kernel, window[1], (0, 0), window[3])
    counts = _window_sums(ones, *window)[..., : sums.shape[-2], : sums.shape[-1]]
    return requantised(_average(sums.long(), counts.long(), x), y)


def _window_sums(
    x: Tensor, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], ceil_mode: bool
) -> Tensor:
    """The sum over each window, padding counting as zero."""
    made: Tensor = torch.ops.aten.avg_pool2d.default(x, list(kernel), list(stride), list(padding), ceil_mode, True, 1)
    return made.round()


def _average(sums: Tensor, counts: Tensor, x: QTensor) -> QTensor:
    """Codes of window sums over window counts."""
    made = torch.zeros_like(sums)
    for count in sorted(set(counts.flatten().tolist())):
        exponent = 0 if count == 1 else (count - 1).bit_length()
        factor, shift = ((1 << 30) + 1 << exponent) // count, 30 + exponent
        made = torch.where(counts == count, (sums * factor + (1 << (shift - 1))) >> shift, made)
    low, high = (-(2**15), 2**15 - 1) if is_wide(x) else (-128, 127)
    codes = (made + x.zero_point).clamp(low, high)
    return QTensor(codes.to(x.codes.dtype), x.scale, x.zero_point)


def _adaptive(given: Given, y: Affine) -> Tensor:
    """Windows from floor(i * size / count) to ceil((i + 1) * size / count), on both axes."""
    x, numbers = given["self"], centred(given["self"])
    spans = [
        [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        for size, count in zip(x.codes.shape[-2:], given["output_size"], strict=True)
    ]
    sums, counts = (torch.zeros(*x.codes.shape[:-2], *map(len, spans), dtype=torch.int64) for _ in range(2))
    for i, (top, bottom) in enumerate(spans[0]):
        for j, (left, right) in enumerate(spans[1]):
            sums[..., i, j] = numbers[..., top:bottom, left:right].sum((-2, -1))
            counts[..., i, j] = (bottom - top) * (right - left)
    return requantised(_average(sums, counts, x), y)


def _max_pool(given: Given, y: Affine) -> Tensor:
    """torch's own on the codes, which keep their order as reals do; padding is never the largest."""
    x = given["self"]
    arguments = [given[name] for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")]
    pooled = torch.ops.aten.max_pool2d.default(x.codes.double(), *arguments)
    return requantised(QTensor(pooled.to(x.codes.dtype), x.scale, x.zero_point), y)


def _nearest(given: Given, y: Affine) -> Tensor:
    x = given["input"]
    moved = aten("aten.upsample_nearest2d.vec")(x.codes.double(), given["output_size"], given["scale_factors"])
    return requantised(QTensor(moved.to(x.codes.dtype), x.scale, x.zero_point), y)


def _bilinear(given: Given, y: Affine) -> Tensor:
    """Positions and weights in whole numbers; what they add up to is rescaled by a power of two or a ratio."""
    x, codes = given["input"], given["input"].codes.long()
    size, factors = given["output_size"], given["scale_factors"]
    shape = codes.shape[-2:]
    wanted = list(size) if size else [int(n * f) for n, f in zip(shape, factors, strict=True)]
    if not given["align_corners"] and all(n == 16 * count for n, count in zip(shape, wanted, strict=True)):
        return requantised(_middle(x, wanted), y)
    scale = 1
    for axis, count in zip((-2, -1), wanted, strict=True):
        codes, numerator = _interpolated(codes, axis, count, aligned=given["align_corners"])
        scale *= numerator
    low, high = (-(2**15), 2**15 - 1) if is_wide(x) else (-128, 127)
    made = shifted(codes, 1 / scale, bits(x)).clamp(low, high)
    return requantised(QTensor(made.to(x.codes.dtype), x.scale, x.zero_point), y)


def _middle(x: QTensor, wanted: list[int]) -> QTensor:
    """The average of the middle four of 16 x 16."""
    rows = torch.stack([centred(x)[..., 7 + i :: 16, :] for i in (0, 1)]).sum(0)
    sums = torch.stack([rows[..., 7 + i :: 16] for i in (0, 1)]).sum(0)
    return _average(sums, torch.full_like(sums, 4), x)


def _interpolated(codes: Tensor, axis: int, count: int, *, aligned: bool) -> tuple[Tensor, int]:
    """Weighted sums of two neighbours along an axis, and what the weights add up to."""
    size = codes.shape[axis]
    ratio = Fraction(count - 1, size - 1) if aligned and size > 1 and count > 1 else Fraction(count, size)
    n, d = 2 * ratio.numerator, 2 * ratio.denominator
    position = torch.arange(count) * d + (0 if aligned else d // 2 - n // 2)
    first = position.div(n, rounding_mode="floor")
    weight = (position - first * n).reshape(-1, *[1] * (-1 - axis))
    near, far = (codes.index_select(axis, (first + i).clamp(0, size - 1)) for i in (0, 1))
    return near * (n - weight) + far * weight, n


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "aten._adaptive_avg_pool2d.default": _adaptive,
        "aten.avg_pool2d.default": _avg_pool,
        "aten.convolution.default": _convolution,
        "aten.linear.default": _linear,
        "aten.max_pool2d.default": _max_pool,
        "aten.max_pool2d_with_indices.default": _max_pool,
        "aten.upsample_bilinear2d.vec": _bilinear,
        "aten.upsample_nearest2d.vec": _nearest,
    }
)
