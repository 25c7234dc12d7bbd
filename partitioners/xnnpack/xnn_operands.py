"""Which types of operands, and which quantizations, each XNNPACK operator takes together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from npu_assay.partitioners.exir.flatbuffer import FormatError
from npu_assay.partitioners.xnnpack import xnn_schema as schema
from npu_assay.partitioners.xnnpack.xnn_model import PerChannel, PerTensor, XNode, XValue

FLOATS: Final = ("fp32", "fp16", "bf16")
SCALE_LIMIT: Final = 256.0
"""The float32 ratio input scale * filter scale / output scale of a product of codes stays below this."""

_Rule = Callable[[XNode, Sequence[XValue], XValue, str], None]


def check_operands(node: XNode, operands: Sequence[XValue], result: XValue, where: str) -> None:
    """Raise FormatError unless the operator takes these types together; absent operands are left out."""
    _RULES.get(node.op, _floats)(node, operands, result, where)


def _refuse(operands: Sequence[XValue], result: XValue, expected: str, where: str) -> FormatError:
    found = f"({', '.join(value.dtype for value in operands)}) to {result.dtype}"
    return FormatError("types", found, expected, where)


def _alike(operands: Sequence[XValue], result: XValue) -> bool:
    return {value.dtype for value in operands} == {result.dtype}


def _floats(node: XNode, operands: Sequence[XValue], result: XValue, where: str) -> None:
    if not _alike(operands, result) or result.dtype not in FLOATS:
        raise _refuse(operands, result, "one float type", where)


def _floats_or_codes(node: XNode, operands: Sequence[XValue], result: XValue, where: str) -> None:
    if not _alike(operands, result) or result.dtype not in (*FLOATS, "qint8"):
        raise _refuse(operands, result, "one float type or qint8", where)


def _moved(node: XNode, operands: Sequence[XValue], result: XValue, where: str) -> None:
    """Codes that only move keep their scale and zero point."""
    _floats_or_codes(node, operands, result, where)
    for value in operands:
        if value.quant != result.quant:
            raise FormatError("quantization of the result", result.quant, str(value.quant), where)


def _convert(node: XNode, operands: Sequence[XValue], result: XValue, where: str) -> None:
    kinds = (operands[0].dtype in FLOATS, result.dtype)
    if kinds not in ((True, "qint8"), (True, "qdint8"), (False, result.dtype)):
        raise _refuse(operands, result, "a float type to qint8 or qdint8, or qint8 to a float type", where)
    if not kinds[0] and (operands[0].dtype != "qint8" or result.dtype not in FLOATS):
        raise _refuse(operands, result, "qint8 to a float type", where)


# Types of (input, filter, result) and that of the bias; the filter of a convolution of floats is fp32.
_PRODUCTS: Final[Mapping[tuple[str, str, str], str]] = {
    ("fp32", "fp32", "fp32"): "fp32",
    ("qint8", "qint8", "qint8"): "qint32",
    ("qint8", "qcint8", "qint8"): "qcint32",
    **{("qdint8", "qcint8", result): "fp32" for result in ("fp32", "fp16")},
}
_FULLY_CONNECTED: Final[Mapping[tuple[str, str, str], str]] = {
    **_PRODUCTS,
    ("fp16", "fp16", "fp16"): "fp16",
    ("bf16", "bf16", "fp32"): "fp32",
    ("bf16", "bf16", "bf16"): "fp32",
    ("qint8", "qcint4", "qint8"): "qcint32",
    **{("qdint8", weights, result): "fp32" for weights in ("qcint4", "qbint4") for result in ("fp32", "fp16")},
}
_CONVOLUTION: Final[Mapping[tuple[str, str, str], str]] = {**_PRODUCTS, ("fp16", "fp32", "fp16"): "fp32"}


def _fully_connected(node: XNode, operands: Sequence[XValue], result: XValue, where: str) -> None:
    _product(_FULLY_CONNECTED, operands, result, where)
    if operands[1].dtype not in FLOATS and node.flags:
        raise FormatError("flags", hex(node.flags), "0 with quantized weights", where)
    _check_channels(operands, 0, where)


def _convolution(node: XNode, operands: Sequence[XValue], result: XValue, where: str) -> None:
    _product(_CONVOLUTION, operands, result, where)
    if operands[1].data is None:
        raise FormatError("filter", "computed", "a constant", where)
    if operands[0].dtype == "qdint8" and node.op == "DepthwiseConv2d":
        raise _refuse(operands, result, "no input quantized at run time", where)
    _check_channels(operands, len(operands[1].shape) - 1 if node.op == "DepthwiseConv2d" else 0, where)


def _product(table: Mapping[tuple[str, str, str], str], operands: Sequence[XValue], result: XValue, where: str) -> None:
    kinds = (operands[0].dtype, operands[1].dtype, result.dtype)
    if kinds not in table:
        raise _refuse(operands, result, "float, static or dynamic quantization throughout", where)
    if len(operands) > 2 and operands[2].dtype != table[kinds]:
        raise FormatError("type of the bias", operands[2].dtype, table[kinds], where)
    if operands[1].dtype not in FLOATS:
        _check_weights(operands, result, where)


def _check_weights(operands: Sequence[XValue], result: XValue, where: str) -> None:
    for value, what in zip(operands[1:], ("filter", "bias"), strict=False):
        if value.data is None:
            raise FormatError(what, "computed", "a constant", where)
    weights = operands[1].quant
    if isinstance(weights, PerTensor) and weights.zero_point:
        raise FormatError("zero point of the filter", weights.zero_point, "0", where)
    x, y = operands[0].quant, result.quant
    if isinstance(x, PerTensor) and isinstance(y, PerTensor) and isinstance(weights, (PerTensor, PerChannel)):
        scales = np.float32(weights.scale) if isinstance(weights, PerTensor) else weights.scales
        with np.errstate(over="ignore", under="ignore"):
            found = float(np.max(np.float32(x.scale) * scales / np.float32(y.scale)))
        if found >= SCALE_LIMIT:
            raise FormatError("input scale * filter scale / output scale", found, f"below {SCALE_LIMIT}", where)


def _check_channels(operands: Sequence[XValue], axis: int, where: str) -> None:
    """Scales per channel belong to the result's channels."""
    weights = operands[1].quant
    if isinstance(weights, PerChannel) and weights.axis != axis:
        raise FormatError("axis of the filter's scales", weights.axis, str(axis), where)


_RULES: Final[Mapping[str, _Rule]] = {
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Clamp", "GlobalAvgPooling2d"), _floats_or_codes),
    **dict.fromkeys(("Conv2d", "DepthwiseConv2d", "ConvTranspose2d"), _convolution),
    **dict.fromkeys(("StaticTranspose", "StaticReshape", "StaticSlice", "StaticConstantPad"), _moved),
    **dict.fromkeys(("MaxPooling2d", "Copy"), _moved),
    **dict.fromkeys((op for op in schema.OPERATORS if op.startswith("Concatenate")), _moved),
    "Convert": _convert,
    "FullyConnected": _fully_connected,
}
