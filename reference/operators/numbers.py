"""Functions of each number: of it alone, of it and a number that is given, of two numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npu_assay.reference.operators.home import TRUTHS, Call, Operator, Shape, X, behind, call, real, weight

LINES: tuple[Shape, ...] = ((7,), (3, 5), (2, 3, 4), (2, 3, 2, 3, 2))
POSITIVE = (0.05, 5.95)
SMALL = (-2.0, 2.0)


def _function(name: str, golden: str, *rest: Any, **more: Any) -> Operator:
    """A function of one number, `rest` behind it."""
    return Operator(name, golden, behind(*rest), shapes=LINES, elementwise=True, **more)


def _with(*rest: Any, **kwargs: Any) -> Callable[[Shape], Call]:
    return behind(*rest, **kwargs)


def _two(name: str, golden: str, *rest: Any, other: tuple[float, float] | None = None, **more: Any) -> Operator:
    """A function of two tensors of one shape."""

    def at(shape: Shape) -> Call:
        return call(X, real("y", shape, other), *rest)

    def spread(shape: Shape) -> Call:
        return call(X, weight("y", (*[1] * (len(shape) - 1), shape[-1]), other), *rest)

    return Operator(name, golden, at, shapes=LINES, elementwise=True, spellings=(("a_constant_row", spread),), **more)


NUMBERS = (
    _function(
        "aten.hardshrink.default",
        "bends:hardshrink",
        spellings=(("lambd_1.25", _with(1.25)),),
        onnx="onnx_forms:hardshrink",
    ),
    _function("aten.isinf.default", "bends:isinf", result=TRUTHS, onnx="IsInf"),
    _function("aten.isnan.default", "bends:isnan", result=TRUTHS, onnx="IsNaN"),
    _function(
        "aten.log2.default", "bends:log2", takes=POSITIVE, gives=(-4.5, 3.0), bounded=True, onnx="onnx_forms:log2"
    ),
    _function("aten.logit.default", "bends:logit", 0.01, takes=(0.0, 1.0), gives=(-4.6, 4.6), onnx="onnx_forms:logit"),
    _function("aten.mish.default", "bends:mish", onnx="onnx_forms:mish"),
    _function(
        "aten.softplus.default",
        "bends:softplus",
        spellings=(("beta_2", _with(2.0)),),
        gives=(0.0, 6.5),
        onnx="onnx_forms:softplus",
    ),
    _function(
        "aten.softshrink.default",
        "bends:softshrink",
        spellings=(("lambd_1.25", _with(1.25)),),
        onnx="onnx_forms:softshrink",
    ),
    _function("aten.sqrt.default", "functions:sqrt", takes=(0.0, 6.0), gives=(0.0, 2.5), bounded=True, onnx="Sqrt"),
    _function("aten.trunc.default", "bends:trunc", onnx="onnx_forms:trunc"),
    _function("aten.add.Scalar", "linear:add", 1.5, spellings=(("alpha_2", _with(1.5, 2)),), onnx="onnx_forms:plus"),
    _function("aten.sub.Scalar", "linear:sub", 1.5, spellings=(("alpha_2", _with(1.5, 2)),), onnx="onnx_forms:less"),
    _function(
        "aten.rsub.Scalar",
        "bends:taken_from",
        1.5,
        spellings=(("alpha_2", _with(1.5, 2)),),
        onnx="onnx_forms:taken_from",
    ),
    _function("aten.mul.Scalar", "linear:mul", 0.75, spellings=(("minus_2", _with(-2)),), onnx="onnx_forms:times"),
    _function("aten.div.Scalar", "linear:div", 1.5, spellings=(("minus_2", _with(-2)),), onnx="onnx_forms:over"),
    Operator(
        "aten.div.Scalar_mode",
        "selection:quotient",
        _with(0.75, rounding_mode="floor"),
        shapes=LINES,
        elementwise=True,
        spellings=(("trunc", _with(0.75, rounding_mode="trunc")), ("by_minus_2", _with(-2.0, rounding_mode="floor"))),
        without_onnx="a quotient that is rounded twice is one less where the first rounding is upwards",
    ),
    _function(
        "aten.fmod.Scalar", "bends:fmod", 1.75, spellings=(("minus_1.25", _with(-1.25)),), onnx="onnx_forms:fmod"
    ),
    Operator(
        "aten.pow.Scalar",
        "bends:power_of",
        lambda shape: call(2.0, X),
        shapes=LINES,
        elementwise=True,
        takes=SMALL,
        gives=(0.0, 4.0),
        spellings=(("half", lambda shape: call(0.5, X)),),
        onnx="onnx_forms:power_of",
    ),
    _function(
        "aten.fill.Scalar", "placing:filled", 1.5, spellings=(("zero", _with(0.0)),), without_onnx="nothing is computed"
    ),
    _two("aten.atan2.default", "bends:atan2", gives=(-3.2, 3.2), without_onnx="ONNX has no angle of two numbers"),
    _two("aten.fmod.Tensor", "bends:fmod", other=(0.75, 3.0), onnx="onnx_forms:fmod"),
    _two(
        "aten.floor_divide.default",
        "bends:floor_divide",
        other=(0.75, 3.0),
        without_onnx="a quotient that is rounded twice is one less where the first rounding is upwards",
    ),
)
"""Of one number, of it and a given one, of two. Given numbers are no whole ones, which have another type."""
