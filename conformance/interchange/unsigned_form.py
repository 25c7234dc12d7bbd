"""A model in QDQ form on unsigned codes: every code and its zero point half a range higher, which are the same reals.

Vendors whose operators take uint8 and uint16 alone are asked so. Codes with a scale per channel, which are weights,
stay signed, as do 32-bit ones. The model's inputs and outputs of codes are unsigned, too: who runs it adds
half a range to what goes in and takes it from what comes out, which flips the first bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

UNSIGNED: Mapping[int, tuple[int, type[np.unsignedinteger]]] = MappingProxyType(
    {TensorProto.INT8: (TensorProto.UINT8, np.uint8), TensorProto.INT16: (TensorProto.UINT16, np.uint16)}
)
"""The unsigned type of each signed one that is turned, as ONNX numbers it and as numpy has it."""


def unsigned(model: ModelProto) -> ModelProto:
    """A copy of a model with signed codes of one scale, on unsigned codes."""
    turned = ModelProto()
    turned.CopyFrom(model)
    graph = turned.graph
    names = _coded(graph.node, {each.name: each for each in graph.initializer})
    for tensor in graph.initializer:
        if tensor.name in names:
            tensor.CopyFrom(_turned(tensor))
    for info in (*graph.input, *graph.output):
        kind = info.type.tensor_type
        if info.name in names:
            kind.elem_type = UNSIGNED[kind.elem_type][0]
    return turned


def _coded(nodes: object, constants: Mapping[str, TensorProto]) -> set[str]:
    """The names of tensors of codes with one scale, and of their zero points, also where a node copies them."""
    found: set[str] = set()
    listed: list[NodeProto] = list(nodes)  # type: ignore[call-overload]
    for node in listed:
        found.update(_of_node(node, constants))
    while more := {each for each in _copies(listed, found) if each not in found}:
        found |= more
    return found


def _of_node(node: NodeProto, constants: Mapping[str, TensorProto]) -> Iterator[str]:
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or len(node.input) < 3:
        return
    zero = constants[node.input[2]]
    if zero.data_type in UNSIGNED and not zero.dims:
        yield from (node.input[2], node.output[0] if node.op_type == "QuantizeLinear" else node.input[0])


def _copies(nodes: list[NodeProto], found: set[str]) -> Iterator[str]:
    for node in nodes:
        if node.op_type == "Identity" and found & {node.input[0], node.output[0]}:
            yield from (node.input[0], node.output[0])


def _turned(tensor: TensorProto) -> TensorProto:
    array = numpy_helper.to_array(tensor)
    unsigned_type = UNSIGNED[tensor.data_type][1]
    half = 2 ** (8 * array.itemsize - 1)
    return numpy_helper.from_array((array.astype(np.int32) + half).astype(unsigned_type), tensor.name)
