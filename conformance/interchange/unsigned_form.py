"""A model in QDQ form on unsigned codes: every code and its zero point half a range higher, which are the same reals.

Vendors whose operators take uint8 and uint16 alone are asked so. Codes with a scale per channel, which are weights,
stay signed, as do 32-bit ones. The model's inputs and outputs of codes are unsigned, too, and its metadata names them:
who runs it adds half a range to what goes in and takes it from what comes out, which flips the first bit.

The suite's codes of 16 bits are symmetric: -32768 is none of them, so before quantizing the form clamps. Here that is
left out, as such models have the operator's result quantized at once; who runs it makes the lowest code the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

UNSIGNED: Mapping[int, tuple[int, type[np.unsignedinteger]]] = MappingProxyType(
    {TensorProto.INT8: (TensorProto.UINT8, np.uint8), TensorProto.INT16: (TensorProto.UINT16, np.uint16)}
)
"""The unsigned type of each signed one that is turned, as ONNX numbers it and as numpy has it."""

TURNED = "npu_assay.half_a_range_higher"
"""The key of the metadata that names the inputs and outputs that are half a range higher."""

Constants = Mapping[str, TensorProto]


def unsigned(model: ModelProto) -> ModelProto:
    """A copy of a model with signed codes of one scale, on unsigned codes."""
    turned = ModelProto()
    turned.CopyFrom(model)
    graph = turned.graph
    constants = {each.name: each for each in graph.initializer}
    nodes = _unclamped(graph.node, constants)
    names = _coded(nodes, constants)
    for tensor in graph.initializer:
        if tensor.name in names:
            tensor.CopyFrom(_turned(tensor))
    ends = [info for info in (*graph.input, *graph.output) if info.name in names]
    for info in ends:
        kind = info.type.tensor_type
        kind.elem_type = UNSIGNED[kind.elem_type][0]
    turned.metadata_props.add(key=TURNED, value=" ".join(sorted({info.name for info in ends})))
    del graph.node[:]
    graph.node.extend(nodes)
    return turned


def _unclamped(nodes: Sequence[NodeProto], constants: Constants) -> list[NodeProto]:
    """The nodes without what clamps reals to the symmetric codes of 16 bits before they become codes."""
    makers = {name: node for node in nodes for name in node.output}
    clamps = dict[str, str]()
    for node in nodes:
        clamp = makers.get(node.input[0]) if node.op_type == "QuantizeLinear" else None
        if clamp is not None and clamp.op_type == "Clip" and _is_symmetric(clamp, node, constants):
            clamps[clamp.output[0]] = node.input[0] = clamp.input[0]
    return [node for node in nodes if not set(node.output) & clamps.keys()]


def _is_symmetric(clamp: NodeProto, quantize: NodeProto, constants: Constants) -> bool:
    """Whether the limits are the reals of the codes -32767 and 32767."""
    if any(name not in constants for name in (*clamp.input[1:], *quantize.input[1:])):
        return False
    low, high, scale, zero = (
        numpy_helper.to_array(constants[name]) for name in (*clamp.input[1:], *quantize.input[1:])
    )
    ends = [scale * np.float32(end) for end in (-32767, 32767)]
    return zero.dtype == np.int16 and not zero.any() and low.size == 1 and [low, high] == ends


def _coded(nodes: Sequence[NodeProto], constants: Constants) -> set[str]:
    """The names of tensors of codes with one scale, and of their zero points, also where a node copies them."""
    found = {name for node in nodes for name in _of_node(node, constants)}
    while more := {name for node in nodes for name in _copied(node, found)} - found:
        found |= more
    return found


def _of_node(node: NodeProto, constants: Constants) -> Iterator[str]:
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or len(node.input) < 3:
        return
    zero = constants[node.input[2]]
    if zero.data_type in UNSIGNED and not zero.dims:
        yield from (node.input[2], node.output[0] if node.op_type == "QuantizeLinear" else node.input[0])


def _copied(node: NodeProto, found: set[str]) -> Iterator[str]:
    if node.op_type == "Identity" and found & {node.input[0], node.output[0]}:
        yield from (node.input[0], node.output[0])


def _turned(tensor: TensorProto) -> TensorProto:
    array = numpy_helper.to_array(tensor)
    half = 2 ** (8 * array.itemsize - 1)
    return numpy_helper.from_array((array.astype(np.int32) + half).astype(UNSIGNED[tensor.data_type][1]), tensor.name)
