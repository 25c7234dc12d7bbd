"""Arithmetic, logic, shifts, comparisons and tables of TOSA, element by element; operands broadcast.

INT32 results that leave 32 bits are unpredictable, but for MUL without a shift, which keeps the low 32 bits.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.buffers import Place
from npu_assay.partitioners.common.int8.lut import lookup
from npu_assay.partitioners.ethosu.kernels import placed
from npu_assay.partitioners.ethosu.kernels.numbers import (
    INT32,
    Codes,
    Kernel,
    Kernel2,
    Unpredictable,
    as_int32,
    require_within,
)

_WIDTHS: Final = {torch.int8: 8, torch.int16: 16, torch.int32: 32}


def add(a: Tensor, b: Tensor) -> Tensor:
    """INT32."""
    total = a + b
    _no_overflow((a ^ total) & (b ^ total), "ADD result")
    return total


def sub(a: Tensor, b: Tensor) -> Tensor:
    """INT32."""
    total = a - b
    _no_overflow((a ^ b) & (a ^ total), "SUB result")
    return total


def _no_overflow(signs: Tensor, what: str) -> None:
    """The sign bit is set where a 32-bit sum has wrapped."""
    if signs.numel() and int(signs.amin()) < 0:
        raise Unpredictable(what, "past 32 bits", f"from {INT32[0]} to {INT32[1]}")


def mul(shift: int = 0) -> Kernel2:
    """INT8, INT16 or INT32 -> INT32: (a * b + 2**(shift-1)) >> shift; without shift the low 32 bits of a * b."""

    def apply(a: Tensor, b: Tensor) -> Tensor:
        if not shift:
            return a.to(torch.int32) * b.to(torch.int32)
        # All in 64 bits: the largest product, with a shift of 63, wraps around.
        product = a.to(torch.int64) * b.to(torch.int64)
        return as_int32((product + (1 << (shift - 1))) >> shift, "MUL result")

    return apply


def abs_(x: Tensor) -> Tensor:
    """INT32."""
    require_within(x, INT32[0] + 1, INT32[1], "ABS operand")
    return x.abs()


def negate(x: Codes, y: Codes) -> Kernel:
    """y = clip(zero point - (x - zero point)); INT32 has no zero points, and no clip."""
    if x.dtype == torch.int32:
        return _negate32
    total = x.zero_point + y.zero_point
    return lambda codes: (total - codes.to(torch.int32)).clamp_(y.low, y.high).to(y.dtype)


def _negate32(x: Tensor) -> Tensor:
    require_within(x, INT32[0] + 1, INT32[1], "NEGATE operand")
    return -x


def intdiv(a: Tensor, b: Tensor) -> Tensor:
    """INT32, towards zero."""
    if (b == 0).any():
        raise Unpredictable("INTDIV divisor", 0, "another number")
    return as_int32(torch.div(a.to(torch.int64), b, rounding_mode="trunc"), "INTDIV result")


def clz(x: Tensor) -> Tensor:
    """INT32: the number of zero bits before the first one."""
    bits = x.to(torch.int64) & 0xFFFFFFFF
    return (32 - torch.frexp(bits.double()).exponent).to(torch.int32)


def logical_left_shift(a: Tensor, b: Tensor) -> Tensor:
    _check_shift(a, b)
    return a << b


def logical_right_shift(a: Tensor, b: Tensor) -> Tensor:
    """Zeros come in from the left."""
    _check_shift(a, b)
    mask = (1 << _WIDTHS[a.dtype]) - 1
    return ((a.to(torch.int64) & mask) >> b.to(torch.int64)).to(a.dtype)


def arithmetic_right_shift(rounds: bool) -> Kernel2:
    """rounds: the last bit that falls out is added."""

    def apply(a: Tensor, b: Tensor) -> Tensor:
        _check_shift(a, b)
        if not rounds:
            return a >> b
        wide, shift = a.to(torch.int64), b.to(torch.int64)
        last = (wide >> (shift - 1).clamp_(min=0)) & (shift > 0)
        return ((wide >> shift) + last).to(a.dtype)

    return apply


def _check_shift(a: Tensor, b: Tensor) -> None:
    require_within(b, 0, _WIDTHS[a.dtype] - 1, "shift")


def clamp(low: int, high: int) -> Kernel:
    return lambda x: x.clamp(low, high)


def cast(target: torch.dtype) -> Kernel:
    """Narrower integers keep the low bits; what is not zero is true."""
    return lambda x: x.to(target)


def table8(values: Tensor, place: Place | None = None) -> Kernel:
    """INT8 -> INT8: entry i of the 256 belongs to the code i - 128."""
    entries = values.roll(128)
    return placed.lookup(entries, place) if place else lambda codes: lookup(entries, codes)


def table16(values: Tensor) -> Kernel:
    """INT16 -> INT32 with 7 fraction bits: between 513 entries, 128 codes apart, on straight lines.

    Raises Unpredictable for a code where neighbors differ by more than 16 bits hold.
    """
    starts = values.to(torch.int32)
    slopes = starts.diff()
    steep = bool((slopes != slopes.to(torch.int16)).any())

    def apply(codes: Tensor) -> Tensor:
        wide = codes.to(torch.int32)
        places = ((wide >> 7) + 256).reshape(-1)
        slope = slopes.index_select(0, places).view(codes.shape)
        if steep:
            require_within(slope, -(1 << 15), (1 << 15) - 1, "slope of a TABLE")
        return slope.mul_(wide & 127).add_(starts.index_select(0, places).view(codes.shape) << 7)

    return apply
