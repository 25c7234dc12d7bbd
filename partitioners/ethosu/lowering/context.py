"""One compilation: the graph so far, and the value of every node walked so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import fx

from npu_assay.partitioners.common.lowering import Values
from npu_assay.partitioners.ethosu.lowering.model import LIMITS, ModelBuilder
from npu_assay.partitioners.ethosu.lowering.scaling import quantised
from npu_assay.partitioners.ethosu.lowering.values import DTYPES, FLOAT, PerChannel, Value, mapped
from npu_assay.partitioners.ethosu.tosa_model import NUMPY_TYPES
from npu_assay.partitioners.exir.compiling import axis_of, refusal, require
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_CHANNEL, target_name
from npu_assay.partitioners.exir.qdq import QParams, qparams

CODES = {torch.int8: "INT8", torch.int16: "INT16", torch.int32: "INT32"}


class Context(Values[Value]):
    """`constants` maps placeholders of constants to their data; `is_u55`: the device is of the U55 family."""

    def __init__(self, constants: Mapping[str, torch.Tensor], *, is_u55: bool) -> None:
        super().__init__()
        self.model = ModelBuilder()
        self.is_u55 = is_u55
        self._constants = constants

    def made(self, node: fx.Node) -> Value | None:
        """The value of a constant."""
        data = self._constants.get(node.name)
        return None if data is None else constant_value(node, data)

    def numbers(self, node: fx.Node) -> Value:
        """The numbers of a dequantize node."""
        source = self.value(node.args[0], node)
        if target_name(node.target) == DEQUANTIZE_PER_CHANNEL:
            return source.seen_as(self._per_channel(node, source))
        quant = checked_qparams(node)
        require(source.dtype == CODES[quant.dtype], node, "type of the codes", source.dtype, CODES[quant.dtype])
        return source.seen_as(quant)

    def _per_channel(self, node: fx.Node, source: Value) -> PerChannel:
        """The parameters of a per-channel dequantize node, which must be constant and symmetric."""
        axis: Any = node.args[3]
        scales, zero_points = (self.value(argument, node) for argument in node.args[1:3])
        for value in (source, scales, zero_points):
            require(value.data is not None, node, "quantization per channel", f"{value.name} at run time", "constants")
        assert scales.data is not None and zero_points.data is not None
        require(not zero_points.data.any(), node, "zero point per channel", zero_points.data.tolist(), 0)
        return PerChannel(tuple(float(scale) for scale in scales.data.flat), axis_of(node, axis, source.rank))

    def codes(self, node: fx.Node) -> Value:
        """The codes of a quantize node."""
        source, quant = self.value(node.args[0], node), checked_qparams(node)
        if source.dtype == FLOAT:
            assert source.data is not None
            return constant_value(node, quantised(torch.from_numpy(source.data), quant))
        return self.requantised(source, quant, node).seen_as(None)

    def requantised(self, value: Value, quant: QParams, node: fx.Node) -> Value:
        """A value with another quantization: itself if codes mean the same, else after a RESCALE.

        A constant is rescaled by the compiler in the arithmetic of the device, so the numbers are the same.
        """
        found = value.quant
        if not isinstance(found, QParams):
            raise refusal(node, "operand", f"{value.name}, which is not quantized", "a dequantized tensor")
        if found == quant or (found.same_values(quant) and is_within(found, quant)):
            return value.seen_as(quant)
        ratio, zeros = found.scale / quant.scale, (found.zero_point, quant.zero_point)

        def rescale(tensor: str) -> str:
            made = self.rescale(tensor, (ratio,), CODES[quant.dtype], node, zeros)
            return self.limited(made, quant, node)

        return mapped(self.model, value, f"{node.name}_rescaled", rescale, quant)

    def rescale(
        self, tensor: str, ratios: tuple[float, ...], dtype: str, node: fx.Node, zeros: tuple[int, int] = (0, 0)
    ) -> str:
        """`ModelBuilder.rescale` for `node`. Raises CompileError for a ratio out of range."""
        try:
            name = f"{node.name}_rescale"
            return self.model.rescale(tensor, ratios, dtype, name, zero_in=zeros[0], zero_out=zeros[1])
        except ValueError as error:
            raise refusal(node, "scales of operands and result", error, "a ratio that RESCALE has") from error

    def limited(
        self, tensor: str, quant: QParams, node: fx.Node, low: int | None = None, high: int | None = None
    ) -> str:
        """Codes within the range that the quantization names, or a narrower one."""
        bounds = (quant.qmin if low is None else low, quant.qmax if high is None else high)
        if CODES[quant.dtype] == "INT32":
            require(bounds == LIMITS["INT32"], node, "range of int32 codes", bounds, "all of them")
            return tensor
        return self.model.clamp(tensor, *bounds, f"{node.name}_limited")


def is_within(inner: QParams, outer: QParams) -> bool:
    """Whether every code of the one is a code of the other."""
    return outer.qmin <= inner.qmin and inner.qmax <= outer.qmax


def constant_value(node: fx.Node, data: torch.Tensor) -> Value:
    """The value of a tensor known when compiling. Raises CompileError for a type the device does not have."""
    array = data.detach().cpu().contiguous().numpy()
    if data.is_floating_point():
        return Value(node.name, tuple(data.shape), FLOAT, data=array.astype(np.float32))
    require(data.dtype in DTYPES, node, "type of a constant", data.dtype, "bool, int8, int16 or int32")
    dtype = DTYPES[data.dtype]
    if data.dtype == torch.int64 and data.numel():
        low, high = int(data.min()), int(data.max())
        require(low >= -(2**31) and high < 2**31, node, "int64 constant", f"{low}..{high}", "numbers of 32 bits")
    return Value(node.name, tuple(data.shape), dtype, data=array.astype(NUMPY_TYPES[dtype]))


def checked_qparams(node: fx.Node) -> QParams:
    """The parameters of a per-tensor quantize or dequantize. Raises CompileError unless the device has them."""
    found = qparams(node)
    require(found is not None, node, "quantization", "parameters that are not constant", "numbers")
    assert found is not None
    return checked(found, node)


def checked(found: QParams, node: fx.Node) -> QParams:
    """The parameters. Raises the node's CompileError unless the device has them."""
    require(found.dtype in CODES, node, "quantized type", found.dtype, "int8, int16 or int32")
    low, high = LIMITS[CODES[found.dtype]]
    require(0 < found.scale < float("inf"), node, "scale", found.scale, "a positive number")
    symmetric = found.dtype == torch.int8 or found.zero_point == 0
    require(symmetric, node, f"zero point of {found.dtype} codes", found.zero_point, 0)
    require(low <= found.zero_point <= high, node, "zero point", found.zero_point, f"one of {low}..{high}")
    return found
