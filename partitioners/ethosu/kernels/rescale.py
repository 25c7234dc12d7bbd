"""RESCALE: clip(round((x - zero point) * multiplier * 2**-shift) + zero point), `tosa_single_round`.

TOSA keeps the product in 64 bits, as does the kernel here in general. In two cases float64 gives the same codes
in fewer passes, as floor(acc * ratio + (1/2 + zero point)) with ratio = multiplier * 2**-shift, which is exact:

- no term needs more than 53 bits: |acc| * multiplier + 2**(shift-1) + |zero point| * 2**shift <= 2**53;
- the result saturates: all terms are multiples of 2**-shift, and wherever the exact sum is below 2**L, the first
  power of two past the limits, it has at most L + shift <= 53 bits. Beyond it rounding is monotone, and the
  result stays past the limits.

Sums that lack an offset per channel take it with the zero point, (offset * ratio + 1/2 + zero point), where all
terms fit 53 bits, that of the offset too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.buffers import Place
from npu_assay.partitioners.common.int8.lut import ALL_CODES, lookup
from npu_assay.partitioners.common.rescale import tosa_multiplier, tosa_single_round
from npu_assay.partitioners.ethosu.kernels import placed
from npu_assay.partitioners.ethosu.kernels.linear import Product
from npu_assay.partitioners.ethosu.kernels.numbers import INT32, Codes, Kernel, Unpredictable, require_within

_EXACT: Final = 53


def scale(ratio: float, width: int = 32) -> tuple[int, int]:
    """(multiplier, shift) of a positive real ratio; width 32 with scale32, else 16. See `tosa_multiplier`."""
    return tosa_multiplier(ratio, width)


def rescale(
    multipliers: Sequence[int],
    shifts: Sequence[int],
    x: Codes,
    y: Codes,
    scale32: bool = True,
    bound: int | None = None,
    place: Place | None = None,
) -> Kernel:
    """x of any shape -> y: one multiplier and shift, or one per index of the last axis.

    bound: the largest |x - zero point| that can occur, where that is less than its type allows. Raises
    Unpredictable as `rounded`.
    """
    reach = x.reach if bound is None else bound
    multiplier, shift = _column(multipliers), _column(shifts)
    finish = rounded(multiplier, shift, y, reach, scale32)
    if (
        x.dtype == torch.int8
        and not (multiplier.dim() or shift.dim())
        and _all_defined(multiplier, shift, y, reach, scale32)
    ):
        table = finish(x.numbers(ALL_CODES.to(torch.int8)) - x.zero_point)
        return placed.lookup(table, place) if place else lambda stored: lookup(table, stored)
    if x.zero_point == 0 and not x.unsigned:
        return _kept(finish, shift, reach, place)
    return lambda stored: finish(x.numbers(stored) - x.zero_point)


def of_product(
    product: Product, multipliers: Sequence[int], shifts: Sequence[int], y: Codes, scale32: bool = True
) -> Kernel:
    """What a product's kernel gives -> y, as `rescale`."""
    multiplier, shift, offset = _column(multipliers), _column(shifts), product.offset
    if offset is None:
        return _kept(rounded(multiplier, shift, y, product.bound, scale32), shift, product.bound, product.place)
    terms = product.raw + int(offset.abs().max())
    if _has_exact_terms(multiplier, shift, y, terms) and _all_defined(multiplier, shift, y, product.bound, scale32):
        return _kept(_in_float64(multiplier, shift, y, offset), shift, terms, product.place)
    finish, start = rounded(multiplier, shift, y, product.bound, scale32), offset.double()
    return lambda raw: finish(raw.double().add_(start))


def _all_defined(multiplier: Tensor, shift: Tensor, y: Codes, bound: int, scale32: bool) -> bool:
    """Whether every accumulator up to the bound has a result: its own range, and that of the result."""
    least = int(shift.min())
    largest = ((bound * int(multiplier.max())) >> least) + 1 + abs(y.zero_point)
    return largest <= INT32[1] and (not scale32 or bound < 1 << (least - 1))


def rounded(multiplier: Tensor, shift: Tensor, y: Codes, bound: int, scale32: bool = True) -> Kernel:
    """acc (any numeric type that holds integers up to `bound` in magnitude) -> y; parameters broadcast.

    Raises Unpredictable for an accumulator outside [-2**(shift-1), 2**(shift-1)) with scale32, and for a result
    that leaves int32 before it is clipped.
    """
    apply = (
        _in_float64(multiplier, shift, y)
        if _is_exact(multiplier, shift, y, bound)
        else _in_int64(multiplier, shift, y, bound)
    )
    if _all_defined(multiplier, shift, y, bound, scale32):
        return apply
    checked = _into_int32(apply, multiplier, shift, y)
    return _of_bounded(checked, shift) if scale32 else checked


