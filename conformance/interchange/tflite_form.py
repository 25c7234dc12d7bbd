"""An edge program as a TFLite model on int8 codes: every operator between dequantize and quantize nodes.

A program that is not int8 throughout has no form: TFLite's int8 operators take codes and return codes. TFLite has no
batch norm: it becomes a float MUL and ADD.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from npu_assay.conformance.interchange.tflite_rules import CUT, FUSED, RULES, activation
from npu_assay.conformance.interchange.tflite_writer import Codes, Site, Tensor, Writer, numbers
from npu_assay.partitioners.exir.nodes import value
from npu_assay.partitioners.exir.ops import (
    DEQUANTIZE_PER_CHANNEL,
    DEQUANTIZE_PER_TENSOR,
    GETITEM,
    QUANTIZE_PER_TENSOR,
    target_name,
)
from npu_assay.reference.golden.aten import bound
from npu_assay.reference.onnx_forms.site import FormError

DTYPES = {torch.int8: "int8", torch.int32: "int32", torch.float32: "float32"}
INT8 = (-128, 127)
PERMUTE = "aten.permute_copy.default"


def tflite_model(program: ExportedProgram) -> bytes:
    """The model of a program, whole or delegated. Raises FormError for a program without an int8 form in TFLite."""
    form = _Form(program)
    for node in program.graph.nodes:
        if node.op == "call_function":
            form.write(node)
    returned = program.graph.output_node().args[0]
    assert isinstance(returned, (tuple, list))
    outputs = [form.returned(node) for node in returned if isinstance(node, fx.Node)]
    return form.writer.model(form.inputs, outputs)


class _Form:
    """The model as far as it is written. codes: the tensors of nodes that return codes, and of float inputs."""

    def __init__(self, program: ExportedProgram) -> None:
        self.writer = Writer()
        self.codes: dict[fx.Node, int] = {}
        self.inputs: list[int] = []
        nodes = (node for node in program.graph.nodes if node.op == "placeholder")
        for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True):
            if spec.kind == InputKind.USER_INPUT:
                self.inputs.append(self._input(node))
            else:
                store = program.state_dict if spec.target in program.state_dict else program.constants
                self.writer.constants[node] = store[str(spec.target)]

    def _input(self, node: fx.Node) -> int:
        """A user's input: float32, or codes with the scale and zero point of its dequantize node."""
        found = value(node)
        if found is None or found.dtype not in DTYPES:
            raise FormError("quantized", f"{node.name}: expected codes or float32")
        read = {_parameters(user) for user in node.users if target_name(user.target) == DEQUANTIZE_PER_TENSOR}
        if found.dtype == torch.int8 and len(read) != 1:
            raise FormError(
                "quantized", f"{node.name}: found {len(read)} dequantize parameters, expected one scale and zero point"
            )
        codes = read.pop() if found.dtype == torch.int8 else None
        self.codes[node] = self.writer.tensor(Tensor(_sizes(node), DTYPES[found.dtype], codes))
        return self.codes[node]

    def write(self, node: fx.Node) -> None:
        """Write one operator; a quantize node is written with the operator before it."""
        name = target_name(node.target)
        if name in (DEQUANTIZE_PER_TENSOR, DEQUANTIZE_PER_CHANNEL):
            self._dequantised(node, name)
        elif name == QUANTIZE_PER_TENSOR:
            self._quantised(node)
        elif name != GETITEM and node.users:
            self._computed(node, name)

    def _dequantised(self, node: fx.Node, name: str) -> None:
        """The codes before a dequantize node; a constant's codes get the node's scale and zero point."""
        source = node.args[0]
        assert isinstance(source, fx.Node)
        if source in self.writer.constants:
            data = self.writer.constants[source]
            codes = _parameters(node) if name == DEQUANTIZE_PER_TENSOR else self._per_channel(node)
            if data.dtype not in (torch.int8, torch.int32):
                raise FormError("quantized", f"{source.name}: found {data.dtype}, expected int8 or int32")
            made = Tensor(tuple(data.shape), DTYPES[data.dtype], codes, numbers(data))
            self.writer.places[node] = self.writer.tensor(made)
        elif name == DEQUANTIZE_PER_TENSOR and self.writer.tensors[self.codes[source]].codes == _parameters(node):
            self.writer.places[node] = self.codes[source]
        else:
            raise FormError("quantized", f"{node.name}: found another scale or zero point than its codes have")

    def _per_channel(self, node: fx.Node) -> Codes:
        scales, zeros = (self.writer.constants.get(x) if isinstance(x, fx.Node) else None for x in node.args[1:3])
        axis = node.args[3]
        if scales is None or zeros is None or not isinstance(axis, int):
            raise FormError("static_weights", f"{node.name}: found scales that are not constants")
        return Codes(tuple(np.asarray(scales, np.float32).tolist()), tuple(map(int, zeros)), axis)

    def _quantised(self, node: fx.Node) -> None:
        """Quantize a float input, or codes to another scale; other quantize nodes are written with their operator."""
        source = node.args[0]
        assert isinstance(source, fx.Node)
        if node in self.codes:
            return
        before = self.codes.get(source, self.writer.places.get(source))
        if before is None or self.writer.tensors[before].data is not None:
            raise FormError("quantized", f"{source.name}: found neither codes nor a float input")
        made = self.writer.tensor(Tensor(_sizes(node), "int8", _parameters(node)))
        self.codes[node] = self.writer.emit("QUANTIZE", [before], made)

    def _computed(self, node: fx.Node, name: str) -> None:
        """Write an operator on codes, fused with the activation after it if TFLite can fuse them."""
        given = bound(name, node.args, node.kwargs)
        if node in self.writer.places or node in self.codes:
            return
        source = node.args[0] if node.args else None
        if name == PERMUTE and isinstance(source, fx.Node) and self._is_constant(source):
            self.writer.places[node] = self._turned(source, given["dims"])
            return
        if name not in RULES:
            raise FormError("operator", f"{name} has no int8 form in TFLite here")
        last, fused = _with_activation(node)
        quantised = self._quantise_nodes(last)
        result = self.writer.tensor(Tensor(_sizes(last), "int8", _parameters(quantised[0])))
        before = len(self.writer.operators)
        RULES[name](Site(self.writer, node, given, result, fused))
        options = [options for *_, options in self.writer.operators[before:]]
        if fused and not any(found.get("fusedActivationFunction") == fused for found in options):
            raise FormError("quantized", f"{name} cannot be fused with the activation that shares its quantize node")
        self.codes |= dict.fromkeys([last, *quantised], result)

    def _is_constant(self, node: fx.Node) -> bool:
        place = self.writer.places.get(node)
        return place is not None and self.writer.tensors[place].data is not None

    def _turned(self, node: fx.Node, dims: Any) -> int:
        """A permuted constant, such as the weight of a linear layer."""
        rank = len(self.writer.tensors[self.writer.places[node]].shape)
        site = Site(self.writer, node, {}, self.writer.places[node])
        return site.permuted(site.result, [dim % rank for dim in dims])

    def _quantise_nodes(self, node: fx.Node) -> list[fx.Node]:
        """The quantize nodes after an operator, which must have the same scale and zero point."""
        users = [user for user in node.users if target_name(user.target) != GETITEM]
        for item in (user for user in node.users if target_name(user.target) == GETITEM and user.args[1] == 0):
            users += item.users
        if not users or any(target_name(user.target) != QUANTIZE_PER_TENSOR for user in users):
            raise FormError("quantized", f"{node.name} is not followed by quantize nodes alone")
        if len({_parameters(user) for user in users}) != 1:
            raise FormError(
                "quantized", f"{node.name}: found quantize nodes with different parameters, expected the same"
            )
        return users

    def returned(self, node: fx.Node) -> int:
        """The tensor of an output: codes, or reals of codes."""
        if node in self.codes:
            return self.codes[node]
        if node not in self.writer.places:
            raise FormError("quantized", f"{node.name} is returned without being quantized")
        made = self.writer.tensor(Tensor(_sizes(node), "float32"))
        return self.writer.emit("DEQUANTIZE", [self.writer.places[node]], made)


