"""Chains of fused multiply-adds by a library's kernels, for shapes for which these were shown to be equal.

A chain starts from a number and adds one product after the other, each with one rounding to float32. A library's
matrix product does so in registers for as many terms as it keeps there, and from zero. Which order it takes depends
on the shapes, the machine and the number of threads, not on the numbers. So every shape is tested once, on numbers
whose chain is known from `fma.accumulate`; if one bit differs, or for numbers that are not finite, the caller adds up
term by term.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import Padding, Pair
from npu_assay.partitioners.xnnpack.kernels.fma import LARGEST_SUBNORMAL, accumulate

_TERMS: Final = 144
_ROWS: Final = 48
"""Terms of a block, and rows that go on from the block before: together what a library keeps in registers."""
_WHOLE: Final = 2.0**-102
"""Products of 48 bits that are at least as large are multiples of 2**-149, as all float32 numbers are."""
_LARGEST: Final = torch.finfo(torch.float32).max
_ROOT: Final = 2.0**-51
_FEWEST: Final = (4, 16)
"""Rows and columns below which libraries have other kernels: zeros fill up."""
_PERIOD: Final = 16
"""Rows and columns of a trial are different; then they repeat."""

Tried = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Factor:
    """A matrix [K, N] and what its sums start from, as a library gets them: zeros fill up, the start is a row.

    Sums with numbers of this magnitude or less, 0 apart, may round to -0.
    """

    matrix: Tensor
    width: int
    started: bool
    vanishing: float


def factor(matrix: Tensor, start: Tensor | None = None) -> Factor | None:
    """Prepare matrix [K, N] and start [N]; None if the library cannot be used.

    Libraries return 0 for a sum of -0, so the caller adds up all sums that may be -0.
    """
    if start is not None and _has_minus_zero(start):
        return None
    vanishing = _vanishing(matrix)
    width = matrix.shape[1]
    fill = max(_FEWEST[1] - width, 0)
    if start is not None:
        matrix = torch.cat([start[None], matrix])
    return Factor((F.pad(matrix, (0, fill)) if fill else matrix).contiguous(), width, start is not None, vanishing)


def product(rows: Tensor, by: Factor) -> Tensor | None:
    """start [N] + rows [M, K] @ matrix [K, N], in float32, k ascending, not flushed; None where it is not shown.

    A block of terms goes on from the sum of the block before by a product with ones: sum * 1 is exact, and so is
    the 0 that every other row adds. Rows that fill up are ones, or the only row again, and are left out of the result.
    """
    if not _all_above(rows, by.vanishing):
        return None
    count = rows.shape[0]
    if by.started and count == 1:  # each step of a recurrent network
        rows = torch.cat([_ones(_FEWEST[0]), rows.expand(_FEWEST[0], -1)], 1)
    elif by.started or count < _FEWEST[0]:
        rows = F.pad(rows, (int(by.started), 0, 0, max(_FEWEST[0] - count, 0)), value=1.0)
    found = _blocks(rows.contiguous(), by.matrix)
    if found is None or not _finite(found):
        return None
    return found[:count] if by.width == found.shape[1] else found[:count, : by.width]


@lru_cache(maxsize=8)
def _ones(rows: int) -> Tensor:
    return torch.ones(rows, 1)


def total(terms: Tensor) -> Tensor | None:
    """The sum over the first axis of terms [K, N], k ascending, from 0: a product with ones; None where not shown.

    Sums of float32 numbers are multiples of the smallest one: none rounds to -0.
    """
    count, width = terms.shape
    fill = max(_FEWEST[1] - width, 0)
    found = _blocks(torch.ones(_FEWEST[0], count), F.pad(terms, (0, fill)) if fill else terms)
    return None if found is None or not _finite(found) else found[0, :width]


def products(left: Tensor, right: Tensor) -> Tensor | None:
    """left [B, M, K] @ right [B, K, N] as `product` without a start, all in one call; None where it is not shown."""
    (batch, count, terms), width = left.shape, right.shape[2]
    if terms > _TERMS or not (_all_above(left, _ROOT) and _all_above(right, _ROOT)):
        return None
    fill = max(_FEWEST[0] - count, 0), max(_FEWEST[1] - width, 0)
    if any(fill):
        left, right = F.pad(left, (0, 0, 0, fill[0])), F.pad(right, (0, fill[1]))
    if not _makes_chains(batch, left.shape[1], terms, right.shape[2], *_settings()):
        return None
    found = torch.bmm(left.contiguous(), right.contiguous())
    return found[:, :count, :width] if _finite(found) else None


def _blocks(rows: Tensor, matrix: Tensor) -> Tensor | None:
    if len(matrix) <= _TERMS:
        return _shown(rows, matrix)
    total = _shown(rows[:, :_TERMS].contiguous(), matrix[:_TERMS])
    for first in range(_TERMS, len(matrix), _TERMS):
        if total is None:
            return None
        total = _going_on(total, rows[:, first : first + _TERMS], matrix[first : first + _TERMS])
    return total


def _going_on(total: Tensor, left: Tensor, right: Tensor) -> Tensor | None:
    """total [M, N] + left [M, K] @ right [K, N], by [1 left] @ [total; right] for some rows at a time."""
    parts = []
    for first in range(0, len(total), _ROWS):
        sums, part = total[first : first + _ROWS], left[first : first + _ROWS]
        fill = max(_FEWEST[0] - len(sums), 0)
        sums, part = F.pad(sums, (0, 0, 0, fill)), F.pad(part, (0, 0, 0, fill))
        found = _shown(torch.cat([torch.eye(len(sums)), part], 1), torch.cat([sums, right]))
        if found is None:
            return None
        parts.append(found[: len(found) - fill])
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _shown(left: Tensor, right: Tensor) -> Tensor | None:
    """The library's product, if it makes a chain of this shape."""
    makes = _makes_chain(left.shape[0], left.shape[1], right.shape[1], *_settings())
    return torch.mm(left, right) if makes else None


