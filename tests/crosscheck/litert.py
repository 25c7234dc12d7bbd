"""Builds TFLite models of one operator with the published schema, and runs LiteRT's reference kernels.

Needs ai_edge_litert. The reference kernels (BUILTIN_REF) are the oracle; the optimized ones differ from
them by one LSB in some operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

Array = npt.NDArray[Any]

_TYPES = {
    np.dtype("float32"): schema.TensorType.FLOAT32,
    np.dtype("int32"): schema.TensorType.INT32,
    np.dtype("int8"): schema.TensorType.INT8,
}


@dataclass(frozen=True)
class Spec:
    """One tensor of a model: `data` is given for constants; scales are per index of `axis`."""

    shape: tuple[int, ...]
    scales: tuple[float, ...] = ()
    zero_point: int = 0
    axis: int = 0
    data: Array | None = None
    dtype: str = "int8"


def constant(data: Array, scales: Sequence[float] = (), zero_point: int = 0, axis: int = 0) -> Spec:
    """A tensor whose numbers are part of the model."""
    return Spec(data.shape, tuple(scales), zero_point, axis, data, str(data.dtype))


def one_operator(
    name: str,
    inputs: Sequence[Spec | None],
    output: Spec,
    options: str | None = None,
    fields: Mapping[str, Any] | None = None,
    version: int = 1,
) -> bytes:
    """A model with one operator, e.g. one_operator("ADD", [a, b], y, "AddOptions").

    None among the inputs is an absent optional one. `fields` are set on the options table.
    """
    code = getattr(schema.BuiltinOperator, name)
    present = [spec for spec in inputs if spec is not None]
    graph = schema.SubGraphT()
    buffers = [schema.BufferT()]
    graph.tensors = [_tensor(f"t{i}", spec, buffers) for i, spec in enumerate([*present, output])]
    graph.inputs = [i for i, spec in enumerate(present) if spec.data is None]
    graph.outputs = [len(present)]
    order = iter(range(len(present)))
    graph.operators = [_operator([-1 if s is None else next(order) for s in inputs], len(present), options, fields)]
    model = schema.ModelT()
    model.version, model.description, model.subgraphs, model.buffers = 3, "one operator", [graph], buffers
    model.operatorCodes = [_operator_code(code, version)]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def run_litert(model: bytes, inputs: Sequence[Array], optimized: bool = False) -> list[Array]:
    """The outputs of LiteRT's reference kernels for one invocation, or of its optimized ones."""
    kinds = OpResolverType
    kind = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if optimized else kinds.BUILTIN_REF
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=kind, num_threads=1)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def _tensor(name: str, spec: Spec, buffers: list[Any]) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.buffer = name, list(spec.shape), 0
    tensor.type = _TYPES[np.dtype(spec.dtype)]
    if spec.scales:
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = list(spec.scales)
        tensor.quantization.zeroPoint = [spec.zero_point] * len(spec.scales)
        tensor.quantization.quantizedDimension = spec.axis
    if spec.data is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(spec.data).tobytes(), dtype=np.uint8)
        tensor.buffer = len(buffers)
        buffers.append(buffer)
    return tensor


def _operator(inputs: list[int], output: int, options: str | None, fields: Mapping[str, Any] | None) -> Any:
    operator = schema.OperatorT()
    operator.inputs, operator.outputs = inputs, [output]
    if options is not None:
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
        operator.builtinOptions = getattr(schema, f"{options}T")()
        for field, value in (fields or {}).items():
            if not hasattr(operator.builtinOptions, field):
                raise AttributeError(f"{options} has no field {field}")
            setattr(operator.builtinOptions, field, value)
    return operator


def _operator_code(code: int, version: int) -> Any:
    record = schema.OperatorCodeT()
    record.builtinCode, record.deprecatedBuiltinCode, record.version = code, min(code, 127), version
    return record
