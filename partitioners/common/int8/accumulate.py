"""Exact integer products through floating-point matrix multiplication.

A sum of integer products is exact in floating point when every partial sum, in whatever order the
library adds, is an integer that the significand holds. The sum of the terms' magnitudes bounds them all.
float32 holds 24 bits and covers nearly all int8 layers; float64 holds 53 bits and covers every int32
accumulator. Where float32 covers some terms at a time, their sums are added up in float64: half the memory and less
than half the time of a product in float64. A library convolution may use Winograd's algorithm, whose intermediates
are not integers, so convolutions gather their windows and multiply matrices. That is also faster at the sizes of
small networks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from npu_assay.reference.affine import Affine

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]
NO_PADDING: Padding = ((0, 0), (0, 0))

_FEWEST_TERMS = 64
"""Terms of a block, at least: each block costs a pass over the sums."""


def exact_dtype(bound: int, bits: int = 31) -> torch.dtype:
    """The narrowest float type in which integers up to `bound` in magnitude, and their sums, are exact.

    Raises ValueError when the accumulator may need more than `bits` bits and a sign (at most 53): by default
    when it may leave int32, where the device's result is undefined.
    """
    if bound >= 1 << bits:
        raise ValueError(f"accumulator: found magnitudes up to {bound}, expected less than 2**{bits}")
    return torch.float32 if bound < 1 << 24 else torch.float64


def largest_input(x: Affine) -> int:
    """The largest magnitude of code - zero_point."""
    return max(x.qmax - x.zero_point, x.zero_point - x.qmin)


def largest_code(x: Affine) -> int:
    """The largest magnitude of a code."""
    return max(abs(x.qmin), abs(x.qmax))


def folded(weights: Tensor, bias: Tensor | None, x: Affine, bits: int = 31) -> tuple[Tensor, Tensor]:
    """(weights, offset) with which the raw codes give the accumulator: sum(code * w) + (bias - zx * sum(w)).

    weights [rows, terms] and bias [rows] are integers; both results have the float type in which every
    partial sum is exact. Raises ValueError when one may need more than `bits` bits and a sign.
    """
    wide = weights.double()  # exact: a sum has at most 53 bits, or `exact_dtype` refuses it
    offset = wide.sum(dim=1) * -x.zero_point
    if bias is not None:
        offset += bias
    bounds = wide.abs().sum(dim=1) * largest_code(x) + offset.abs()
    dtype = exact_dtype(int(bounds.max()), bits)
    return wide.to(dtype), offset.to(dtype)


@dataclass(frozen=True)
class Factor:
    """A matrix [terms, O] in blocks of terms, and what its sums start from [O]; one block has the type of the sums."""

    blocks: tuple[Tensor, ...]
    offset: Tensor

    @property
    def dtype(self) -> torch.dtype:
        """The type of the numbers that it is multiplied with."""
        return self.blocks[0].dtype

    def product(self, rows: Tensor) -> Tensor:
        """rows [M, terms] of `dtype` -> exact sums [M, O]."""
        if len(self.blocks) == 1:
            return torch.addmm(self.offset, rows, self.blocks[0])
        acc, parts = self.offset, torch.split(rows, len(self.blocks[0]), dim=1)
        for part, block in zip(parts, self.blocks, strict=True):
            sums = torch.mm(part, block)
            acc = torch.add(acc, sums) if acc is self.offset else acc.add_(sums)
        return acc

    def chunk(self, groups: int) -> list[Factor]:
        """The parts of equal groups of columns."""
        blocks = zip(*(block.chunk(groups, dim=1) for block in self.blocks), strict=True)
        return [Factor(part, offset) for part, offset in zip(blocks, self.offset.chunk(groups), strict=True)]


def factor(weights: Tensor, offset: Tensor, largest: int) -> Factor:
    """Prepare weights [O, terms] and offset [O], both of the type of exact sums, for numbers up to `largest`."""
    if weights.dtype == torch.float64:
        count, bound = 2, _bound(weights, largest)
        while count * _FEWEST_TERMS <= weights.shape[1]:
            parts = weights.chunk(count, dim=1)
            if bound < count << 24 and all(_bound(part, largest) < 1 << 24 for part in parts):
                return Factor(tuple(part.float().t().contiguous() for part in parts), offset)
            count *= 2
    return Factor((weights.t().contiguous(),), offset)


def _bound(weights: Tensor, largest: int) -> float:
    """The largest sum of magnitudes of weights [O, terms] times numbers up to `largest`."""
    return float(weights.abs().sum(dim=1).max()) * largest


def pad_hw(x: Tensor, padding: Padding, value: int = 0) -> Tensor:
    """`x` [N, H, W, C] with rows and columns of `value` around it; `x` itself when there are none."""
    (top, bottom), (left, right) = padding
    return F.pad(x, (0, 0, left, right, top, bottom), value=value) if any((top, bottom, left, right)) else x


def as_float(codes: Tensor, dtype: torch.dtype) -> Tensor:
    """`codes.to(dtype)`, where dtype comes from `exact_dtype`; the methods take half the time of `to`."""
    return codes.float() if dtype == torch.float32 else codes.double()


def padded_float(codes: Tensor, padding: Padding, code: int, dtype: torch.dtype) -> Tensor:
    """`codes` [N, H, W, C] as contiguous floats, within rows and columns of `code`."""
    return as_float(codes, dtype).contiguous() if padding == NO_PADDING else _framed(codes, padding, code, dtype)


def padded(codes: Tensor, padding: Padding, code: int) -> Tensor:
    """`codes` [N, H, W, C] in their type, contiguous, within rows and columns of `code`."""
    return codes.contiguous() if padding == NO_PADDING else _framed(codes, padding, code, codes.dtype)


def _framed(codes: Tensor, padding: Padding, code: int, dtype: torch.dtype) -> Tensor:
    (top, bottom), (left, right) = padding
    n, h, w, c = codes.shape
    value = torch.full((n, top + h + bottom, left + w + right, c), code, dtype=dtype)
    value.narrow(1, top, h).narrow(2, left, w).copy_(codes)
    return value


@lru_cache(maxsize=1024)
def output_size(size: Pair, kernel: Pair, stride: Pair, dilation: Pair = (1, 1)) -> Pair:
    """Height and width of a VALID window operation. Raises ValueError when the window does not fit."""
    h, w = ((n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(size, kernel, stride, dilation, strict=True))
    if h < 1 or w < 1:
        raise ValueError(f"window {kernel} with dilation {dilation}: found input {size}, expected at least the window")
    return h, w


def windows(x: Tensor, kernel: Pair, stride: Pair, dilation: Pair = (1, 1)) -> Tensor:
    """A view of `x` [N, H, W, C] as [N, OH, OW, KH, KW, C]."""
    n, h, w, c = x.shape
    oh, ow = output_size((h, w), kernel, stride, dilation)
    sn, sh, sw, sc = x.stride()
    return x.as_strided(
        (n, oh, ow, *kernel, c),
        (sn, sh * stride[0], sw * stride[1], sh * dilation[0], sw * dilation[1], sc),
        x.storage_offset(),
    )


def window_starts(size: tuple[int, int, int], kernel: Pair, stride: Pair, dilation: Pair) -> Tensor:
    """Where the runs of all windows start, as int32 numbers of cells of [N, H, W]; see `window_rows`."""
    run = kernel[1] if dilation[1] == 1 else 1
    cells = torch.arange(prod(size), dtype=torch.int32).view(*size, 1)
    return windows(cells, kernel, stride, dilation)[..., ::run, :].flatten()


def window_rows(kernel: Pair, stride: Pair, dilation: Pair) -> Callable[[Tensor], Tensor]:
    """A function that copies the windows of a contiguous [N, H, W, C] into rows [N * OH * OW, KH * KW * C].

    Adjacent cells, a kernel's row without dilation, are copied as one run. The starts of the runs depend only on the
    input's shape, and are kept.
    """
    run = kernel[1] if dilation[1] == 1 else 1

    @lru_cache(maxsize=8)
    def starts(n: int, h: int, w: int) -> Tensor:
        return window_starts((n, h, w), kernel, stride, dilation)

    def apply(x: Tensor) -> Tensor:
        n, h, w, c = x.shape
        runs = x.as_strided((n * h * w - run + 1, run * c), (c, 1))
        return runs.index_select(0, starts(n, h, w)).view(-1, kernel[0] * kernel[1] * c)

    return apply
