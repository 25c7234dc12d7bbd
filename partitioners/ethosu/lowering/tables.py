"""Functions of one number -> TABLE: torch itself computes the entries, in float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from npu_assay.partitioners.ethosu.lowering.context import CODES
from npu_assay.partitioners.ethosu.lowering.operation import Operation
from npu_assay.partitioners.ethosu.lowering.scaling import dequantised, quantised
from npu_assay.partitioners.ethosu.lowering.values import Value, mapped, viewed
from npu_assay.partitioners.ethosu.tosa_model import Array
from npu_assay.partitioners.exir.qdq import QParams

FRACTION_BITS = 7
"""Bits below a code that the result of a 16-bit TABLE has."""


def table(operation: Operation) -> Value:
    """Any function of the first argument whose other arguments are numbers."""
    return tabulated(operation, operation.node.args[1:], operation.node.kwargs)


def table_of_two(operation: Operation) -> Value:
    """A function of two tensors of which the second is a constant of one element."""
    return tabulated(operation, (_number(operation), *operation.node.args[2:]), operation.node.kwargs)


def _number(operation: Operation) -> torch.Tensor:
    """The second argument, a constant number."""
    value = operation.operand(operation.node.args[1])
    single = value.data is not None and value.data.size == 1
    operation.require(single, "second operand", f"{value.name}, a tensor", "a constant of one element")
    data = torch.from_numpy(value.data).reshape(())
    return dequantised(data, value.quant) if isinstance(value.quant, QParams) else data


def tabulated(operation: Operation, args: Any, kwargs: Any) -> Value:
    """The node's function with these arguments after the first. A number beside it may have more dimensions."""
    x, y = viewed(operation.first, operation.shape), operation.y
    quant = operation.quant_of(x)
    target: Any = operation.node.target

    def real(numbers: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = target(numbers, *args, **kwargs)
        return found

    if quant.dtype == torch.int8:
        operation.require(y.dtype == torch.int8, "result's type", y.dtype, "int8, as the operand's")
        entries = quantised(real(dequantised(_all_codes(quant), quant)), y).numpy()
        return mapped(operation.model, x, operation.node.name, lambda t: _look_up(operation, t, entries), y)
    entries = entries_of_wide(quant, y, real)
    return mapped(operation.model, x, operation.node.name, lambda t: _look_up_wide(operation, t, entries), y)


def _all_codes(quant: QParams) -> torch.Tensor:
    """Every int8 code in order, limited to those that the quantization names."""
    return torch.arange(-128, 128).clamp(quant.qmin, quant.qmax).to(torch.int8)


def _look_up(operation: Operation, tensor: str, entries: Array) -> str:
    table = operation.model.constant(f"{operation.node.name}_table", entries, "INT8")
    return operation.emit("TABLE", [tensor, table], operation.model.shape(tensor), "INT8")


def entries_of_wide(quant: QParams, y: QParams, function: Callable[[torch.Tensor], torch.Tensor]) -> Array:
    """A function of reals from codes to codes of `y`: 513 entries, for every 128th number of 16 bits, named or not.

    Nor do the limits of a narrower range hold for entries: lines between them would bend before they are reached.
    """
    codes = torch.arange(-(2**15), 2**15 + 1, 128).clamp(max=2**15 - 1)
    numbers = dequantised(codes.to(torch.int16), quant)
    numbers[-1] = (2**15 - quant.zero_point) * quant.scale
    whole = replace(y, qmin=min(y.qmin, 1 - 2**15), qmax=2**15 - 1)
    entries: Array = quantised(function(numbers), whole).to(torch.int16).numpy()
    return entries


def _look_up_wide(operation: Operation, tensor: str, entries: Array) -> str:
    """TABLE between the entries, whose result has FRACTION_BITS bits more than a code."""
    table = operation.model.constant(f"{operation.node.name}_table", entries, "INT16")
    made = operation.emit("TABLE", [tensor, table], operation.model.shape(tensor), "INT32")
    codes = operation.rescale(made, (2.0**-FRACTION_BITS,), CODES[operation.y.dtype])
    return operation.ctx.limited(codes, operation.y, operation.node)
