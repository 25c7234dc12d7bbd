"""Tensors that hold what the program says: ranges, one number everywhere, codes and what they stand for."""

from __future__ import annotations

from npu_assay.reference.operators.home import (
    FIRST,
    JOINED,
    NO_CODES,
    UNNAMED,
    Operator,
    Schemes,
    behind,
    function,
    tosa,
    written,
)


def _made(name: str, dtype: str = JOINED) -> Operator:
    """A tensor that depends on no other's numbers."""
    schemes = Schemes(UNNAMED, tosa("tosa:full"), UNNAMED)
    return written(name, "selection:constant", schemes=schemes, dtype=dtype, without_onnx="nothing is computed")


QUANTIZING = "it stands between reals and codes; each scheme's own quantize says what its codes are"


CREATION = (
    _made("aten.arange.start_step"),
    _made("aten.eye.default"),
    _made("aten.full.default"),
    _made("aten.full_like.default", FIRST),
    _made("aten.linspace.default"),
    _made("aten.scalar_tensor.default"),
    written(
        "quantized_decomposed.quantize_per_tensor.default",
        "functions:quantize",
        schemes=Schemes(QUANTIZING, QUANTIZING, QUANTIZING),
        without_onnx="QuantizeLinear keeps scales in float32 and adds zero points before it saturates",
    ),
    written(
        "quantized_decomposed.dequantize_per_tensor.default",
        "functions:dequantize",
        schemes=Schemes(QUANTIZING, QUANTIZING, QUANTIZING),
        without_onnx="DequantizeLinear computes in float32",
    ),
    function(
        "aten.fill.Scalar",
        "scatter:filled",
        1.5,
        spellings=(("zero", behind(0.0)),),
        without_onnx="nothing is computed",
    ),
    Operator(
        "aten.ones_like.default",
        "scatter:ones_like",
        elementwise=True,
        without_onnx="nothing is computed",
        schemes=NO_CODES,
    ),
    Operator(
        "aten.zeros_like.default",
        "scatter:zeros_like",
        moves=True,
        elementwise=True,
        without_onnx="nothing is computed",
        schemes=NO_CODES,
    ),
)
