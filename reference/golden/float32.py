"""How far float arithmetic may be from the real result: backward analysis.

A sum of n products is the exact sum of products that are each off by n roundings at most, so the inputs are
perturbed by that much and the golden's own propagation does the rest. What is computed in one operation is
rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden import special
from npu_assay.reference.golden.aten import bound, canonical
from npu_assay.reference.golden.bounded import ZERO, Bounded, GoldenError, beyond, operands
from npu_assay.reference.golden.operators import run
from npu_assay.reference.golden.special import either, has_subnormal, is_ordinary, settled
from npu_assay.reference.operators import Operator
from npu_assay.reference.operators.home import GOLDENS, INDICES, TRUTHS, loaded
from npu_assay.reference.operators.lookup import home

UNIT = 2.0**-24
"""Half the distance between float32 numbers at 1: the relative error of one rounding."""


@dataclass(frozen=True)
class Format:
    """A float type. unit: the relative error of one rounding. tiny: the absolute one, where it is larger.

    overflow: the smallest number that is rounded to infinity. smallest: operands below may be flushed to zero; 0: none.
    """

    unit: float
    tiny: float
    overflow: float
    smallest: float


FORMATS: Mapping[torch.dtype, Format] = MappingProxyType(
    {
        # Processors and kernels may flush what is below the normal range to zero.
        torch.float32: Format(UNIT, 2.0**-126, 2.0**128 - 2.0**103, 2.0**-126),
        torch.float16: Format(2.0**-11, 2.0**-24, 65520.0, 0.0),
        torch.bfloat16: Format(2.0**-8, 2.0**-126, 2.0**128 - 2.0**119, 2.0**-126),
        torch.float64: Format(2.0**-53, 2.0**-1022, math.inf, 2.0**-1022),
    }
)

_FEW = 3
"""Roundings to float16 after a sum in float32: of the sum and of its division; one more for their product."""
_TAPS = 9
HALF = 2
"""Bytes of a type of 16 bits."""


def run_float32(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Bounded, ...]:
    """`run_float` in float32."""
    return run_float(op, args, kwargs, torch.float32)


def run_float(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> tuple[Bounded, ...]:
    """`run`, with bounds that also hold the roundings of arithmetic in `dtype`. Errors as `run`.

    Operators that only move numbers do not round; the values still are numbers of that type. Numbers that are not
    finite, or too large for the type, are as `special` says.
    """
    results = _settled(op, args, kwargs, dtype)
    for other in _alternatives(op, args, kwargs, dtype):
        others = run_float(op, other, kwargs, dtype)
        results = tuple(either(y, z) for y, z in zip(results, others, strict=True))
    return results


def _settled(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> tuple[Bounded, ...]:
    form, results = FORMATS[dtype], _run_float(op, args, kwargs, dtype)
    exact = all(x.exact for x in operands((*args, *kwargs.values())))
    if all(is_ordinary(result, form.overflow) for result in results):
        return results
    plain = run(op, args, kwargs) if exact else (None,) * len(results)
    return tuple(settled(y, p, form.overflow) for y, p in zip(results, plain, strict=True))


def _alternatives(
    op: str, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype
) -> Iterator[tuple[Any, ...]]:
    """Other arguments that a device may compute with: flushed to zero, and an exponent rounded to the type.

    A large odd exponent becomes even by that. Raises GoldenError for one beyond 16 bits, which torch refuses.
    """
    smallest = FORMATS[dtype].smallest
    if smallest > 0 and has_subnormal(args, smallest):
        yield special.flushed(args, smallest)
    if canonical(op) == "aten.pow.Tensor_Scalar":
        x, exponent = bound(op, args, kwargs).values()
        held = float(torch.tensor(exponent, dtype=torch.float64).to(dtype))
        if math.isinf(held) and math.isfinite(exponent) and dtype.itemsize == HALF:
            raise GoldenError(f"exponent: found {exponent}, expected a number of {dtype}")
        if held != exponent and not math.isnan(held) and not kwargs:
            yield x, held


def _run_float(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> tuple[Bounded, ...]:
    own = home(canonical(op))
    if own is None:
        return run(op, args, kwargs)  # which tells what is wrong
    form = FORMATS[dtype]
    if own.result == INDICES:  # floats keep the order of operands that are known, and which are equal
        return run(op, args, kwargs)
    if own.result == TRUTHS:  # the operands may be rounded, the truth is not
        return run(op, args if _on_one_grid(args) else _converted(args, dtype), kwargs)
    if own.rounding:
        found: tuple[Bounded, ...] = loaded(own.rounding, GOLDENS)(op, args, kwargs, dtype)
        return found
    if own.moves:
        return tuple(_rounded(result, 0, form) for result in run(op, args, kwargs))
    if own.terms == 0 and kwargs.get("alpha", 1) == 1:
        return tuple(_rounded(result, 0, form) for result in run(op, _converted(args, dtype), kwargs))
    return _summed(own, args, kwargs, form)


def run_whole(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> tuple[Bounded, ...]:
    """`run`, for results of a type of whole numbers: made of whole numbers, they have no roundings.

    They wrap around as torch's do, in two's complement. Of a bool all but 0 is true, and its bits are one. Made of
    reals, they are as floats have them.
    """
    if not all(bool((x.value == x.value.trunc()).all()) for x in operands((*args, *kwargs.values()))):
        return run_float(op, args, kwargs, torch.float32)
    results = run(op, args, kwargs)
    if dtype == torch.int64:
        return results
    if _known(op).rounding == RESIZED:
        return tuple(Bounded(y.value, y.error + _OF_BYTES) for y in results)
    if dtype == torch.bool and not canonical(op).startswith(_OF_BITS):
        return tuple(Bounded((y.value != 0).double(), y.error, y.scale, y.axis) for y in results)
    least, count = (0, 2) if dtype == torch.bool else (torch.iinfo(dtype).min, 2 ** torch.iinfo(dtype).bits)
    return tuple(Bounded((y.value - least).remainder(count) + least, y.error, y.scale, y.axis) for y in results)


_OF_BITS = "aten.bitwise_"
RESIZED = "float32:resized"
_OF_BYTES = 1 + 2 * 255 * 2.0**-14
"""How far torch's bilinear images of bytes are off: a rounding along each axis, of two weights of 14 bits each."""


