"""An edge program as an ONNX model in QDQ form: operators on floats, between QuantizeLinear and DequantizeLinear.

The model computes what the program does: its inputs and outputs have the program's types, its weights are codes
after DequantizeLinear, per tensor, per channel or per group. Opset 21 is the first with 16-bit codes and groups;
an older one is written for engines that read no newer (`onnx_opsets`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from onnx import ModelProto, ValueInfoProto, checker, helper
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from npu_assay.conformance.interchange.onnx_rules import written
from npu_assay.conformance.interchange.onnx_writer import Site, Writer, numpy_type, onnx_type
from npu_assay.partitioners.exir.nodes import value
from npu_assay.partitioners.exir.ops import (
    CHOOSE_QPARAMS,
    DEQUANTIZE_DYNAMIC,
    DEQUANTIZE_PER_CHANNEL,
    DEQUANTIZE_PER_GROUP,
    DEQUANTIZE_PER_TENSOR,
    GETITEM,
    QUANTIZE_DYNAMIC,
    QUANTIZE_PER_CHANNEL,
    QUANTIZE_PER_TENSOR,
    target_name,
)
from npu_assay.reference.golden.aten import bound
from npu_assay.reference.onnx_forms.site import Array, FormError

OPSET = 21
IR_VERSIONS: Mapping[int, int] = MappingProxyType({17: 8, 21: 10})
"""The version of the file format that came with an opset."""
PRODUCER = "npu-assay"
_RUN_TIME = CHOOSE_QPARAMS | QUANTIZE_DYNAMIC | DEQUANTIZE_DYNAMIC
_CODES = (torch.int8, torch.uint8, torch.int16)


def onnx_model(program: ExportedProgram, name: str, opset: int = OPSET) -> ModelProto:
    """The model of a program, whole or delegated. Raises FormError for what has no form in ONNX, or in this opset."""
    writer = Writer(opset)
    inputs = _placeholders(writer, program)
    for node in program.graph.nodes:
        if node.op == "call_function":
            writer.names[node] = _written(writer, node)
    outputs = [_returned(writer, node, inputs) for node in _outputs(program)]
    graph = helper.make_graph(writer.nodes, name, inputs, outputs, writer.initializers)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSIONS[opset], producer_name=PRODUCER)
    if opset != OPSET:
        _check(model)
    return model


def _check(model: ModelProto) -> None:
    """Raise FormError for operators and attributes that an older opset does not have."""
    try:
        checker.check_model(model)
    except checker.ValidationError as error:
        raise FormError("opset", str(error).partition("\n")[0]) from error


def _placeholders(writer: Writer, program: ExportedProgram) -> list[ValueInfoProto]:
    """Constants as initializers; the inputs."""
    inputs = []
    nodes = (node for node in program.graph.nodes if node.op == "placeholder")
    for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True):
        if spec.kind == InputKind.USER_INPUT:
            name = writer.names[node] = writer.unique(node.name)
            inputs.append(_info(name, node))
            continue
        store = program.state_dict if spec.target in program.state_dict else program.constants
        data = store[str(spec.target)]
        if not isinstance(data, torch.Tensor):
            raise FormError("form", f"{node.name}: found a constant that is not a tensor")
        writer.tensors[node] = data
        if any(target_name(user.target) in _READS_PARAMETERS and user.args[0] is not node for user in node.users):
            continue  # scales and zero points; the operators that read them write them in ONNX's own types
        numpy_type(data.dtype)
        writer.names[node] = writer.constant(data.detach().numpy(), node.name)
    return inputs


def _info(name: str, node: fx.Node) -> ValueInfoProto:
    found = value(node)
    if found is None:
        raise FormError("form", f"{node.name}: found an input that is not a tensor")
    if not all(type(size) is int for size in found.shape):
        raise FormError("open_sizes", f"{node.name}: found a dynamic shape, expected known sizes")
    return helper.make_tensor_value_info(name, onnx_type(found.dtype), list(found.shape))


def _outputs(program: ExportedProgram) -> list[fx.Node]:
    returned = program.graph.output_node().args[0]
    return [node for node in returned if isinstance(node, fx.Node)] if isinstance(returned, (tuple, list)) else []


def _returned(writer: Writer, node: fx.Node, inputs: list[ValueInfoProto]) -> ValueInfoProto:
    """The tensor of an output; an input, a constant, or a tensor that is returned twice is copied."""
    name = writer.names[node]
    assert isinstance(name, str)
    made = {output for written in writer.nodes for output in written.output}
    if name not in made or name in writer.returned:
        (name,) = writer.emit("Identity", [name], f"{node.name}_copy")
    writer.returned.add(name)
    return _info(name, node)


def _written(writer: Writer, node: fx.Node) -> str | tuple[str, ...]:
    name = target_name(node.target)
    if name == GETITEM:
        source, index = _arguments(node)
        return writer.names[source][index]
    if name in _RUN_TIME:
        raise FormError("run_time", "ONNX quantizes at run time to uint8 only, not to int8")
    if name in _QDQ:
        return _QDQ[name](writer, node)
    if not node.all_input_nodes:
        return writer.constant(_computed(node), node.name)
    _check_types(node)
    return written(Site(writer, node, bound(name, node.args, node.kwargs)), name)


def _check_types(node: fx.Node) -> None:
    """Raise FormError for operands of several float dtypes: torch promotes them, ONNX does not."""
    found = {each.dtype for each in map(value, node.all_input_nodes) if each is not None and each.is_floating_point()}
    if len(found) > 1:
        names = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in found))
        raise FormError("types", f"{node.name}: operands of {names}, expected one float type: ONNX promotes none")


def _computed(node: fx.Node) -> Array:
    """The result of an operator without tensors among its arguments."""
    target: Any = node.target
    numbers = target(*node.args, **node.kwargs)
    numpy_type(numbers.dtype)
    found: Array = numbers.numpy()
    return found


# ------------------------------------------------------------------------------------ quantization


def _parameters(writer: Writer, node: fx.Node, scale: Any, zero_point: Any, dtype: torch.dtype) -> tuple[str, ...]:
    """Scale and zero point as constants. For 32-bit codes ONNX has only zero point 0, which is left out.

    Where an older opset is written, it is not: RKNN Toolkit 2 does not read the shorter form.
    """
    scales, zeros = (np.asarray(writer.tensors[x] if isinstance(x, fx.Node) else x) for x in (scale, zero_point))
    name = writer.constant(scales.astype(np.float32), f"{node.name}_scale")
    if dtype == torch.int16 and writer.opset < OPSET:
        raise FormError("opset", f"codes of 16 bits need opset {OPSET}, found {writer.opset}")
    if dtype in _CODES:
        kind = torch.iinfo(dtype)
        if zeros.min() < kind.min or zeros.max() > kind.max:
            raise FormError(
                "zero_point", f"found zero point {zeros.flat[0]}, expected a code of the type, as ONNX requires"
            )
        return name, writer.constant(zeros.astype(numpy_type(dtype)), f"{node.name}_zero_point")
    if dtype != torch.int32 or zeros.any():
        raise FormError("codes", f"ONNX has no {str(dtype).removeprefix('torch.')} codes with these zero points")
    if writer.opset < OPSET:
        return name, writer.constant(zeros.astype(np.int32), f"{node.name}_zero_point")
    return (name,)


def _arguments(node: fx.Node) -> tuple[Any, ...]:
    return node.args


def _cast(writer: Writer, name: str, node: object, before: bool) -> str:
    """Convert other floats to float32 before quantization, and from it after dequantization: scales are float32."""
    found = value(node)
    if found is None or found.dtype == torch.float32:
        return name
    to = torch.float32 if before else found.dtype
    return writer.emit("Cast", [name], f"{name}_cast", 1, {"to": onnx_type(to)})[0]


def _tensor(writer: Writer, node: fx.Node) -> str:
    name = writer.names[_arguments(node)[0]]
    assert isinstance(name, str)
    return name


def _quantise(writer: Writer, node: fx.Node) -> str:
    """QuantizeLinear, which saturates at the limits of the type; to a narrower range the reals are clamped first."""
    _, scale, zero_point, low, high, dtype = _arguments(node)
    if dtype not in _CODES:
        raise FormError("codes", f"QuantizeLinear cannot return {str(dtype).removeprefix('torch.')}")
    x = _cast(writer, _tensor(writer, node), node.args[0], before=True)
    kind = torch.iinfo(dtype)
    if (low, high) != (kind.min, kind.max):
        ends = [(np.float32(scale) * np.float32(end - zero_point)) for end in (low, high)]
        limits = [writer.constant(np.asarray(end, np.float32), "limit") for end in ends]
        (x,) = writer.emit("Clip", [x, *limits], f"{node.name}_clip")
    parameters = _parameters(writer, node, scale, zero_point, dtype)
    return writer.emit("QuantizeLinear", [x, *parameters], node.name)[0]


def _quantise_channels(writer: Writer, node: fx.Node) -> str:
    _, scale, zero_point, axis, _, _, dtype = _arguments(node)
    if dtype not in _CODES:
        raise FormError("codes", f"QuantizeLinear cannot return {str(dtype).removeprefix('torch.')}")
    parameters = _parameters(writer, node, scale, zero_point, dtype)
    x = _cast(writer, _tensor(writer, node), node.args[0], before=True)
    return writer.emit("QuantizeLinear", [x, *parameters], node.name, 1, {"axis": axis})[0]


def _dequantise(writer: Writer, node: fx.Node) -> str:
    _, scale, zero_point, _, _, dtype = _arguments(node)
    parameters = _parameters(writer, node, scale, zero_point, dtype)
    (real,) = writer.emit("DequantizeLinear", [_tensor(writer, node), *parameters], node.name)
    return _cast(writer, real, node, before=False)


def _dequantise_channels(writer: Writer, node: fx.Node) -> str:
    _, scale, zero_point, axis, _, _, dtype = _arguments(node)
    parameters = _parameters(writer, node, scale, zero_point, dtype)
    return writer.emit("DequantizeLinear", [_tensor(writer, node), *parameters], node.name, 1, {"axis": axis})[0]


def _dequantise_groups(writer: Writer, node: fx.Node) -> str:
    _, scale, zero_point, _, _, dtype, group, _ = _arguments(node)
    parameters = _parameters(writer, node, scale, zero_point, dtype)
    attributes = {"axis": 1, "block_size": group}
    return writer.emit("DequantizeLinear", [_tensor(writer, node), *parameters], node.name, 1, attributes)[0]


_QDQ: Mapping[str, Callable[[Writer, fx.Node], str]] = MappingProxyType(
    {
        QUANTIZE_PER_TENSOR: _quantise,
        QUANTIZE_PER_CHANNEL: _quantise_channels,
        DEQUANTIZE_PER_TENSOR: _dequantise,
        DEQUANTIZE_PER_CHANNEL: _dequantise_channels,
        DEQUANTIZE_PER_GROUP: _dequantise_groups,
    }
)
_READS_PARAMETERS = frozenset({QUANTIZE_PER_CHANNEL, DEQUANTIZE_PER_CHANNEL, DEQUANTIZE_PER_GROUP})
