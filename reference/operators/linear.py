"""Products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npu_assay.reference.operators.home import (
    NO_CODES,
    REAL,
    UNNAMED,
    Call,
    Operator,
    Schemes,
    Shape,
    X,
    call,
    real,
    tflite,
    tosa,
    weight,
    written,
    xnnpack,
)

PRODUCT = "error_bound:product"


def _attention(*rest: Any, **kwargs: Any) -> Callable[[Shape], Call]:
    def at(shape: Shape) -> Call:
        longer = (*shape[:-2], shape[-2] + (0 if rest else 2), shape[-1])
        return call(X, real("k", longer), real("v", longer), *rest, **kwargs)

    return at


def _masked_attention(shape: Shape) -> Call:
    return call(X, real("k", shape), real("v", shape), weight("mask", (shape[-2], shape[-2])))


LINEAR = (
    written(
        "aten.mm.default",
        "linear:matmul",
        schemes=Schemes(tflite("linear:matmul", PRODUCT), tosa("tosa:matmul", "error_bound_tosa:product"), UNNAMED),
        terms="float32:of_matrices",
        onnx="MatMul(self, mat2)",
    ),
    written(
        "aten.bmm.default",
        "linear:matmul",
        schemes=Schemes(tflite("linear:bmm", PRODUCT), tosa("tosa:matmul", "error_bound_tosa:product"), REAL),
        terms="float32:of_matrices",
        onnx="MatMul(self, mat2)",
    ),
    written(
        "aten.matmul.default",
        "linear:matmul",
        schemes=NO_CODES,
        terms="float32:of_matrices",
        onnx="MatMul(self, other)",
    ),
    written(
        "aten.addmm.default",
        "linear:addmm",
        schemes=Schemes(tflite("linear:addmm", "error_bound:addmm"), UNNAMED, UNNAMED),
        terms="float32:of_matrices",
        onnx="linear:addmm",
    ),
    written(
        "aten.linear.default",
        "linear:linear",
        schemes=Schemes(
            tflite("linear:linear", PRODUCT),
            tosa("tosa_linear:linear", "error_bound_tosa:product"),
            xnnpack("xnnpack:linear", "error_bound_xnnpack:product", operands=(True, True, False)),
        ),
        terms="float32:of_linear",
        dynamic="reals:linear",
        onnx="linear:linear",
    ),
    Operator(
        "aten.scaled_dot_product_attention.default",
        "attention:attention",
        _attention(),
        (1, 2, 5, 8),
        ((2, 4, 8),),
        (
            ("causal", _attention(None, 0.0, True)),
            ("masked", _masked_attention),
            ("scaled", _attention(None, 0.0, False, scale=0.25)),
        ),
        takes=(-2.0, 2.0),
        terms="all",
        onnx="apart.layout:attention",
        schemes=NO_CODES,
    ),
)
