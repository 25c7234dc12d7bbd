"""How far float arithmetic may be from the real result: backward analysis.

A sum of n products is the exact sum of products that are each off by n roundings at most, so the inputs are
perturbed by that much and the golden's own propagation does the rest. What is computed in one operation is
rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden import special
from npu_assay.reference.golden.aten import canonical
from npu_assay.reference.golden.bounded import Bounded, operands
from npu_assay.reference.golden.operators import moves, run
from npu_assay.reference.golden.special import either, has_subnormal, is_ordinary, settled
from npu_assay.reference.golden.weighted import POOLS
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

ONE_ROUNDING = frozenset(
    {
        "aten.abs.default",
        "aten.add.Tensor",
        "aten.ceil.default",
        "aten.clamp.default",
        "aten.div.Tensor",
        "aten.floor.default",
        "aten.hardtanh.default",
        "aten.maximum.default",
        "aten.minimum.default",
        "aten.mul.Tensor",
        "aten.neg.default",
        "aten.relu.default",
        "aten.relu6.default",
        "aten.sub.Tensor",
    }
)
"""Operators that IEEE floats compute in one operation, correctly rounded (a sum with alpha = 1)."""


WIDE = frozenset({"aten.mean.dim", "aten.avg_pool2d.default"})
"""Operators whose kernels for float16, XNNPACK's and torch's, add up in float32; products may add up in float16."""

_FEW = 3
"""Roundings to float16 behind a sum in float32: of the sum and of its division; one more for their product."""


def run_float32(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Bounded, ...]:
    """`run_float` in float32."""
    return run_float(op, args, kwargs, torch.float32)


def run_float(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> tuple[Bounded, ...]:
    """`run`, with bounds that also hold the roundings of arithmetic in `dtype`. Errors as `run`.

    Operators that only move numbers do not round; the values still are numbers of that type. Numbers that are not
    finite, or too large for the type, are as `special` says.
    """
    form, results = FORMATS[dtype], _run_float(op, args, kwargs, dtype)
    exact = all(x.exact for x in operands((*args, *kwargs.values())))
    subnormal = exact and form.smallest > 0 and has_subnormal(args, form.smallest)
    if not subnormal and all(is_ordinary(result, form.overflow) for result in results):
        return results
    plain = run(op, args, kwargs) if exact else (None,) * len(results)
    results = tuple(settled(y, p, form.overflow) for y, p in zip(results, plain, strict=True))
    if not subnormal:
        return results
    others = run_float(op, special.flushed(args, form.smallest), kwargs, dtype)
    return tuple(either(y, other) for y, other in zip(results, others, strict=True))


def _run_float(op: str, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> tuple[Bounded, ...]:
    form = FORMATS[dtype]
    if canonical(op) in POOLS:
        first, *indices = run(op, args, kwargs)
        return (_rounded(first, 0, form), *indices)
    if moves(canonical(op)):
        return tuple(_rounded(result, 0, form) for result in run(op, args, kwargs))
    if canonical(op) in ONE_ROUNDING and kwargs.get("alpha", 1) == 1:
        return tuple(_rounded(result, 0, form) for result in run(op, _converted(args, dtype), kwargs))
    if canonical(op) in WIDE and dtype == torch.float16:
        return tuple(_more(result, _FEW, _FEW, form) for result in _run_float(op, args, kwargs, torch.float32))
    count = _terms(op, args)
    results = run(op, _perturbed(args, count, form), kwargs)
    if canonical(op) == "aten.upsample_bilinear2d.vec":
        results = tuple(Bounded(y.value, y.error + _misplaced(operands(args)[0], form)) for y in results)
    return tuple(_rounded(result, count, form) for result in results)


def _misplaced(x: Bounded, form: Format) -> Tensor:
    """What rounded positions change: each up to its extent * 2 roundings off, between two neighbours, on two axes."""
    return x.magnitude.amax((-2, -1), keepdim=True) * (8 * max(x.value.shape[-2:]) * form.unit)


def quantise_float32(result: Bounded, step: float) -> Tensor:
    """Slack in steps of x * (1 / scale) in float32: the product, the reciprocal and the scale itself.

    Of the largest x within the bound, which may be at a tie where the value itself is zero.
    """
    return result.magnitude * (4 * UNIT / step)


def _terms(op: str, args: Sequence[Any]) -> int:
    """How many numbers an output element adds up, at most."""
    name, found = canonical(op), operands(args)
    if name in ("aten.convolution.default", "aten.conv1d.default", "aten.conv2d.default"):
        weight = found[1].value
        return weight.numel() // min(weight.shape[:2])
    if name in (
        "aten.mm.default",
        "aten.bmm.default",
        "aten.linear.default",
        "aten.matmul.default",
        "aten.addmm.default",
    ):
        return found[-1].value.shape[-1] if name == "aten.linear.default" else max(x.value.shape[-1] for x in found)
    if name in ("aten.mean.dim", "aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten._softmax.default"):
        return _per_first(found[0].value)
    own = home(name)
    terms = 4 if own is None else own.terms
    return terms if isinstance(terms, int) else found[0].value.numel()


def _per_first(x: Tensor) -> int:
    """Elements per index of the first dimension; an empty tensor counts as having one index."""
    return x.numel() // max(1, x.shape[0]) if x.dim() else 1


def _perturbed(argument: Any, count: int, form: Format) -> Any:
    """An argument with its operands off by `count` roundings; two more are the dequantisation's."""
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
