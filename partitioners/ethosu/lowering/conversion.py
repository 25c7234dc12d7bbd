"""Conversions between types, and between codes and numbers."""

from __future__ import annotations

import torch

from npu_assay.partitioners.ethosu.lowering.model import LIMITS
from npu_assay.partitioners.ethosu.lowering.operation import Operation
from npu_assay.partitioners.ethosu.lowering.values import FLOAT, Value, mapped
from npu_assay.partitioners.exir.nodes import value as value_of
from npu_assay.partitioners.exir.qdq import QParams

_CODES = {"INT8": torch.int8, "INT16": torch.int16, "INT32": torch.int32}


def dequantize(operation: Operation) -> Value:
    """Codes as the numbers that they stand for -> nothing."""
    return operation.ctx.numbers(operation.node)


def quantize(operation: Operation) -> Value:
    """Numbers as codes -> RESCALE, where they have others yet."""
    return operation.ctx.codes(operation.node)


def to_copy(operation: Operation) -> Value:
    """dim_order_ops._to_dim_order_copy between integers -> CAST; to numbers: codes of scale 1, zero point 0."""
    x, found = operation.first, value_of(operation.node)
    assert found is not None
    if x.dtype == FLOAT:
        return x
    operation.require(x.quant is None, "operand", "quantized numbers", "integers")
    if found.is_floating_point():
        return _numbers(operation, x)
    dtype = operation.dtype
    if x.dtype == dtype:
        return x
    return mapped(operation.model, x, operation.node.name, lambda tensor: operation.integers(tensor, dtype))


def _numbers(operation: Operation, x: Value) -> Value:
    if x.dtype == "BOOL":
        x = mapped(operation.model, x, operation.node.name, lambda tensor: operation.integers(tensor, "INT8"))
    return x.seen_as(QParams(1.0, 0, *LIMITS[x.dtype], _CODES[x.dtype]))
