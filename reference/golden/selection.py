"""Operators that compare, choose, count or look up: booleans are 0 and 1, indices whole numbers.

Where bounds leave open which way a comparison goes, the result is off by the whole difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.aten import aten
from npu_assay.reference.golden.bounded import ZERO, Bounded, GoldenError, as_bounded, errors, operands, values
from npu_assay.reference.operators.home import ByName

Rule = Callable[..., Bounded]

MOST_BITS = 32  # of an operand of a shift


def _open(value: Tensor, undecided: Tensor, inputs: Sequence[Bounded]) -> Bounded:
    """Booleans that are exact unless an input is not; then off by one where `undecided`."""
    numbers = value.to(torch.float64)
    exact = all(x.exact for x in inputs)
    return Bounded(numbers) if exact else Bounded(numbers, undecided.to(torch.float64).expand_as(numbers))


def comparison(function: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    """eq, ne, lt, le, gt, ge; of tensors, or a tensor and a number."""

    def run(x: Any, other: Any) -> Bounded:
        a, b = as_bounded(x), as_bounded(other)
        return _open(function(a.value, b.value), (a.value - b.value).abs() <= a.error + b.error, [a, b])

    return run


eq, ne, ge = comparison(torch.eq), comparison(torch.ne), comparison(torch.ge)
gt, le, lt = comparison(torch.gt), comparison(torch.le), comparison(torch.lt)


def logical(function: Callable[..., Tensor]) -> Rule:
    """logical_and, or, xor, not: anything but zero is true."""

    def run(*arguments: Bounded) -> Bounded:
        undecided = torch.zeros((), dtype=torch.bool)
        for x in arguments:
            undecided = undecided | ((x.error > 0) & (x.value.abs() <= x.error))
        return _open(function(*(x.value != 0 for x in arguments)), undecided, arguments)

    return run


logical_and, logical_not = logical(torch.logical_and), logical(torch.logical_not)
logical_or, logical_xor = logical(torch.logical_or), logical(torch.logical_xor)


def any_(x: Bounded, dim: Any = None, keepdim: bool = False) -> Bounded:
    """aten.any.default, .dim, .dims."""
    dims = list(range(x.value.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    value, undecided = x.value != 0, (x.error > 0) & (x.value.abs() <= x.error)
    if not dims:
        return _open(value, undecided, [x])
    return _open(value.any(dims, keepdim), undecided.expand_as(value).any(dims, keepdim), [x])


@ByName
def whole(op: str) -> Rule:
    """An operator on whole numbers, whose results nothing bounds when its operands are not exact."""
    function = aten(op)

    def run(*arguments: Any, **options: Any) -> Bounded:
        given = _whole(arguments)
        if "shift" in op:
            _check_amount(op, given[1])
        value = function(*given, **_whole(options)).to(torch.float64)
        if all(x.exact for x in operands(arguments)):
            return Bounded(value)
        return Bounded(value, torch.full_like(value, math.inf))

    return run


def _check_amount(op: str, amount: Any) -> None:
    """Raises GoldenError for a shift by a negative number of bits, or by more than there are."""
    bits = torch.as_tensor(amount)
    if bits.numel() and not bool(((bits >= 0) & (bits < MOST_BITS)).all()):
        raise GoldenError(
            f"{op}: found shifts from {int(bits.min())} to {int(bits.max())}, expected 0 to {MOST_BITS - 1}"
        )


def _whole(argument: Any) -> Any:
    """Tensors as int64, everything else as it is."""
    if isinstance(argument, Bounded):
        return argument.value.to(torch.int64)
    if isinstance(argument, dict):
        return {name: _whole(item) for name, item in argument.items()}
    if isinstance(argument, list | tuple):
        return [_whole(item) for item in argument]
    return argument


def where(condition: Bounded, a: Any, b: Any) -> Bounded:
    """aten.where.self, with broadcasting."""
    x, y = as_bounded(a), as_bounded(b)
    chosen = condition.value != 0
    value = torch.where(chosen, x.value, y.value)
    if condition.exact and x.exact and y.exact:
        return Bounded(value)
    open_ = (condition.error > 0) & (condition.value.abs() <= condition.error)  # what is not 0 chooses x
    apart = torch.where(open_, (x.value - y.value).abs() + torch.maximum(x.error, y.error), 0.0)
    return Bounded(value, torch.maximum(torch.where(chosen, x.error, y.error), apart).expand_as(value))


def masked_fill(x: Bounded, mask: Bounded, number: float) -> Bounded:
    """aten.masked_fill.Scalar."""
    return where(mask, float(number), x)


def clamp_tensor(x: Bounded, min: Any = None, max: Any = None) -> Bounded:
    """aten.clamp.Tensor: limits per element, either may be absent; the upper one wins."""
    value, error = x.value, x.error
    for limit, function in ((min, torch.maximum), (max, torch.minimum)):
        if limit is not None:
            bound = as_bounded(limit)
            value = function(value, bound.value)
            error = error if error is ZERO and bound.exact else torch.maximum(error, bound.error)
    return Bounded(value, error)


def extreme(function: Callable[..., Tensor]) -> Rule:
    """aten.amax.default, aten.amin.default: off by no more than the largest error."""

    def run(x: Bounded, dim: Any = (), keepdim: bool = False) -> Bounded:
        dims = [dim] if isinstance(dim, int) else list(dim)
        value = function(x.value, dims, keepdim)
        return Bounded(value) if x.exact else Bounded(value, torch.amax(x.spread(), dims, keepdim))

    return run


amax, amin = extreme(torch.amax), extreme(torch.amin)


@ByName
def summed(op: str) -> Rule:
    """A sum of some elements: errors add up as numbers do."""
    function = aten(op)

    def run(x: Bounded, *rest: Any, dtype: Any = None) -> Bounded:
        value = function(x.value, *values(rest))
        return Bounded(value) if x.exact else Bounded(value, function(x.spread().contiguous(), *values(rest)))

    return run


@ByName
def looked_up(op: str) -> Rule:
    """Elements of the first operand at whole-number indices, or put there; an index of its shape is a mask."""
    function = aten(op)
    along = op in ("aten.gather.default", "aten.index_select.default")

    def run(*arguments: Any, **options: Any) -> Bounded:
        found = list(arguments)
        at = 2 if along else 1
        found[at] = found[at].value.to(torch.int64) if along else _indices(found[at], found[0])
        if op == "aten.index_put.default":
            _check_once(op, found)
        value = function(*values(found), **options)
        exact = all(x.exact for x in operands(arguments))
        return Bounded(value) if exact else Bounded(value, function(*errors(found), **options))

    return run


def _check_once(op: str, found: Sequence[Any]) -> None:
    """Raises GoldenError when two numbers are put in the same place: torch leaves open which of them stays."""
    x, indices, accumulate = found[0].value, found[1], bool(found[3]) if len(found) > 3 else False
    places = torch.arange(x.numel()).reshape(x.shape)[tuple(slice(None) if i is None else i for i in indices)]
    if not accumulate and len(set(places.flatten().tolist())) < places.numel():
        raise GoldenError(f"{op}: found a place with more than one number, expected one for each")


def _indices(argument: Any, x: Bounded) -> Any:
    if isinstance(argument, Bounded):
        whole_numbers = argument.value.to(torch.int64)
        return whole_numbers != 0 if argument.value.shape == x.value.shape and x.value.dim() > 1 else whole_numbers
    return [_indices(item, x) for item in argument] if isinstance(argument, list | tuple) else argument


def copied(x: Bounded, source: Bounded, non_blocking: bool = False) -> Bounded:
    """aten.copy.default: the second operand, in the shape of the first."""
    value = source.value.expand_as(x.value)
    return Bounded(value) if source.exact else Bounded(value, source.spread().expand_as(x.value))


def pad(x: Bounded, pads: Sequence[int], mode: str = "constant", value: float | None = None) -> Bounded:
    """aten.pad.default: with a number, or with the image's own elements."""
    function = aten("aten.pad.default")
    padded = function(x.value, list(pads), mode, value)
    return Bounded(padded) if x.exact else Bounded(padded, function(x.spread().contiguous(), list(pads), mode))


@ByName
def constant(op: str) -> Rule:
    """Operators whose result depends on no numbers of a tensor: exact."""
    function = aten(op)

    def run(*arguments: Any, **options: Any) -> Bounded:
        kept = {name: item for name, item in options.items() if name not in ("dtype", "memory_format")}
        return Bounded(function(*values(arguments), **kept).to(torch.float64))

    return run


def quotient(x: Bounded, other: Any, *, rounding_mode: str | None = None) -> Bounded:
    """aten.div.Tensor_mode: rounded down or towards zero; off by one more where the bounds reach over a step."""
    divisor = as_bounded(other)
    value = torch.div(x.value, divisor.value, rounding_mode=rounding_mode)
    if x.exact and divisor.exact:
        return Bounded(value)
    least = divisor.value.abs() - divisor.error
    reach = (x.error + (x.value / divisor.value).abs() * divisor.error) / least
    return Bounded(value, torch.where(least > 0, reach + (rounding_mode is not None), math.inf).expand_as(value))
