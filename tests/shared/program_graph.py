"""Reads an edge program, quantized or not, back into a case graph, so that whole networks meet the same gates.

Constants and inputs are written out number by number. A weight behind `permute_copy` in front of
addmm is the linear layer that it came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value
from npu_assay.partitioners.exir.ops import (
    CHOOSE_QPARAMS,
    DEQUANTIZE,
    DEQUANTIZE_DYNAMIC,
    DEQUANTIZE_PER_CHANNEL,
    GETITEM,
    QUANTIZE,
    QUANTIZE_DYNAMIC,
    QUANTIZE_PER_CHANNEL,
    target_name,
)

PERMUTE = "aten.permute_copy.default"
_PER_CHANNEL = {QUANTIZE_PER_CHANNEL, DEQUANTIZE_PER_CHANNEL}
_BETWEEN = QUANTIZE | DEQUANTIZE | QUANTIZE_DYNAMIC | DEQUANTIZE_DYNAMIC | CHOOSE_QPARAMS | {GETITEM}


def program_graph(program: ExportedProgram, inputs: Sequence[torch.Tensor]) -> Graph:
    """The case graph of a program with one output; `inputs` are its user inputs, in order."""
    tensors = _constants(program) | dict(zip(_user_inputs(program), inputs, strict=True))
    values: list[Value] = []
    steps: list[Step] = []
    for node in program.graph.nodes:
        if node.op == "placeholder" and any(node in _numbers(user) for user in node.users):
            values.append(_value(node, tensors, constant=node.name not in _user_inputs(program)))
        elif node.op == "call_function" and _source(node) is node and not _is_weight_permute(node, tensors):
            steps.append(_step(node, tensors))
    used = {name for step in steps for name in _names(step.args)}
    (output,) = program.graph.output_node().all_input_nodes
    return Graph(tuple(v for v in values if v.name in used), tuple(steps), (Ref(_source(output).name),))


def _numbers(node: Node) -> list[Node]:
    """The operands of a node; of a conversion the tensor alone, without scale and zero point."""
    return node.all_input_nodes[:1] if target_name(node.target) in _BETWEEN else node.all_input_nodes


def _user_inputs(program: ExportedProgram) -> list[str]:
    return list(program.graph_signature.user_inputs)


def _names(argument: object) -> list[str]:
    if isinstance(argument, Ref):
        return [argument.name]
    return [name for item in argument for name in _names(item)] if isinstance(argument, tuple) else []


def _constants(program: ExportedProgram) -> dict[str, torch.Tensor]:
    signature = program.graph_signature
    targets = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    stored: Mapping[str, torch.Tensor] = {**program.state_dict, **program.constants}
    return {name: stored[target] for name, target in targets.items()}


def _source(node: Node) -> Node:
    """The value a (de)quantized node stands for: behind quantize, dequantize, the choice of parameters and getitem."""
    while target_name(node.target) in _BETWEEN:
        (node,) = node.all_input_nodes[:1]
    return node


def _is_weight_permute(node: Node, tensors: Mapping[str, torch.Tensor]) -> bool:
    return _is_linear(node) and _source(node.all_input_nodes[0]).name in tensors


def _value(node: Node, tensors: Mapping[str, torch.Tensor], constant: bool) -> Value:
    user = next(iter(node.users))
    quant = _quant(user, tensors) if target_name(user.target) in QUANTIZE | DEQUANTIZE else None
    tensor = tensors[node.name]
    if quant is not None and tensor.is_floating_point():
        assert isinstance(quant.scale, float)  # an input is quantized per tensor
        tensor = (tensor / quant.scale).round().add(quant.zero_point).clamp(quant.qmin, quant.qmax)
    fill = Fill("list", values=tuple(tensor.flatten().tolist()))
    return Value(node.name, tuple(tensor.shape), quant, fill, constant)


def _quant(node: Node, tensors: Mapping[str, torch.Tensor]) -> Quant:
    """The parameters of a quantize or dequantize node."""
    args: Any = node.args  # as the operators' schemas say
    if target_name(node.target) in _PER_CHANNEL:
        axis, low, high, dtype = args[3:7]
        scales = tuple(tensors[args[1].name].tolist())
        return Quant(scales, 0, low, high, axis, str(dtype).removeprefix("torch."))
    scale, zero_point, low, high, dtype = args[1:6]
    return Quant(scale, zero_point, low, high, None, str(dtype).removeprefix("torch."))


def _step(node: Node, tensors: Mapping[str, torch.Tensor]) -> Step:
    name = target_name(node.target)
    consumers = [user for user in node.users if target_name(user.target) in QUANTIZE]
    quant = _quant(consumers[0], tensors) if consumers else None
    args = tuple(_argument(a) for a in node.args)
    if name == "aten.addmm.default" and _is_linear(node.all_input_nodes[2]):
        weight = _source(node.all_input_nodes[2].all_input_nodes[0])
        name, args = "aten.linear.default", (args[1], Ref(weight.name), args[0])
    first = node.all_input_nodes[0]
    dynamic = "per_tensor" if target_name(first.target) in DEQUANTIZE_DYNAMIC else None
    return Step(node.name, name, args, tuple(sorted(node.kwargs.items())), quant, dynamic=dynamic)


def _is_linear(weight: Node) -> bool:
    return target_name(weight.target) == PERMUTE


def _argument(argument: object) -> object:
    if isinstance(argument, Node):
        return Ref(_source(argument).name)
    if isinstance(argument, list | tuple):
        return tuple(_argument(item) for item in argument)
    return argument
