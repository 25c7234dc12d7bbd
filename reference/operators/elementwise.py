"""Arithmetic of two tensors, and functions of each number."""

from __future__ import annotations

from typing import Any

from npu_assay.reference.operators.home import (
    FLOATING,
    LINES,
    NO_CODES,
    REAL,
    UNNAMED,
    Accuracy,
    Call,
    Codes,
    Kernels,
    Operator,
    Schemes,
    Shape,
    X,
    behind,
    call,
    function,
    real,
    tflite,
    tosa,
    weight,
    written,
    xnnpack,
)

LOOKED_UP = tosa("tosa_tables:function", "error_bound_tosa:looked_up")
OF_CONSTANT = tosa("tosa_tables:of_number", "error_bound_tosa:looked_up")
SMALLER = "error_bound_tosa:smaller_scale"


def _looked_up(name: str, golden: str, xnnpack: str = UNNAMED, tflite: Codes | str = UNNAMED, **more: Any) -> Operator:
    """A function of one number, which TOSA looks up."""
    return written(f"aten.{name}.default", golden, schemes=Schemes(tflite, LOOKED_UP, xnnpack), **more)


def _real(name: str, golden: str, *rest: Any, **more: Any) -> Operator:
    """As `_looked_up`, of a function whose results are no whole numbers."""
    return _looked_up(name, golden, *rest, dtype=FLOATING, **more)


POSITIVE = (0.05, 5.95)
SMALL = (-2.0, 2.0)


def _two(name: str, golden: str, *rest: Any, other: tuple[float, float] | None = None, **more: Any) -> Operator:
    """A function of two tensors of one shape."""

    def at(shape: Shape) -> Call:
        return call(X, real("y", shape, other), *rest)

    def spread(shape: Shape) -> Call:
        return call(X, weight("y", (*[1] * (len(shape) - 1), shape[-1]), other), *rest)

    return Operator(
        name,
        golden,
        at,
        shapes=LINES,
        elementwise=True,
        spellings=(("a_constant_row", spread),),
        schemes=NO_CODES,
        **more,
    )


ARITHMETIC = (
    written(
        "aten.add.Tensor",
        "elementwise:add",
        schemes=Schemes(
            tflite("elementwise:add", "error_bound:sum_"),
            tosa("tosa:add", "error_bound_tosa:sum_"),
            xnnpack("xnnpack:add", "error_bound_xnnpack:sum_"),
        ),
        terms=0,
        onnx="elementwise:plus",
    ),
    written(
        "aten.sub.Tensor",
        "elementwise:sub",
        schemes=Schemes(
            tflite("elementwise:sub", "error_bound:sum_"),
            tosa("tosa:sub", "error_bound_tosa:sum_"),
            xnnpack("xnnpack:sub", "error_bound_xnnpack:sum_"),
        ),
        terms=0,
        onnx="elementwise:less",
    ),
    written(
        "aten.mul.Tensor",
        "elementwise:mul",
        schemes=Schemes(tflite("elementwise:mul", "error_bound:product"), tosa("tosa:mul"), xnnpack("xnnpack:mul")),
        terms=0,
        onnx="Mul(self, other)",
    ),
    written(
        "aten.div.Tensor",
        "elementwise:div",
        schemes=Schemes(tflite("elementwise:div", "error_bound:quotient", operands=(True, False)), UNNAMED, REAL),
        dtype=FLOATING,
        terms=0,
        onnx="Div(self, other)",
    ),
    written(
        "aten.div.Tensor_mode",
        "selection:quotient",
        schemes=Schemes(UNNAMED, OF_CONSTANT, UNNAMED),
        without_onnx="a quotient that is rounded twice is one less where the first rounding is upwards",
    ),
    written(
        "aten.maximum.default",
        "functions:maximum",
        schemes=Schemes(tflite("elementwise:maximum"), tosa("tosa:maximum", SMALLER), REAL),
        terms=0,
        onnx="Max(self, other)",
    ),
    written(
        "aten.minimum.default",
        "functions:minimum",
        schemes=Schemes(tflite("elementwise:minimum"), tosa("tosa:minimum", SMALLER), REAL),
        terms=0,
        onnx="Min(self, other)",
    ),
    written(
        "aten.pow.Tensor_Scalar",
        "functions:pow_",
        schemes=Schemes(UNNAMED, LOOKED_UP, REAL),
        onnx="Pow(self, exponent)",
    ),
    written(
        "aten.pow.Tensor_Tensor",
        "transcendental:power",
        schemes=Schemes(UNNAMED, OF_CONSTANT, UNNAMED),
        onnx="Pow(self, exponent)",
    ),
    written(
        "aten.remainder.Scalar",
        "transcendental:remainder",
        schemes=Schemes(UNNAMED, LOOKED_UP, UNNAMED),
        without_onnx="Mod of floats has the sign of the dividend",
    ),
    written(
        "aten.remainder.Tensor",
        "transcendental:remainder_tensor",
        schemes=Schemes(UNNAMED, OF_CONSTANT, UNNAMED),
        without_onnx="Mod of floats has the sign of the dividend",
    ),
)