def _on_one_grid(args: tuple[Any, ...]) -> bool:
    """Whether all operands are exact, and on codes of one scale, which floats hold alike: what is equal stays so."""
    scales = {x.scale if isinstance(x, Bounded) and x.exact else None for x in args}
    return len(scales) == 1 and None not in scales


def _summed(own: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], form: Format) -> tuple[Bounded, ...]:
    """The operands are perturbed by as many roundings as a sum has terms."""
    count = _terms(own, args)
    return tuple(_rounded(result, count, form) for result in run(own.name, _perturbed(args, count, form), kwargs))


def chosen(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> tuple[Bounded, ...]:
    """Max pools: numbers are chosen, and the indices are exact."""
    first, *indices = run(op, args, kwargs)
    return (_rounded(first, 0, FORMATS[dtype]), *indices)


def wide(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> tuple[Bounded, ...]:
    """Means, whose kernels for float16, XNNPACK's and torch's, add up in float32; products may add up in float16."""
    computed = FORMATS[torch.float32 if dtype == torch.float16 else dtype]
    results = _summed(_known(op), args, kwargs, computed)
    if dtype != torch.float16:
        return results
    form = FORMATS[dtype]
    carried = _carried(op, args, kwargs, form)
    return tuple(Bounded(y.value, y.error + carried) for y in (_more(x, _FEW, _FEW, form) for x in results))


def resized(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> tuple[Bounded, ...]:
    """Bilinear resizes, whose positions are rounded, too."""
    own, form = _known(op), FORMATS[dtype]
    count, off = _terms(own, args), _misplaced(operands(args)[0], form)
    results = run(op, _perturbed(args, count, form), kwargs)
    return tuple(_rounded(Bounded(y.value, y.error + off), count, form) for y in results)


def _known(op: str) -> Operator:
    own = home(canonical(op))
    assert own is not None
    return own


def _carried(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], form: Format) -> Tensor:
    """What average pools of large windows lose: XNNPACK holds what it carries over from nine taps in float16.

    Each of these roundings is relative to a partial sum, which is at most the sum of the magnitudes.
    """
    if canonical(op) != "aten.avg_pool2d.default":
        return ZERO
    carries = (math.prod(_pair(args[1])) - 1) // _TAPS
    (sums,) = run(op, _magnitudes(args), kwargs)
    return sums.value * (carries * form.unit)


def _pair(size: Any) -> tuple[int, ...]:
    """One number for both axes, also in a list, or one for each."""
    return (*size, *size)[:2] if isinstance(size, list | tuple) else (size, size)


def _magnitudes(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(Bounded(arg.magnitude) if isinstance(arg, Bounded) else arg for arg in args)


def _misplaced(x: Bounded, form: Format) -> Tensor:
    """What rounded positions change: each up to its extent * 2 roundings off, between two neighbors, on two axes."""
    return x.magnitude.amax((-2, -1), keepdim=True) * (8 * max(x.value.shape[-2:]) * form.unit)


def quantise_float32(result: Bounded, step: float) -> Tensor:
    """Error bound in steps of x * (1 / scale) in float32: the product, the reciprocal and the scale itself.

    Of the largest x within the bound, which may be at a tie where the value itself is zero. Infinities saturate
    whatever the product's rounding, and of what may be anything every code is right: neither has a bound of its own.
    What is beyond every range has that of a smaller number beyond it.
    """
    magnitude = result.magnitude
    return magnitude.masked_fill(~magnitude.isfinite(), 0.0).clamp_max(beyond(step)) * (4 * UNIT / step)


def _terms(own: Operator, args: Sequence[Any]) -> int:
    """How many numbers an output element adds up, at most."""
    terms, found = own.terms, operands(args)
    if isinstance(terms, int):
        return terms or _OF_SUMS
    count: int = found[0].value.numel() if terms == "all" else loaded(terms, GOLDENS)(found)
    return count


_OF_SUMS = 4
"""What counts for a sum whose second operand is multiplied, which is more than one operation."""


def of_weights(found: Sequence[Bounded]) -> int:
    """Convolutions: the elements of one output channel's weights."""
    weight = found[1].value
    return weight.numel() // min(weight.shape[:2])


def of_linear(found: Sequence[Bounded]) -> int:
    """The last axis of the weights, whether or not a bias follows them."""
    return found[1].value.shape[-1]


def of_matrices(found: Sequence[Bounded]) -> int:
    """The longest last axis, one of which is summed over."""
    return max(x.value.shape[-1] for x in found)


def per_first(found: Sequence[Bounded]) -> int:
    """Elements per index of the first dimension; an empty tensor counts as having one index."""
    x = found[0].value
    return x.numel() // max(1, x.shape[0]) if x.dim() else 1


def _perturbed(argument: Any, count: int, form: Format) -> Any:
    """An argument with its operands off by `count` roundings; two more are the dequantization's."""
    if isinstance(argument, Bounded):
        error = argument.error + _rounding(argument.value, (count + 2) * form.unit)
        return Bounded(argument.value, error, argument.scale, argument.axis)
    if isinstance(argument, list | tuple):
        return tuple(_perturbed(item, count, form) for item in argument)
    return argument


def _converted(argument: Any, dtype: torch.dtype) -> Any:
    """An argument whose operands are off by two roundings where they are not numbers of the type already."""
    if isinstance(argument, Bounded):
        off = _rounding(argument.value, 2 * FORMATS[dtype].unit)
        held = (argument.value.to(dtype).to(torch.float64) == argument.value) | argument.value.isnan()
        if argument.exact and bool(held.all()):
            return argument
        return Bounded(argument.value, argument.error + off.masked_fill_(held, 0.0), argument.scale, argument.axis)
    if isinstance(argument, list | tuple):
        return tuple(_converted(item, dtype) for item in argument)
    return argument


def _rounding(value: Tensor, relative: float) -> Tensor:
    """How far numbers are off that are `relative` to their size; an infinity, as of a mask, and NaN are exact."""
    return (value.abs() * relative).masked_fill_(~value.isfinite(), 0.0)


def _rounded(result: Bounded, count: int, form: Format) -> Bounded:
    """The result with the roundings that are relative to itself: eight, and `count` for softmax's division."""
    return _more(result, count + 8, count + 1, form)


def _more(result: Bounded, relative: int, absolute: int, form: Format) -> Bounded:
    """The result with so many roundings relative to itself, and so many below the normal range."""
    error = result.value.abs() * (relative * form.unit) + absolute * form.tiny
    return Bounded(result.value, result.error + error)
