"""Numbers that are not finite, or below the normal range: which class a result must have, NaN, an infinity, a number.

On operands that are known exactly the class is that of IEEE 754-2019 (clause 6: infinities and NaN; 7.2 to 7.4: invalid
operations, divisions by zero, overflow), in the order of computing that torch documents: maxima, minima, clamps and
pools pass NaN on. An element of a result is one of four:

- NaN or an infinity with a finite error: nothing else is right;
- a number with a finite error: only numbers are right;
- a number or an infinity with an infinite error: anything but NaN, as for the logarithm of what may be zero;
- NaN with an infinite error: anything, as for what may be 0 / 0, and where torch documents no order of computing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded, operands

Results = Sequence[Bounded]


def anything(result: Bounded, where: Tensor) -> Bounded:
    """The result, with nothing known of it where a mask says so."""
    if not bool(where.any()):
        return result
    value = torch.where(where, math.nan, result.value)
    return Bounded(value, torch.where(where, math.inf, result.spread()), result.scale, result.axis)


def unknown(golden: Bounded) -> Tensor:
    """Where anything is right."""
    return golden.value.isnan() & golden.error.isinf()


def other_class(real: Tensor, golden: Bounded) -> Tensor:
    """Where numbers, in the golden's shape, are of another class than they may be."""
    value, reaches_infinity = golden.value, golden.error.isinf()
    nan = torch.where(value.isnan(), ~real.isnan() & ~reaches_infinity, real.isnan())
    infinite = (value.isinf() | real.isinf()) & (value != real) & ~value.isnan() & ~real.isnan()
    return nan | (infinite & ~reaches_infinity)


def finite_part(golden: Bounded) -> Bounded:
    """The golden with an exact 0 in the place of what is not finite: its class is all that there is to compare."""
    special = ~golden.value.isfinite()
    if not bool(special.any()):
        return golden
    return Bounded(golden.value.masked_fill(special, 0.0), golden.spread().masked_fill(special, 0.0), golden.scale)


# ------------------------------------------------------------------------------------ results


def is_ordinary(result: Bounded, overflow: float) -> bool:
    """Whether all numbers stay below what a float type rounds to infinity."""
    return bool((result.value.abs() + result.error < overflow).all())  # false for NaN


def settled(result: Bounded, plain: Bounded | None, overflow: float) -> Bounded:
    """The result with the class of every element settled, of a type that rounds numbers from `overflow` on to infinity.

    plain: the same from operands without any error; None where they have one, and what is not finite is open.
    """
    value, finite = result.value, result.value.isfinite()
    error = torch.where(result.error.isnan(), math.inf, result.error).expand_as(value)
    sure = finite & (value.abs() - error >= overflow)
    error = torch.where(finite & (value.abs() + error >= overflow), math.inf, error)
    value = torch.where(sure, torch.copysign(torch.tensor(math.inf, dtype=value.dtype), value), value)
    made = Bounded(value, torch.where(sure | ~finite, 0.0, error), result.scale, result.axis)
    return anything(made, ~finite if plain is None else unknown(plain))


def either(kept: Bounded, flushed: Bounded) -> Bounded:
    """The result of operands below the normal range, which may be flushed to zero: of one or of the other."""
    other = other_class(flushed.value, Bounded(kept.value))
    apart = torch.where(other, math.inf, (kept.value - flushed.value).abs().nan_to_num(0.0))
    value = torch.where(other & kept.value.isinf(), flushed.value, kept.value)
    made = Bounded(value, kept.error + apart, kept.scale, kept.axis)
    return anything(made, other & (kept.value.isnan() | flushed.value.isnan()))


def has_subnormal(argument: Any, smallest: float) -> bool:
    """Whether some operand has numbers below the normal range."""
    return any(bool(((x.value != 0) & (x.value.abs() < smallest)).any()) for x in operands(argument))


def flushed(argument: Any, smallest: float) -> Any:
    """An argument whose numbers below the normal range are zeros of their sign."""
    if isinstance(argument, Bounded):
        value = torch.where(argument.value.abs() < smallest, argument.value * 0, argument.value)
        return Bounded(value, argument.error, argument.scale, argument.axis)
    if isinstance(argument, list | tuple):
        return tuple(flushed(item, smallest) for item in argument)
    return argument


# ------------------------------------------------------------------------------------ what torch leaves open


def at_minus_infinity(x: Tensor) -> Tensor:
    """For x * P(x) with P(-inf) = 0, torch documents the limit, 0, and computes infinity times zero, NaN."""
    return x == -math.inf


def beside_infinity(x: Tensor, dim: int) -> Tensor:
    """The rest of a softmax's row that holds +inf and no NaN: exp(x) / inf, which is 0, or exp(x - inf) / NaN."""
    row = (x == math.inf).any(dim, keepdim=True) & ~x.isnan().any(dim, keepdim=True)
    return row & (x != math.inf)


def between_infinities(nan: Tensor, result: Tensor) -> Tensor:
    """What a bilinear resize makes of infinities depends on how it is written: a + (b - a) * w, or a * (1 - w) + b * w.

    nan: how much of an element comes from NaN. result: the element, of which only NaN from NaN is certain.
    """
    return ~result.isfinite() & (nan == 0)
