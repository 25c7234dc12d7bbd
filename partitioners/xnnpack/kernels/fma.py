"""Fused multiply-add in float32: a * b + c with one rounding, ties to even, from float64 arithmetic.

The product of two float32 numbers is exact in float64. Its sum with c is rounded to odd: where float64 cannot
hold it, the last bit is set, so that the second rounding, to float32, sees on which side of a tie it lies.
(Boldo and Melquiond, Emulation of a FMA and correctly rounded sums, 2008.)
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_TIE = 1 << 28
_BELOW_FLOAT32 = (1 << 29) - 1
"""The 29 bits that float64 has more than float32, and where they stand for a tie."""

SMALLEST = 2.0**-126
"""The smallest normal float32 number: XNNPACK's kernels run with smaller ones flushed to zero."""


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """float32(a * b + c) for float32 operands, with broadcasting. Subnormal results are flushed to zero.

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
    return torch.where(x.abs() < SMALLEST, x * 0, x)


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