@lru_cache(maxsize=4096)
def _makes_chains(batch: int, count: int, terms: int, width: int, threads: int, precision: str) -> bool:
    """`_makes_chain` of a product of batches; every one of them has other numbers than its neighbors."""
    left, right = _trial(terms)
    first = torch.arange(batch)[:, None]
    rows, columns = (torch.arange(count) + first) % _PERIOD, (torch.arange(width) + 3 * first) % _PERIOD
    lefts, rights = left[rows], right.t()[columns].transpose(1, 2).contiguous()
    zeros = torch.bmm(torch.zeros_like(lefts), -rights.abs())
    found = torch.bmm(lefts, rights)
    return torch.equal(found, _chain(terms)[rows[:, :, None], columns[:, None]]) and not _has_minus_zero(zeros)


@lru_cache(maxsize=4096)
def _makes_chain(count: int, terms: int, width: int, threads: int, precision: str) -> bool:
    """Try a shape. Every place of the result has one of 256 chains, so that every tile of the library has many.

    A sum of -0 alone is 0, as it starts from 0; libraries may have a function of their own for one term.
    """
    left, right = _trial(terms)
    rows, columns = torch.arange(count) % _PERIOD, torch.arange(width) % _PERIOD
    lefts, rights = left[rows], right[:, columns].contiguous()
    zeros = torch.mm(torch.zeros_like(lefts), -rights.abs())
    found = torch.mm(lefts, rights)
    return torch.equal(found, _chain(terms)[rows][:, columns]) and not _has_minus_zero(zeros)


@lru_cache(maxsize=4096)
def _trial(terms: int) -> tuple[Tensor, Tensor]:
    """Numbers whose sums depend on the order: [16, terms] and [terms, 16]."""
    generator = torch.Generator().manual_seed(terms)
    return torch.randn(_PERIOD, terms, generator=generator), torch.randn(terms, _PERIOD, generator=generator)


@lru_cache(maxsize=4096)
def _chain(terms: int) -> Tensor:
    """The chains of a trial by definition."""
    left, right = (each.double() for each in _trial(terms))
    acc = torch.zeros(_PERIOD, _PERIOD, dtype=torch.float64)
    for k in range(terms):
        acc = accumulate(acc, left[:, k : k + 1], right[k])
    return acc.float()


def depthwise(
    weights: Tensor,
    bias: Tensor | None,
    stride: Pair,
    dilation: Pair,
    padding: Padding,
    by_terms: Callable[..., Tensor],
) -> Callable[[Tensor], Tensor | None]:
    """One input channel per group, weights [O, KH, KW, 1]: from the bias on, in the order kw, kh, not flushed.

    A library has the order kh, kw for images [N, C, H, W]: it gets them, and the kernel, with the two exchanged.
    `by_terms(x, weights, bias)` is the definition, which a shape is tried against once, on other numbers.
    """
    turned = weights.permute(0, 3, 2, 1).contiguous()
    (top, bottom), (left, right) = padding
    minus_zero, vanishing = bias is not None and _has_minus_zero(bias), _vanishing(weights)

    def compute(x: Tensor, kernel: Tensor, offset: Tensor | None) -> Tensor:
        image = F.pad(x.permute(0, 3, 2, 1), (top, bottom, left, right)).contiguous()
        y = F.conv2d(image, kernel, offset, stride[::-1], 0, dilation[::-1], groups=x.shape[3])
        return y.permute(0, 3, 2, 1).contiguous()

    @lru_cache(maxsize=64)
    def makes_chain(shape: tuple[int, ...], threads: int, precision: str) -> bool:
        generator = torch.Generator().manual_seed(0)
        x, other = torch.randn(shape, generator=generator), torch.randn(weights.shape, generator=generator)
        offset = None if bias is None else torch.randn(bias.shape, generator=generator)
        found = compute(x, other.permute(0, 3, 2, 1).contiguous(), offset)
        return torch.equal(found, by_terms(x, other, offset))

    def apply(x: Tensor) -> Tensor | None:
        if minus_zero or not _all_above(x, vanishing):
            return None
        if not makes_chain(tuple(x.shape), *_settings()):
            return None
        found = compute(x, turned, bias)
        return found if _finite(found) else None

    return apply


def _finite(x: Tensor) -> bool:
    """A sum is finite only if all numbers are, or so large that the caller may as well look."""
    return math.isfinite(x.sum().item())


def _vanishing(x: Tensor) -> float:
    """The largest float32 number whose product with one of `x` may be no multiple of the smallest number.

    Only where a product is none may a sum round to -0. It is never below the largest subnormal number.
    """
    least = x.abs().masked_fill_(x == 0, torch.inf).min().item() if x.numel() else math.inf
    limit = np.float32(min(_WHOLE / least, _LARGEST)) if least else np.float32(_LARGEST)
    return float(max(np.nextafter(limit, np.float32(_LARGEST)), np.float32(LARGEST_SUBNORMAL)))


def _all_above(x: Tensor, limit: float) -> bool:
    """Whether all numbers but 0 are larger in magnitude, and none is NaN."""
    return torch.equal(F.hardshrink(x, limit), x)


def _has_minus_zero(x: Tensor) -> bool:
    return bool((x.view(torch.int32) == -(2**31)).any())


def _settings() -> tuple[int, str]:
    """What changes a library's kernels while a program runs: threads, and leave to compute in less than float32."""
    return torch.get_num_threads(), torch.get_float32_matmul_precision()
