"""Kernels with a place, see `common.int8.buffers`: the arithmetic of their neighbors, on kept memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8 import conv_accumulators, sums
from npu_assay.partitioners.common.int8.accumulate import Padding, Pair, window_starts
from npu_assay.partitioners.common.int8.buffers import Place, remembered
from npu_assay.partitioners.ethosu.kernels.numbers import Kernel
from npu_assay.reference.affine import Affine

_SHORT_ROW: Final = 64
"""Channels from which a pass needs no longer rows."""

_FEW_NUMBERS: Final = 6000
"""Results up to which one pass over all taps, and one that adds them up, are faster than a pass for each tap."""


def _middle(frame: Tensor, padding: Padding, x: Sequence[int]) -> Tensor:
    """The part of a padded image [N, H, W, C] that is not padding."""
    return frame.narrow(1, padding[0][0], x[1]).narrow(2, padding[1][0], x[2])


def conv2d(weights: Tensor, x: Affine, stride: Pair, dilation: Pair, padding: Padding, place: Place) -> Kernel:
    """`sums.conv2d`: int8 codes -> int32 sums of raw codes."""
    columns = sums.transposed(weights.reshape(weights.shape[0], -1))
    acc = place.buffers.shared("sums", place.y, torch.int32)
    flat = acc.view(-1, weights.shape[0])
    kernel, depth = (weights.shape[1], weights.shape[2]), weights.shape[3]
    frame = sums.frame(place.x, padding, x.zero_point)
    whole = frame.shape == place.x
    middle = _middle(frame, padding, place.x)
    rows: Tensor | None = None
    if kernel != (1, 1) or stride != (1, 1):
        run = kernel[1] if dilation[1] == 1 else 1
        starts = window_starts((frame.shape[0], frame.shape[1], frame.shape[2]), kernel, stride, dilation)
        rows = place.buffers.shared("rows", (starts.numel(), run * depth), torch.int8)
        cells = (frame.numel() // depth - run + 1, run * depth)
        matrix = rows.view(flat.shape[0], -1)

    def runs(codes: Tensor) -> Tensor:
        return codes.view(-1, depth) if rows is None else codes.as_strided(cells, (depth, 1), codes.storage_offset())

    framed, direct = runs(frame), remembered(runs)

    def apply(codes: Tensor) -> Tensor:
        if whole and codes.is_contiguous():
            taken = direct(codes)
        else:
            middle.copy_(codes)
            taken = framed
        if rows is not None:
            torch.index_select(taken, 0, starts, out=rows)
            taken = matrix
        torch._int_mm(taken, columns, out=flat)
        return acc

    return apply


def depthwise_conv2d(
    weights: Tensor, x: Affine, stride: Pair, dilation: Pair, padding: Padding, place: Place
) -> Kernel:
    """weights [1, KH, KW, C] -> float32 sums of raw codes, all of them below 2**24."""
    _, kh, kw, channels = weights.shape
    frame = conv_accumulators.frame(place.x, padding, x.zero_point)
    middle = _middle(frame, padding, place.x)
    acc = place.buffers.shared("sums", place.y, torch.float32)
    taps = weights.view(kh * kw, channels).float()
    merged = stride[1] == 1 and channels < _SHORT_ROW
    size = (place.y[1], place.y[2])
    parts = conv_accumulators.tap_views(frame, size, (kh, kw), stride, dilation, merged)
    if acc.numel() <= _FEW_NUMBERS and not merged:
        many = place.buffers.shared("taps", (kh, kw, *place.y), torch.float32)
        lines, flat, factor = many.view(kh * kw, -1), acc.view(-1), taps.view(kh, kw, 1, 1, 1, channels)

        def at_once(codes: Tensor) -> Tensor:
            middle.copy_(codes)
            torch.mul(parts, factor, out=many)
            torch.sum(lines, 0, out=flat)
            return acc

        return at_once
    factors = (taps.repeat(1, size[1]) if merged else taps).unbind()
    first, *others = zip((tap for line in parts.unbind() for tap in line.unbind()), factors, strict=True)
    total = acc.view(first[0].shape)

    def apply(codes: Tensor) -> Tensor:
        middle.copy_(codes)
        torch.mul(*first, out=total)
        for tap, factor in others:
            total.addcmul_(tap, factor)
        return acc

    return apply


def away(dtype: torch.dtype) -> int:
    """How many codes a type has."""
    return 1 << torch.iinfo(dtype).bits


def floored(ratio: Tensor, offset: Tensor, low: int, high: int, dtype: torch.dtype, place: Place) -> Kernel:
    """acc -> floor(acc * ratio + offset), saturated, where both are exact in float64 and fit int32.

    All is moved by a multiple of the type's range: then what is not past the lower limit is positive, where
    cutting off a fraction is `floor`, and the type's own bits are the code.
    """
    value = place.buffers.shared("value", place.y, torch.float64)
    codes = place.buffers.shared("codes", place.y, torch.int32)
    result = torch.empty(place.y, dtype=dtype)
    rows, offset = value, offset + away(dtype)
    if ratio.dim() and len(place.y) > 2 and place.y[-1] < _SHORT_ROW:
        rows = value.view(*place.y[:-2], -1)
        ratio, offset = (each.expand(place.y[-1]).repeat(place.y[-2]) for each in (ratio, offset))
    least, most = low + away(dtype), high + away(dtype)

    def apply(acc: Tensor) -> Tensor:
        value.copy_(acc)
        torch.addcmul(offset, rows, ratio, out=rows)
        codes.copy_(value)
        return result.copy_(codes.clamp_(least, most))

    return apply


def lookup(table: Tensor, place: Place) -> Kernel:
    """`npu_assay.partitioners.common.int8.lut.lookup`."""
    places = place.buffers.shared("codes", place.x, torch.int32)
    result = torch.empty(place.y, dtype=table.dtype)
    bits, flat, entries = remembered(lambda codes: codes.view(torch.uint8)), places.view(-1), result.view(-1)

    def apply(codes: Tensor) -> Tensor:
        places.copy_(bits(codes))
        torch.index_select(table, 0, flat, out=entries)
        return result

    return apply


def pad(paddings: Sequence[Pair], code: int, dtype: torch.dtype, place: Place) -> Kernel:
    """`npu_assay.partitioners.ethosu.kernels.layout.pad`."""
    result = torch.full(place.y, code, dtype=dtype)
    middle = result
    for axis, (before, _) in enumerate(paddings):
        middle = middle.narrow(axis, before, place.x[axis])

    def apply(x: Tensor) -> Tensor:
        middle.copy_(x)
        return result

    return apply


def clamp(low: int, high: int, dtype: torch.dtype, place: Place) -> Kernel:
    result = torch.empty(place.y, dtype=dtype)
    return lambda x: torch.clamp(x, low, high, out=result)


def transpose(perm: Sequence[int], dtype: torch.dtype, place: Place) -> Kernel:
    """`npu_assay.partitioners.ethosu.kernels.layout.transpose`."""
    result, view = torch.empty(place.y, dtype=dtype), remembered(lambda x: x.permute(*perm))
    return lambda x: result.copy_(view(x))


def reshape(shape: Sequence[int]) -> Kernel:
    """A view where there is one."""
    target = tuple(shape)
    view = remembered(lambda x: x.view(target))
    return lambda x: view(x) if x.is_contiguous() else x.reshape(target)


def slice_(begin: Sequence[int], size: Sequence[int]) -> Kernel:
    """A view of entries that are there."""
    part = tuple(slice(b, b + n) for b, n in zip(begin, size, strict=True))
    return remembered(lambda x: x[part])
