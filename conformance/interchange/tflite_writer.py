"""A TFLite model while it is being written from an edge program, and one operator's place in it.

Flatbuffers are written with the schema that LiteRT itself ships (`ai_edge_litert.schema_py_generated`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import torch
from torch import fx

from npu_assay.partitioners.exir.nodes import value
from npu_assay.reference.onnx_forms.site import Array, FormError

VERSIONS: Mapping[str, int] = {
    **dict.fromkeys(("PRELU", "RESHAPE", "RELU_0_TO_1", "RELU_N1_TO_1"), 1),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "RESIZE_BILINEAR", "TRANSPOSE_CONV"), 3),
    **dict.fromkeys(("FULLY_CONNECTED",), 4),
}
"""The first version of an operator that takes int8, if that is not 2."""
HIGH_RANK: Mapping[str, int] = {"TRANSPOSE": 6, "SLICE": 5, "PAD": 4, "PADV2": 4}
"""The first version of an operator that takes tensors of more than 4 dimensions."""
OPTIONS: Mapping[str, str] = {
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "SOFTMAX": "SoftmaxOptions",
    "CONCATENATION": "ConcatenationOptions",
    "ADD": "AddOptions",
    "SUB": "SubOptions",
    "MUL": "MulOptions",
    "RESIZE_BILINEAR": "ResizeBilinearOptions",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    "RESHAPE": "ReshapeOptions",
    "MEAN": "ReducerOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "LEAKY_RELU": "LeakyReluOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
}
"""The options table of each operator that must have one."""


@dataclass(frozen=True)
class Codes:
    """How codes stand for reals: one scale (float32) and zero point, or one of each along an axis."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = 0


@dataclass(frozen=True, eq=False)
class Tensor:
    """One of a model's tensors; `data` makes it a constant, `codes` belong to int8 and to biases."""

    shape: tuple[int, ...]
    dtype: str = "int8"
    codes: Codes | None = None
    data: Array | None = None


@dataclass
class Writer:
    """Tensors and operators so far. places: the tensors of dequantize nodes. constants: those of the program."""

    tensors: list[Tensor] = field(default_factory=list)
    operators: list[tuple[str, list[int], list[int], dict[str, Any]]] = field(default_factory=list)
    places: dict[fx.Node, int] = field(default_factory=dict)
    constants: dict[fx.Node, torch.Tensor] = field(default_factory=dict)

    def tensor(self, tensor: Tensor) -> int:
        """Append a tensor; its index."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def integers(self, numbers: object) -> int:
        """A constant of 32-bit sizes or axes."""
        data = np.asarray(numbers, np.int32)
        return self.tensor(Tensor(data.shape, "int32", None, data))

    def emit(self, kind: str, inputs: Sequence[int], output: int, **options: Any) -> int:
        """Append an operator with one result; returns the index of the result."""
        self.operators.append((kind, list(inputs), [output], options))
        return output

    def model(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The flatbuffer."""
        from ai_edge_litert import schema_py_generated as schema  # optional

        graph, buffers = schema.SubGraphT(), [schema.BufferT()]
        graph.tensors = [_tensor(schema, i, tensor, buffers) for i, tensor in enumerate(self.tensors)]
        graph.inputs, graph.outputs = list(inputs), list(outputs)
        used = [(kind, self._version(kind, read)) for kind, read, _, _ in self.operators]
        known = list(dict.fromkeys(used))
        entries = zip(used, self.operators, strict=True)
        graph.operators = [_operator(schema, known.index(code), entry) for code, entry in entries]
        model = schema.ModelT()
        model.version, model.description, model.subgraphs, model.buffers = 3, "npu-assay", [graph], buffers
        model.operatorCodes = [_operator_code(schema, *found) for found in known]
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    def _version(self, kind: str, inputs: Sequence[int]) -> int:
        high = kind in HIGH_RANK and len(self.tensors[inputs[0]].shape) > 4
        return HIGH_RANK[kind] if high else VERSIONS.get(kind, 2)


def _tensor(schema: Any, index: int, tensor: Tensor, buffers: list[Any]) -> Any:
    made = schema.TensorT()
    made.name, made.shape, made.buffer = f"t{index}", list(tensor.shape), 0
    made.type = getattr(schema.TensorType, tensor.dtype.upper())
    if tensor.codes is not None:
        made.quantization = schema.QuantizationParametersT()
        made.quantization.scale, made.quantization.zeroPoint = list(tensor.codes.scales), list(tensor.codes.zero_points)
        made.quantization.quantizedDimension = tensor.codes.axis
    if tensor.data is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(tensor.data).tobytes(), np.uint8)
        made.buffer = len(buffers)
        buffers.append(buffer)
    return made