FUNCTIONS = (
    written(
        "aten.abs.default",
        "activation:abs_",
        schemes=Schemes(tflite("elementwise:abs_"), tosa("tosa:abs_"), REAL),
        on_grid=True,
        terms=0,
        onnx="Abs",
    ),
    written(
        "aten.neg.default",
        "activation:neg",
        schemes=Schemes(tflite("elementwise:neg", "error_bound:negation"), tosa("tosa:neg"), REAL),
        on_grid=True,
        terms=0,
        onnx="Neg",
    ),
    _real("acos", "transcendental:acos", onnx="Acos"),
    _real("acosh", "transcendental:acosh", onnx="Acosh"),
    _real("asin", "transcendental:asin", onnx="Asin"),
    _real("asinh", "transcendental:asinh", onnx="Asinh"),
    _real("atan", "transcendental:atan", onnx="Atan"),
    _real("atanh", "transcendental:atanh", onnx="Atanh"),
    _looked_up("ceil", "functions:ceil", REAL, terms=0, onnx="Ceil"),
    _real(  # the zeros of a reduced argument
        "cos", "functions:cos", REAL, kernels=Kernels(Accuracy(3, 1.7e-7), Accuracy(3)), onnx="Cos"
    ),
    _real("cosh", "transcendental:cosh", onnx="Cosh"),
    _real("erf", "transcendental:erf", without_onnx="onnx.reference computes erf in float32"),
    _real("erfinv", "transcendental:erfinv", without_onnx="ONNX has no inverse of erf"),
    _real(  # in float16 never below 2**-15
        "exp",
        "activation:exp",
        REAL,
        tflite("elementwise:exp", "error_bound:exponential"),
        kernels=Kernels(Accuracy(29), Accuracy(3, 3.1e-5)),
        onnx="Exp",
    ),
    _real("expm1", "transcendental:expm1", without_onnx="exp(x) - 1 loses what expm1 is there for"),
    _looked_up("floor", "functions:floor", REAL, terms=0, onnx="Floor"),
    _real(  # near 1
        "log",
        "functions:log",
        REAL,
        tflite("elementwise:log", "error_bound:logarithm"),
        kernels=Kernels(Accuracy(2, 1.2e-7), Accuracy(4, 2.0**-10)),
        onnx="Log",
    ),
    _real("log10", "transcendental:log10", onnx="apart.elementwise:log10"),
    _real("log1p", "transcendental:log1p", without_onnx="log(1 + x) loses what log1p is there for"),
    _real("reciprocal", "transcendental:reciprocal", onnx="Reciprocal"),
    _looked_up("round", "transcendental:round_", onnx="Round"),
    _real("rsqrt", "functions:rsqrt", REAL, kernels=Kernels(Accuracy(1), Accuracy(1)), onnx="elementwise:rsqrt"),
    _looked_up("sign", "transcendental:sign", onnx="Sign"),
    _real(  # the zeros of a reduced argument
        "sin", "functions:sin", REAL, kernels=Kernels(Accuracy(3, 2.0e-7), Accuracy(3)), onnx="Sin"
    ),
    _real("sinh", "transcendental:sinh", onnx="Sinh"),
    _real("tan", "transcendental:tan", onnx="Tan"),
)