def _with_activation(node: fx.Node) -> tuple[fx.Node, int]:
    """An operator's last node, and TFLite's number of the activation that shares its quantize node; 0 for none."""
    if len(node.users) != 1:
        return node, 0
    (behind,) = node.users
    name = target_name(behind.target)
    if behind.op != "call_function" or name not in RULES:
        return node, 0
    kind = "RELU" if name == CUT else activation(bound(name, behind.args, behind.kwargs))
    return (behind, FUSED[kind]) if kind in FUSED else (node, 0)


def _sizes(node: fx.Node) -> tuple[int, ...]:
    found = value(node)
    assert found is not None
    if not all(type(size) is int and size > 0 for size in found.shape):
        raise FormError("static_shape", f"{node.name}: found a dynamic shape or a size of 0, expected known sizes")
    return tuple(found.shape)


def _parameters(node: Any) -> Codes:
    """The scale and zero point of a per-tensor quantize or dequantize node."""
    _, scale, zero_point, low, high, dtype = node.args
    if target_name(node.target) == QUANTIZE_PER_TENSOR and (dtype != torch.int8 or (low, high) != INT8):
        raise FormError(
            "quantized", f"{node.name}: found {dtype} codes from {low} to {high}, expected int8 from -128 to 127"
        )
    if dtype not in (torch.int8, torch.int32):
        raise FormError("quantized", f"{node.name}: found {dtype} codes, expected int8 or int32")
    return Codes((float(np.float32(scale)),), (int(zero_point),))