def _is_exact(multiplier: Tensor, shift: Tensor, y: Codes, bound: int) -> bool:
    """See the module: every term within 53 bits, or every term that matters."""
    if _has_exact_terms(multiplier, shift, y, bound):
        return True
    most = int(shift.max())
    return y.dtype != torch.int32 and max(abs(y.low), abs(y.high), y.reach).bit_length() + 1 + most <= _EXACT


def _has_exact_terms(multiplier: Tensor, shift: Tensor, y: Codes, bound: int) -> bool:
    most = int(shift.max())
    return bound * int(multiplier.max()) + (1 << (most - 1)) + (abs(y.zero_point) << most) <= 1 << _EXACT


@dataclass(frozen=True)
class _Floored:
    """acc -> floor(acc * ratio + offset), saturated, in float64."""

    ratio: Tensor
    offset: Tensor
    y: Codes

    def __call__(self, acc: Tensor) -> Tensor:
        value = acc.clone() if acc.dtype == torch.float64 else acc.double()
        torch.addcmul(self.offset, value, self.ratio, out=value)
        return self.y.stored(value.floor_().clamp_(self.y.low, self.y.high))


def _in_float64(multiplier: Tensor, shift: Tensor, y: Codes, start: Tensor | None = None) -> _Floored:
    """start: what every accumulator lacks, per index of the last axis."""
    ratio = torch.ldexp(torch.ones_like(shift, dtype=torch.float64), -shift) * multiplier
    offset = torch.full_like(ratio, y.zero_point + 0.5)
    return _Floored(ratio, offset if start is None else offset + ratio * start, y)


def _kept(kernel: Kernel, shift: Tensor, bound: int, place: Place | None) -> Kernel:
    """The same with a place, where its sums stay exact and within int32. bound: of what the kernel takes."""
    if place is None or not isinstance(kernel, _Floored) or kernel.y.unsigned or kernel.y.dtype == torch.int32:
        return kernel
    ratio, offset, y = kernel.ratio, kernel.offset, kernel.y
    largest = bound * float(ratio.max()) + float(offset.abs().max()) + 2 * placed.away(y.dtype)
    if largest >= 1 << min(30, _EXACT - int(shift.max())):
        return kernel
    return placed.floored(ratio, offset, y.low, y.high, y.dtype, place)


def _in_int64(multiplier: Tensor, shift: Tensor, y: Codes, bound: int) -> Kernel:
    """The rounding constant and the zero point are added at once, where the sum keeps to 64 bits."""
    half = torch.ones((), dtype=torch.int64) << (shift - 1)
    zero_point = y.zero_point
    if bound * int(multiplier.max()) + ((2 * abs(zero_point) + 1) << (int(shift.max()) - 1)) < 1 << 63:
        half, zero_point = half + (zero_point << shift), 0

    def apply(acc: Tensor) -> Tensor:
        value = acc.to(torch.int64, copy=True).mul_(multiplier).add_(half).__irshift__(shift)
        if zero_point:
            value.add_(zero_point)
        return y.stored(value.clamp_(y.low, y.high))

    return apply


def _of_bounded(apply: Kernel, shift: Tensor) -> Kernel:
    """`apply` where the accumulators fit their shifts."""
    half = torch.ones((), dtype=torch.int64) << (shift - 1)

    def checked(acc: Tensor) -> Tensor:
        wide = acc.to(torch.int64)
        outside = (wide < -half) | (wide >= half)
        if outside.any():
            expected = f"within 2**(shift-1), with shifts from {int(shift.min())}"
            raise Unpredictable("RESCALE accumulator", int(wide[outside][0]), expected)
        return apply(acc)

    return checked


def _into_int32(apply: Kernel, multiplier: Tensor, shift: Tensor, y: Codes) -> Kernel:
    def checked(acc: Tensor) -> Tensor:
        exact = tosa_single_round(acc, multiplier, shift)
        require_within(exact, *INT32, "RESCALE result")
        require_within(exact.add_(y.zero_point), *INT32, "RESCALE result with its zero point")
        return apply(acc)

    return checked


def _column(values: Sequence[int]) -> Tensor:
    """A 0-d tensor when all values agree (scalar loops are faster), else one value per last index."""
    return torch.tensor(values[0] if len(set(values)) == 1 else list(values), dtype=torch.int64)
