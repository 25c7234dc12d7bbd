"""How a row's operator is used: what the cases that all rows share are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npu_assay.conformance.cases.make import Call, Prefix, bare, model
from npu_assay.conformance.cases.permitted import Shape
from npu_assay.conformance.cases.pieces.spelling import IMAGE
from npu_assay.conformance.programs.graph import Graph

PRECISIONS = ("FP32", "STATIC_QUANT", "DYNAMIC_QUANT")
FLOAT = ("FP32",)
FLOAT_STATIC = ("FP32", "STATIC_QUANT")


@dataclass(frozen=True)
class Config:
    """What XNNPACK's partitioner knows an operator by, for tables that have its options.

    name: the class that `configs` selects. supports: the config precisions that it has. as_float: whether a quantized
    call runs in floats when config_precisions names FP32 alone. converts: whether it always does, between
    conversions, whatever the codes.
    """

    name: str
    supports: tuple[str, ...] = FLOAT
    as_float: bool = True
    converts: bool = False


NONE = Config("", ())
SINGLE = (1, 1, 1, 1)


@dataclass(frozen=True)
class Subject:
    """How a row is used: `at` makes a call in a precision, of a shape of `x`; `shape` is the usual one.

    shapes: others to try. single: the smallest one. empty: one without elements that torch takes. open: groups of axes
    whose sizes may be open. deep: whether `at` takes any rank. elementwise: the result has the shape of `x`. reals:
    whether the result is a real number, as no comparison's is. whole: whether torch computes it on int32, too. product:
    whether it has quantized weights, so that its activations must be quantized as well. prefix: what makes `x`: an abs,
    for an operator that computes nothing or takes no negative numbers.
    """

    at: Callable[[str, Shape], Call]
    shape: Shape = IMAGE
    shapes: tuple[Shape, ...] = ()
    single: Shape = SINGLE
    empty: Shape = (0, 3, 4, 5)
    open: tuple[Shape, ...] = ((0,), (0, 1, 2, 3))
    deep: bool = True
    elementwise: bool = False
    reals: bool = True
    whole: bool = False
    product: bool = False
    prefix: Prefix = bare
    config: Config = NONE

    def call(self, precision: str, shape: Shape | None = None) -> Call:
        """The call in a precision, of the usual shape unless told otherwise."""
        return self.at(precision, self.shape if shape is None else shape)

    def model(self, u: Call) -> Graph:
        """The call as a model."""
        return model(u, self.prefix)
