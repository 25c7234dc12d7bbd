"""The values of the nodes walked so far; lowering functions read operands from it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import fx

from npu_assay.partitioners.common.lowering import Values, result_of
from npu_assay.partitioners.exir.compiling import refusal, require
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR, QUANTIZE_PER_TENSOR, target_name
from npu_assay.partitioners.exir.qdq import qparams
from npu_assay.partitioners.xnnpack.lowering.model import ModelBuilder, Shape
from npu_assay.partitioners.xnnpack.lowering.values import DTYPES, Value, id_of
from npu_assay.partitioners.xnnpack.xnn_model import PerTensor, PerToken


class Context(Values[Value]):
    """One compilation: the subgraph so far, and the value of every node walked so far."""

    def __init__(self, constants: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.model = ModelBuilder()
        self._constants = constants
        self._converted: dict[tuple[int, PerToken], int] = {}

    def made(self, node: fx.Node) -> Value | None:
        """The value of a constant, or of a quantize or dequantize node, which are computed when first needed."""
        found = self.constant(node)
        if found is not None:
            return constant_value(node, found)
        name = target_name(node.target) if node.op == "call_function" else ""
        if name == QUANTIZE_PER_TENSOR:
            return self._quantised(node)
        return self._dequantised(node) if name == DEQUANTIZE_PER_TENSOR else None

    def codes(self, dequantize: fx.Node) -> Value:
        """The codes that a per-tensor dequantize reads, with constant parameters."""
        source, quant = dequantize.args[0], per_tensor(dequantize)
        assert isinstance(source, fx.Node), f"{dequantize.name} has no operand"
        data = self.constant(source)
        if data is not None:
            return Value(source.name, tuple(data.shape), "qint8", quant, data=data)
        found = self.value(source, dequantize)
        require(found.quant == quant, dequantize, "scale and zero point", quant, found.quant)
        return found

    def constant(self, node: object) -> torch.Tensor | None:
        """The data of a constant; None for other nodes."""
        return self._constants.get(node.name) if isinstance(node, fx.Node) else None

    def _dequantised(self, node: fx.Node) -> Value:
        """Numbers that a Convert makes of codes, in the codes' own layout."""
        codes = self.codes(node)
        last = codes.is_channels_last
        dtype = dtype_of(node)
        made = self.model.emit("Convert", [id_of(self.model, codes, last)], dtype)
        return Value(node.name, codes.shape, dtype, None, {last: made}, open_axes=codes.open_axes)

    def converted(self, source: int, quant: PerToken) -> int:
        """Numbers quantized at run time, once for all products that take them."""
        if (source, quant) not in self._converted:
            self._converted[source, quant] = self.model.emit("Convert", [source], "qdint8", quant)
        return self._converted[source, quant]

    def _quantised(self, node: fx.Node) -> Value:
        """Codes that a Convert makes of numbers."""
        source, quant = self.value(node.args[0], node), per_tensor(node)
        last = source.is_channels_last
        made = self.model.emit("Convert", [id_of(self.model, source, last)], "qint8", quant)
        return Value(node.name, source.shape, "qint8", quant, {last: made}, open_axes=source.open_axes)


def per_tensor(node: fx.Node) -> PerTensor:
    """The parameters of a quantize or dequantize. Raises CompileError unless int8 codes can have them."""
    found = qparams(node)
    defect = "parameters that are not constant" if found is None else found.defect()
    if found is None or defect is not None:
        raise refusal(node, "quantization", defect, "int8, a positive float32 scale, an int8 zero point")
    return PerTensor(found.scale32, found.zero_point)


def constant_value(node: fx.Node, data: torch.Tensor) -> Value:
    """A constant operand of an operator on numbers."""
    require(data.dtype in DTYPES, node, "type of a constant", data.dtype, list(DTYPES))
    return Value(node.name, tuple(data.shape), DTYPES[data.dtype], data=data)


def dtype_of(node: fx.Node) -> str:
    """The format's type of a node's result. Raises CompileError for one that XNNPACK does not have."""
    dtype = result_of(node).dtype
    require(dtype in DTYPES, node, "type of the result", dtype, list(DTYPES))
    return DTYPES[dtype]


def bounds(node: fx.Node) -> tuple[Shape, tuple[int, ...]]:
    """Upper bounds of the sizes of a node's result, and the axes whose size is open."""
    sizes = tuple(result_of(node).shape)
    open_axes = tuple(axis for axis, size in enumerate(sizes) if not isinstance(size, int))
    return tuple(_bound(size) for size in sizes), open_axes


def _bound(size: int | torch.SymInt) -> int:
    """The largest value of a size; of a size without limit, the one that the program was exported with."""
    if isinstance(size, int):
        return size
    upper = size.node.shape_env.bound_sympy(size.node.expr).upper
    return int(size.node.hint) if upper > 2**31 else int(upper)