ELEMENTWISE = (
    *ARITHMETIC,
    *FUNCTIONS,
    function(
        "aten.log2.default",
        "piecewise:log2",
        dtype=FLOATING,
        takes=POSITIVE,
        gives=(-4.5, 3.0),
        bounded=True,
        onnx="apart.elementwise:log2",
    ),
    function(
        "aten.logit.default",
        "piecewise:logit",
        0.01,
        dtype=FLOATING,
        takes=(0.0, 1.0),
        gives=(-4.6, 4.6),
        onnx="apart.elementwise:logit",
    ),
    function(
        "aten.sqrt.default",
        "functions:sqrt",
        dtype=FLOATING,
        takes=(0.0, 6.0),
        gives=(0.0, 2.5),
        bounded=True,
        kernels=Kernels(Accuracy(1.2), Accuracy(1)),
        onnx="Sqrt",
    ),
    function("aten.trunc.default", "piecewise:trunc", onnx="apart.elementwise:trunc"),
    function(
        "aten.add.Scalar", "elementwise:add", 1.5, spellings=(("alpha_2", behind(1.5, 2)),), onnx="elementwise:plus"
    ),
    function(
        "aten.sub.Scalar", "elementwise:sub", 1.5, spellings=(("alpha_2", behind(1.5, 2)),), onnx="elementwise:less"
    ),
    function(
        "aten.rsub.Scalar",
        "piecewise:taken_from",
        1.5,
        spellings=(("alpha_2", behind(1.5, 2)),),
        onnx="apart.elementwise:taken_from",
    ),
    function("aten.mul.Scalar", "elementwise:mul", 0.75, spellings=(("minus_2", behind(-2)),), onnx="Mul(self, other)"),
    function(
        "aten.div.Scalar",
        "elementwise:div",
        1.5,
        dtype=FLOATING,
        spellings=(("minus_2", behind(-2)),),
        onnx="Div(self, other)",
    ),
    Operator(
        "aten.div.Scalar_mode",
        "selection:quotient",
        behind(0.75, rounding_mode="floor"),
        shapes=LINES,
        elementwise=True,
        spellings=(("trunc", behind(0.75, rounding_mode="trunc")), ("by_minus_2", behind(-2.0, rounding_mode="floor"))),
        without_onnx="a quotient that is rounded twice is one less where the first rounding is upwards",
        schemes=NO_CODES,
    ),
    function(
        "aten.fmod.Scalar",
        "piecewise:fmod",
        1.75,
        spellings=(("minus_1.25", behind(-1.25)),),
        onnx="apart.elementwise:fmod",
    ),
    Operator(
        "aten.pow.Scalar",
        "piecewise:power_of",
        lambda shape: call(2.0, X),
        shapes=LINES,
        elementwise=True,
        takes=SMALL,
        gives=(0.0, 4.0),
        spellings=(("half", lambda shape: call(0.5, X)),),
        onnx="Pow(self, exponent)",
        schemes=NO_CODES,
    ),
    _two(
        "aten.atan2.default",
        "piecewise:atan2",
        dtype=FLOATING,
        gives=(-3.2, 3.2),
        without_onnx="ONNX has no angle of two numbers",
    ),
    _two("aten.fmod.Tensor", "piecewise:fmod", other=(0.75, 3.0), onnx="apart.elementwise:fmod"),
    _two(
        "aten.floor_divide.default",
        "piecewise:floor_divide",
        other=(0.75, 3.0),
        without_onnx="a quotient that is rounded twice is one less where the first rounding is upwards",
    ),
)
