"""How far float32 arithmetic between dequantize and quantize may be from the real result: backward analysis.

A float32 sum of n products is the exact sum of products that are each off by n roundings at most, so the
inputs are perturbed by that much and the golden's own propagation does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from reference.golden.aten import canonical
from reference.golden.bounded import Bounded, operands
from reference.golden.operators import run
from reference.golden.weighted import MOVEMENT, POOLS

UNIT = 2.0**-24
"""Half the distance between float32 numbers at 1: the relative error of one rounding."""


def run_float32(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Bounded, ...]:
    """`run`, with bounds that also hold float32's roundings. Errors as `run`.

    Operators that only move numbers do not round; the values still are float32 numbers.
    """
    if canonical(op) in POOLS:
        first, *indices = run(op, args, kwargs)
        return (_rounded(first, 0), *indices)
    if canonical(op) in MOVEMENT:
        return tuple(_rounded(result, 0) for result in run(op, args, kwargs))
    count = _terms(op, args)
    results = run(op, _perturbed(args, count), kwargs)
    if canonical(op) == "aten.upsample_bilinear2d.vec":
        results = tuple(Bounded(y.value, y.error + _misplaced(operands(args)[0])) for y in results)
    return tuple(_rounded(result, count) for result in results)


def _misplaced(x: Bounded) -> Tensor:
    """What float32 positions change: each up to its extent * 2 roundings off, between two neighbours, on two axes."""
    return x.magnitude.amax((-2, -1), keepdim=True) * (8 * max(x.value.shape[-2:]) * UNIT)


def quantise_float32(result: Bounded, step: float) -> Tensor:
    """Slack in steps of x * (1 / scale) in float32: the product, the reciprocal and the scale itself."""
    return result.value.abs() * (4 * UNIT / step)


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
    return 4


def _per_first(x: Tensor) -> int:
    """Elements per index of the first dimension; an empty tensor counts as having one index."""
    return x.numel() // max(1, x.shape[0]) if x.dim() else 1


def _perturbed(argument: Any, count: int) -> Any:
    """An argument with its operands off by `count` roundings; two more are the dequantisation's."""
    if isinstance(argument, Bounded):
        error = argument.error + argument.value.abs() * ((count + 2) * UNIT)
        return Bounded(argument.value, error, argument.scale, argument.axis)
    if isinstance(argument, list | tuple):
        return tuple(_perturbed(item, count) for item in argument)
    return argument


def _rounded(result: Bounded, count: int) -> Bounded:
    """The result with the roundings that are relative to itself: eight, and `count` for softmax's division."""
    return Bounded(result.value, result.error + result.value.abs() * ((count + 8) * UNIT))