def _operator(schema: Any, code: int, entry: tuple[Any, ...]) -> Any:
    kind, inputs, outputs, fields = entry
    made = schema.OperatorT()
    made.opcodeIndex, made.inputs, made.outputs = code, inputs, outputs
    if kind in OPTIONS:
        made.builtinOptionsType = getattr(schema.BuiltinOptions, OPTIONS[kind])
        made.builtinOptions = getattr(schema, f"{OPTIONS[kind]}T")()
        for name, found in fields.items():
            assert hasattr(made.builtinOptions, name), (kind, name)
            setattr(made.builtinOptions, name, found)
    return made


def _operator_code(schema: Any, kind: str, version: int) -> Any:
    code = getattr(schema.BuiltinOperator, kind)
    made = schema.OperatorCodeT()
    made.builtinCode, made.deprecatedBuiltinCode, made.version = code, min(code, 127), version
    return made


@dataclass(frozen=True)
class Site:
    """An operator to be written: its fx node, its arguments by name, and the tensor of its result.

    fused: TFLite's number of the activation between it and its quantize node, 0 for none.
    """

    writer: Writer
    node: fx.Node
    given: Mapping[str, Any]
    result: int
    fused: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    def x(self, name: str = "self") -> int:
        """The tensor of an argument, in codes."""
        return self.operand(self.given[name])

    def operand(self, found: object) -> int:
        """The codes that a dequantize node reads."""
        if not isinstance(found, fx.Node) or found not in self.writer.places:
            raise self.refuse("quantized", f"{found} has no int8 codes")
        return self.writer.places[found]

    def known(self, index: int) -> Tensor:
        """A tensor's description."""
        return self.writer.tensors[index]

    def shape(self, index: int) -> tuple[int, ...]:
        """The sizes of a tensor."""
        return self.writer.tensors[index].shape

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the result."""
        return self.shape(self.result)

    def sized(self, name: str) -> tuple[int, ...]:
        """The sizes of an argument, quantized or not."""
        found = value(self.given[name])
        return () if found is None else tuple(int(size) for size in found.shape)

    def kept(self, name: str = "self") -> int:
        """The tensor of an argument. Raises FormError unless the result has its scale and zero point."""
        index = self.x(name)
        if self.known(index).codes != self.known(self.result).codes:
            raise self.refuse("same_qparams", "input and output have different scales or zero points")
        return index

    def real(self, kind: str, *inputs: int) -> int:
        """Append an operator whose result is float32, with the sizes of its first input."""
        made = self.writer.tensor(Tensor(self.shape(inputs[0]), "float32"))
        return self.writer.emit(kind, inputs, made)

    def numbers(self, name: str, default: float) -> Array:
        """The numbers of an argument that is a float constant, or `default` if it is left out."""
        found = self.given[name]
        if found is None:
            return np.asarray(default, np.float64)
        if found not in self.writer.constants:
            raise self.refuse("static_weights", f"{name} is not a constant")
        return numbers(self.writer.constants[found]).astype(np.float64)

    def op(self, kind: str, inputs: Sequence[int], shape: Sequence[int], like: int, **options: Any) -> int:
        """Append an operator whose result has the codes of another tensor."""
        made = self.writer.tensor(Tensor(tuple(shape), "int8", self.known(like).codes))
        return self.writer.emit(kind, inputs, made, **options)

    def done(self, kind: str, *inputs: int, **options: Any) -> None:
        """Append the operator that makes the result."""
        self.writer.emit(kind, inputs, self.result, **options)

    def permuted(self, index: int, axes: Sequence[int], output: int | None = None) -> int:
        """A tensor with permuted axes; a constant is permuted here."""
        known = self.known(index)
        shape = tuple(known.shape[axis] for axis in axes)
        if known.data is not None and output is None:
            return self.constant(known.data.transpose(axes), _moved(known.codes, axes), known.dtype)
        inputs = [index, self.writer.integers(list(axes))]
        if output is not None:
            return self.writer.emit("TRANSPOSE", inputs, output)
        return self.op("TRANSPOSE", inputs, shape, index)

    def reshaped(self, index: int, shape: Sequence[int], output: int | None = None) -> int:
        """A tensor with other sizes."""
        known = self.known(index)
        if known.shape == tuple(shape) and output is None:
            return index
        inputs, options = [index, self.writer.integers(list(shape))], {"newShape": [int(size) for size in shape]}
        if output is not None:
            return self.writer.emit("RESHAPE", inputs, output, **options)
        return self.op("RESHAPE", inputs, shape, index, **options)

    def constant(self, data: Array, codes: Codes | None, dtype: str = "int8") -> int:
        """A constant tensor."""
        return self.writer.tensor(Tensor(data.shape, dtype, codes, data))

    def refuse(self, code: str, message: str) -> FormError:
        """The error for arguments that have no form in TFLite."""
        return FormError(code, f"{self.node.target}: {message}")


def _moved(codes: Codes | None, axes: Sequence[int]) -> Codes | None:
    if codes is None or len(codes.scales) == 1:
        return codes
    return Codes(codes.scales, codes.zero_points, list(axes).index(codes.axis))


def numbers(tensor: torch.Tensor) -> Array:
    """The numbers of a constant."""
    found: Array = tensor.detach().contiguous().numpy()
    return found
