"""How a row's operator is used: what the cases that all rows share are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npu_assay.conformance.cases.make import Call, Prefix, bare, behind_abs, model
from npu_assay.conformance.cases.pieces.spelling import IMAGE, spelled
from npu_assay.conformance.programs.graph import Graph

PRECISIONS = ("FP32", "STATIC_QUANT", "DYNAMIC_QUANT")
FLOAT = ("FP32",)
FLOAT_STATIC = ("FP32", "STATIC_QUANT")


@dataclass(frozen=True)
class FloatSubject:
    """How a row is used. `at` makes a call of a precision and a shape of `x`; `shape` is the usual one.

    config: the class that `configs` selects; supports: the config precisions that it has. empty: a shape
    without elements that torch takes; single: the smallest one. open: axes whose sizes may be open.
    integers: torch computes it on int32, too. as_float: a quantized use runs in floats when config_precisions
    names FP32 alone. product: it has quantized weights, so its activations must be quantized as well. converts:
    a quantized use is computed in floats between conversions, whatever the codes.
    """

    config: str
    at: Callable[[str, tuple[int, ...]], Call]
    supports: tuple[str, ...] = FLOAT
    shape: tuple[int, ...] = IMAGE
    single: tuple[int, ...] = (1, 1, 1, 1)
    empty: tuple[int, ...] = (0, 3, 4, 5)
    open: tuple[tuple[int, ...], ...] = ((0,), (0, 1, 2, 3))
    integers: bool = False
    as_float: bool = True
    product: bool = False
    converts: bool = False

    def call(self, precision: str) -> Call:
        """The usual call."""
        return self.at(precision, self.shape)


@dataclass(frozen=True)
class IntegerSubject:
    """How a row is used: `at` makes a call, in int8 or on plain integers, of a shape of `x`.

    shapes: others to try. open: the axes whose sizes may be open; None: there are none. deep: whether `at` takes any
    rank. elementwise: the output has the shape of `x`. plain: the result is no real number (a comparison's). idle:
    it computes nothing, and so stands behind an abs. unsigned: its operand must come from an abs.
    """

    at: Callable[[tuple[int, ...]], Call]
    shape: tuple[int, ...] = IMAGE
    shapes: tuple[tuple[int, ...], ...] = ()
    open: tuple[int, ...] | None = (0,)
    deep: bool = True
    elementwise: bool = False
    plain: bool = False
    idle: bool = False
    unsigned: bool = False

    @property
    def prefix(self) -> Prefix:
        """What stands in front of the operator."""
        return behind_abs if self.idle or self.unsigned else bare

    def call(self, precision: str, shape: tuple[int, ...] | None = None) -> Call:
        """The call in a precision, of the usual shape unless told otherwise."""
        return spelled(self.at(self.shape if shape is None else shape), precision)

    def model(self, u: Call) -> Graph:
        """The call as a model."""
        return model(u, self.prefix)
