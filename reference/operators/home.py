"""What the suite knows of an operator, in one place: its home.

A home is data. Nothing here imports torch, so that cases are made, and tables read, without it; the golden is named and
loaded by what judges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

Shape = tuple[int, ...]
IMAGE: Shape = (1, 3, 4, 5)
GOLDENS = "npu_assay.reference.golden"
REALS, TRUTHS, INDICES = "reals", "truths", "indices"


@dataclass(frozen=True)
class Operand:
    """A tensor that an operator is applied to.

    shape: None for that of the first operand, `X`. holds: "reals", "truths" (0 and 1) or "indices". constant: part of
    the model, as weights are. numbers: what it holds, again from the start when they run out; () for any.
    within: the smallest and largest real that it may hold; None for any.
    """

    name: str
    shape: Shape | None = None
    holds: str = REALS
    constant: bool = False
    numbers: tuple[float, ...] = ()
    within: tuple[float, float] | None = None


X = Operand("x")
"""The first operand, in the shape that is asked for."""


def real(name: str, shape: Shape, within: tuple[float, float] | None = None) -> Operand:
    """An input of real numbers."""
    return Operand(name, shape, within=within)


def weight(name: str, shape: Shape, within: tuple[float, float] | None = None) -> Operand:
    """A constant of real numbers."""
    return Operand(name, shape, constant=True, within=within)


def indices(name: str, shape: Shape, *numbers: int) -> Operand:
    """Whole numbers, repeated from the start when they run out."""
    return Operand(name, shape, INDICES, numbers=tuple(map(float, numbers)))


def truths(name: str, shape: Shape) -> Operand:
    """Ones and zeros in an order that no stride repeats."""
    return Operand(name, shape, TRUTHS, numbers=(1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0))


@dataclass(frozen=True)
class Call:
    """The arguments of one application: numbers, tuples for lists, `Operand`s for tensors."""

    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()


def call(*args: Any, **kwargs: Any) -> Call:
    """A call with these arguments."""
    return Call(args, tuple(kwargs.items()))


def alone(shape: Shape) -> Call:
    """The operator on `X` and nothing else."""
    return call(X)


def behind(*rest: Any, **kwargs: Any) -> Callable[[Shape], Call]:
    """The operator on `X` and these arguments, whatever the shape."""
    return lambda shape: call(X, *rest, **kwargs)


Range = tuple[float, float]


@dataclass(frozen=True)
class Operator:
    """An operator of torch, ATen's or of a library of somebody's own.

    name: `namespace.operator.overload`, as tables spell it.
    golden: the operator in float64 with bounds. It gets the arguments of the call, tensors as
        `npu_assay.reference.golden.Bounded`, and returns one, or a tuple of them. The suite's own are named,
        "module:function" of `npu_assay.reference.golden`, which imports torch. None: the operator itself, on the values
        and on the errors, as for all that picks, averages or moves numbers.
    at: the operator's arguments for an `X` of a shape. shape: the plain one. shapes: others, of other ranks and sizes.
    spellings: other arguments by name, for the plain shape.
    takes, gives: the reals that `X` and the result have, which quantisations are chosen for; None: about -6.5 to 6.2.
    bounded: whether `X` may hold no reals but those within `takes`.
    result: "reals", "truths" or "indices" (which nobody quantises).
    moves: every element of the result is one of an operand's, or zero: nothing is rounded.
    elementwise: the result has the shape of `X`, each element made of the one at its place.
    terms: how many numbers an element of the result adds up, "all" for those of the first operand.
    integers, half, empty: whether torch computes it on whole numbers, on float16, on no elements along axis 0.
    onnx: the ONNX operator that computes it of its first argument, or "module:function" of `npu_assay.reference`, which
        makes it of several. without_onnx: why there is none.
    large: a shape of more than 4096 elements; (): the plain one, with the last axis but one as long as that takes.
    """

    name: str
    golden: Callable[..., Any] | str | None
    at: Callable[[Shape], Call] = alone
    shape: Shape = IMAGE
    shapes: tuple[Shape, ...] = ()
    spellings: tuple[tuple[str, Callable[[Shape], Call]], ...] = ()
    takes: Range | None = None
    gives: Range | None = None
    bounded: bool = False
    result: str = REALS
    moves: bool = False
    elementwise: bool = False
    terms: int | str = 4
    integers: bool = False
    half: bool = True
    empty: bool = True
    onnx: str = ""
    without_onnx: str = ""
    large: Shape = ()

    @cached_property
    def function(self) -> Callable[..., Any] | None:
        """The golden itself, loaded where it is only named."""
        if self.golden is None or callable(self.golden):
            return self.golden
        return self.loaded(self.golden, GOLDENS)

    @staticmethod
    def loaded(named: str, package: str) -> Callable[..., Any]:
        """The function that is named "module:function" of a package."""
        module, _, function = named.partition(":")
        found: Callable[..., Any] = getattr(import_module(f"{package}.{module}"), function)
        return found

    @cached_property
    def whole(self) -> frozenset[int]:
        """The positions of arguments that are indices."""
        return self._places(INDICES)

    @cached_property
    def apart(self) -> frozenset[int]:
        """The positions of arguments that are indices or truths."""
        return self._places(INDICES, TRUTHS)

    def _places(self, *kinds: str) -> frozenset[int]:
        given = enumerate(self.at(self.shape).args)
        return frozenset(place for place, each in given if isinstance(each, Operand) and each.holds in kinds)
