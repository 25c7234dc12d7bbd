"""Fused multiply-add in float32: a * b + c with one rounding, ties to even, from float64 arithmetic.

The product of two float32 numbers is exact in float64. Its sum with c is rounded to odd: where float64 cannot
hold it, the last bit is set, so that the second rounding, to float32, sees on which side of a tie it lies.
(Boldo and Melquiond, Emulation of a FMA and correctly rounded sums, 2008.)

torch's addcmul is such a function where its compiler has contracted it, which no document promises: operands of every
shape are tried once against the emulation.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

_TIE = 1 << 28
_BELOW_FLOAT32 = (1 << 29) - 1
"""The 29 bits that float64 has more than float32, and where they stand for a tie."""

SMALLEST = 2.0**-126
"""The smallest normal float32 number: XNNPACK's kernels run with smaller ones flushed to zero."""
LARGEST_SUBNORMAL = SMALLEST - 2.0**-149

Shape = tuple[int, ...]


class FusedAdd(Protocol):
    """a * b + c, perhaps written to `out`."""

    def __call__(self, a: Tensor, b: Tensor, c: Tensor, out: Tensor | None = None, /) -> Tensor: ...


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """float32(a * b + c) for float32 operands, with broadcasting. Subnormal results are flushed to zero."""
    dense = a.is_contiguous() and b.is_contiguous() and c.is_contiguous()
    if dense and _fuses(tuple(a.shape), tuple(b.shape), tuple(c.shape), torch.get_num_threads()):
        return flushed(torch.addcmul(c, a, b))
    return emulated_fma(a, b, c)


def fused(x: Tensor) -> FusedAdd:
    """`fma` for dense operands of the shape of `x`, and one number in place of b, of c, or of both; not flushed.

    The result may be written to the fourth operand.

    A sum is 0, or at least 2**-48 of the larger of a * b and c, of which neither has more than 48 bits: where one of
    them is 2**-70 or more, or a * b is 0 and c is flushed, there is nothing to flush.
    """
    return _addcmul if _fuses_all(tuple(x.shape), torch.get_num_threads()) else emulated_fma


def _addcmul(a: Tensor, b: Tensor, c: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.addcmul(c, a, b, out=out)


@lru_cache(maxsize=4096)
def fuses_for_both(shape: Shape, threads: int) -> bool:
    """Whether addcmul rounds once for x of this shape, b of two such or of two numbers, and c of two numbers."""
    numbers = (2, *[1] * len(shape))
    return all(_fuses(shape, b, numbers, threads) for b in (numbers, (2, *shape)))


@lru_cache(maxsize=4096)
def _fuses_all(shape: Shape, threads: int) -> bool:
    return all(_fuses(shape, b, c, threads) for b in (shape, ()) for c in (shape, ()))


@lru_cache(maxsize=4096)
def _fuses(a: Shape, b: Shape, c: Shape, threads: int) -> bool:
    """Whether addcmul rounds once for operands of these shapes, dense in memory.

    Random numbers, and one product everywhere that leaves what its rounding cuts off, 0 where it is rounded alone.
    """
    generator = torch.Generator().manual_seed(0)
    tries = [tuple(torch.randn(shape, generator=generator) for shape in (a, b, c))]
    for p, q in ((1.1, 1.3), (-0.7, 3.1)):
        left, right = torch.full(a, p), torch.full(b, q)
        tries.append((left, right, torch.full(c, -float(torch.tensor(p) * torch.tensor(q)))))
    return all(torch.equal(flushed(torch.addcmul(r, p, q)), emulated_fma(p, q, r)) for p, q, r in tries)


def emulated_fma(a: Tensor, b: Tensor, c: Tensor, _: Tensor | None = None) -> Tensor:
    """`fma` from float64 arithmetic.

    By numpy, whose calls on a few numbers cost a fraction of torch's; a function is a dozen of these.
    """
    p, q, r = (each.numpy().astype(np.float64) for each in (a, b, c))
    with np.errstate(all="ignore"):
        product = p * q
        total = product + r
        part = total - product
        error = (product - (total - part)) + (r - part)
        bits = np.atleast_1d(total).view(np.int64)
        inexact = (error != 0) & ((bits & 1) == 0) & np.isfinite(total)
        odd = (bits + np.where(inexact, np.where((error > 0) == (total > 0), 1, -1), 0)).view(np.float64)
        found = odd.astype(np.float32)
        found *= np.abs(found) >= np.float32(SMALLEST)
    return torch.from_numpy(found.reshape(total.shape))


def flushed(x: Tensor) -> Tensor:
    """`x` with subnormal numbers replaced by zeros of their sign; half precision keeps its own."""
    if x.dtype != torch.float32:
        return x
    return F.hardshrink(x, LARGEST_SUBNORMAL).copysign_(x)


def accumulate(acc: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """One step of a sum: float32(acc + a * b), kept in float64. All operands float64, holding float32 numbers."""
    total = torch.addcmul(acc, a, b)
    ties = total.view(torch.int64).bitwise_and(_BELOW_FLOAT32).eq_(_TIE)
    if bool(ties.any()):
        total = _sum(a * b, acc)
    return total.float().double()


def _sum(p: Tensor, c: Tensor) -> Tensor:
    """p + c in float64, rounded to odd; the error term is Knuth's, and is exact."""
    total = p + c
    part = total - p
    error = (p - (total - part)) + (c - part)
    bits = total.view(torch.int64)
    inexact = (error != 0) & ((bits & 1) == 0) & torch.isfinite(total)
    towards = torch.where((error > 0) == (total > 0), 1, -1)
    return (bits + torch.where(inexact, towards, 0)).view(torch.float64)
