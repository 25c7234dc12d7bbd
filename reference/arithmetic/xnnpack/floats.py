"""What XNNPACK's kernels compute in float32 beside plain operations: fused products, flushed numbers, codes of reals.

Sources: IEEE 754-2019, 5.4.1 (fusedMultiplyAdd); XNNPACK's reference microkernels f32-qs8-vcvt; the delegate, which
runs them with numbers below the normal range flushed to zero.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine

SMALLEST = 2.0**-126
"""The smallest normal float32 number."""


def flushed(x: Tensor) -> Tensor:
    """float32 numbers below the normal range as zeros of their sign; other types keep theirs."""
    return torch.where(x.abs() < SMALLEST, x * 0, x) if x.dtype == torch.float32 else x


def fused(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """float32(a * b + c) of float32 numbers with one rounding, ties to even; subnormal results are flushed.

    float64 holds the product exactly and rounds the sum. Rounding that to float32 is right except where it lies in
    the middle of two float32 numbers and was itself rounded: there exact fractions tell on which side the sum lies.
    """
    total = a.double() * b.double() + c.double()
    a, b, c = (each.expand(total.shape) for each in (a, b, c))
    found = total.float()
    off = total - found.double()
    other = torch.nextafter(found, torch.where(off > 0, math.inf, -math.inf))
    for at in ((off != 0) & (total + off == other.double())).nonzero().tolist():
        place = tuple(at)
        exact = Fraction(a[place].item()) * Fraction(b[place].item()) + Fraction(c[place].item())
        beyond = exact - Fraction(total[place].item())
        if beyond != 0 and (beyond > 0) == (off[place].item() > 0):
            found[place] = other[place]
    return flushed(found)


def quantize(x: Tensor, y: Affine) -> Tensor:
    """Reals as int8 codes: f32(x * f32(1 / sy)), ties to even, plus the zero point, saturated. NaN is the largest code.

    Of float16 the factor is rounded to float16 as well, and the product to float32.
    """
    inverse = torch.tensor(1.0) / torch.tensor(y.scale32)
    steps = (
        (x.float() * (inverse.half().float() if x.dtype == torch.float16 else inverse))
        .clamp(y.qmin - y.zero_point, y.qmax - y.zero_point)
        .round()
    )
    return (steps.nan_to_num(nan=y.qmax - y.zero_point) + y.zero_point).to(torch.int8)
