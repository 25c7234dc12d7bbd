"""Operators that pick, average or move numbers: the operator itself, on the values and on the errors.

With coefficients of one sign, the bound of a sum of c_i * x_i is the magnitude of the sum of c_i * dx_i (negative where
an average has a negative divisor of its own), and the bound of one of several numbers is the largest of theirs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.aten import aten
from npu_assay.reference.golden.bounded import Bounded, errors, operands, values
from npu_assay.reference.operators import Operator

_IGNORED = frozenset({"dtype", "memory_format", "non_blocking"})
"""Arguments that choose a dtype or a memory format: they change no number, which stays one of float64."""


def itself(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Bounded, ...]:
    """The first result, or all pieces of one that has them. Indices and truths are exact."""
    function = aten(operator.name)
    kwargs = {name: item for name, item in kwargs.items() if name not in _IGNORED}
    made = [values(argument) for argument in args]
    off = [errors(argument) for argument in args]
    for place in operator.apart:
        made[place] = off[place] = made[place].to(torch.int64 if place in operator.whole else torch.bool)
    found = _pieces(function(*made, **values(kwargs)))
    if all(x.exact for x in operands((*args, *kwargs.values()))):
        return tuple(map(Bounded, found))
    bounds = _pieces(function(*off, **errors(kwargs)))
    return tuple(Bounded(value, bound.abs()) for value, bound in zip(found, bounds, strict=True))


def _pieces(result: Any) -> tuple[Tensor, ...]:
    """What an operator gives: a tensor, a list of them, or several results of which the first counts."""
    if isinstance(result, Tensor):
        return (result,)
    return (result[0],) if isinstance(result, tuple) else tuple(result)
