"""Numbers in float64, each with a bound on how far a backend may be from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Scale = float | tuple[float, ...]

ZERO = torch.zeros((), dtype=torch.float64)
"""The error of an exact tensor; recognized by identity, so that exact inputs cost no second run."""
MOST_STEPS = 2.0**40


def beyond(step: float) -> float:
    """A number for infinity: beyond every range of codes of this step, and small enough to calculate with."""
    return max(2.0**100, step * MOST_STEPS)


class GoldenError(ValueError):
    """A golden cannot be computed: an unknown operator, or operands that it does not take."""


@dataclass(frozen=True)
class Bounded:
    """Reals and their error bounds: what a backend computes lies within value +- error.

    value: float64. error: float64 >= 0 that broadcasts to value's shape, or `ZERO` when exact.
    scale: the quantization step that the values are multiples of, None for arbitrary reals; one
    number per index of `axis` when that is not None.
    """

    value: Tensor
    error: Tensor = ZERO
    scale: Scale | None = None
    axis: int | None = None

    @property
    def exact(self) -> bool:
        return self.error is ZERO

    @property
    def magnitude(self) -> Tensor:
        """The largest absolute values that the bounds allow."""
        return self.value.abs() if self.exact else self.value.abs() + self.error

    def spread(self) -> Tensor:
        """The error in the shape of the value."""
        return self.error.expand_as(self.value)


def values(argument: Any) -> Any:
    """An argument with every Bounded replaced by its value; tuples become lists."""
    if isinstance(argument, Bounded):
        return argument.value
    if isinstance(argument, list | tuple):
        return [values(item) for item in argument]
    return argument


def errors(argument: Any) -> Any:
    """An argument with every Bounded replaced by its error, in full shape; tuples become lists."""
    if isinstance(argument, Bounded):
        return argument.spread().contiguous()
    if isinstance(argument, list | tuple):
        return [errors(item) for item in argument]
    return argument


def operands(argument: Any) -> list[Bounded]:
    """Every Bounded inside an argument, in order."""
    if isinstance(argument, Bounded):
        return [argument]
    if isinstance(argument, list | tuple):
        return [found for item in argument for found in operands(item)]
    return []


def as_bounded(argument: Any) -> Bounded:
    """A number or tensor as an exact Bounded.

    Raises GoldenError for anything else.
    """
    if isinstance(argument, Bounded):
        return argument
    if isinstance(argument, Tensor | int | float):
        return Bounded(torch.as_tensor(argument, dtype=torch.float64))
    raise GoldenError(f"operand: found {type(argument).__name__}, expected a tensor or a number")


def monotone(function: Callable[[Tensor], Tensor], x: Bounded) -> Bounded:
    """A monotone element-wise function: the bound is the larger distance to the images of both ends."""
    y = function(x.value)
    if x.exact:
        return Bounded(y)
    above = (function(x.value + x.error) - y).abs_()
    return Bounded(y, torch.maximum(above, (function(x.value - x.error) - y).abs_()))
