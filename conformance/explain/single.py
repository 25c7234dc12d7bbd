"""One operator of a program as a model of its own, which can be asked about, changed and run.

Its operands become inputs and constants with the quantization that they have in the program, or, where they have
none, with a plain one: so what its neighbors are does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.conformance.cases.make import SUBJECT, Q, seeded
from npu_assay.conformance.explain.costs import sizes, values
from npu_assay.conformance.programs.build import DTYPES, REALS
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value
from npu_assay.partitioners.exir.ops import (
    CHOOSE_QPARAMS_PER_TOKEN,
    DEQUANTIZE,
    DEQUANTIZE_DYNAMIC,
    DEQUANTIZE_PER_CHANNEL,
    DEQUANTIZE_PER_GROUP,
    GETITEM,
    QUANTIZE_DYNAMIC,
    target_name,
)
from npu_assay.partitioners.exir.qdq import is_dequantize, is_quantize

LISTED = 4096
"""Elements of a constant that keeps its numbers; a larger one gets random ones."""
NAMES = {dtype: name for name, dtype in REALS.items()}
CODES = {dtype: name for name, dtype in DTYPES.items()}


class Unspoken(ValueError):
    """An operator that no graph of a case can say."""


def alone(program: ExportedProgram, node: fx.Node) -> Graph:
    """The operator as a model of its own. Raises Unspoken."""
    return with_operands(program, node)[0]


def with_operands(program: ExportedProgram, node: fx.Node) -> tuple[Graph, Mapping[str, fx.Node]]:
    """The same, and the nodes that its values stand for, by their names."""
    made = _Maker(constants_of(program))
    args = tuple(made.argument(each) for each in node.args)
    kwargs = tuple((name, made.argument(each)) for name, each in node.kwargs.items())
    outputs = len(list(values(node)))
    if outputs == 0:
        raise Unspoken("an operator without a tensor among its results")
    step = Step(SUBJECT, target_name(node.target), args, kwargs, _result(node), max(outputs, 1), made.dynamic)
    used = sorted({_index(user) for user in node.users}) if outputs > 1 else [0]
    return Graph(tuple(made.values.values()), (step,), tuple(Ref(SUBJECT, index) for index in used)), made.nodes


def linear_layer(program: ExportedProgram, node: fx.Node) -> Graph | None:
    """The linear layer that a product by a transposed constant, or this transposition, was written from; else None.

    `to_edge` splits it (`split`), unless the backend has it kept, as quantizers' patterns are.
    """
    if _is_turn(node) and len(node.users) == 1:
        node = next(iter(node.users))
    name = target_name(node.target) if node.op == "call_function" else ""
    if name not in ("aten.addmm.default", "aten.mm.default") or node.kwargs:
        return None
    *bias, x, transposed = node.args
    if not isinstance(transposed, fx.Node) or not _is_turn(transposed):
        return None
    made, weight = _Maker(constants_of(program)), transposed.args[0]
    if not isinstance(weight, fx.Node) or _behind(weight).name not in made.constants:
        return None
    step = Step(SUBJECT, "aten.linear.default", tuple(map(made.argument, (x, weight, *bias))), (), None)
    return Graph(tuple(made.values.values()), (step,), (Ref(SUBJECT),))


def product_of(program: ExportedProgram, node: fx.Node) -> fx.Node | None:
    """The product by a transposed constant that this transposition of the constant is a part of; else None."""
    if not _is_turn(node) or not node.all_input_nodes or len(node.users) != 1:
        return None
    weight, (product,) = _behind(node.all_input_nodes[0]), node.users
    name = target_name(product.target) if product.op == "call_function" else ""
    is_product = weight.name in constants_of(program) and name in ("aten.addmm.default", "aten.mm.default")
    return product if is_product else None


def turned(node: fx.Node, constants: Mapping[str, Tensor]) -> fx.Node | None:
    """The constant matrix, as it is read, that this node only transposes; else None."""
    weight = node.args[0] if _is_turn(node) else None
    return weight if isinstance(weight, fx.Node) and _behind(weight).name in constants else None


def _across(quant: Quant | None) -> Quant | None:
    """The quantization of a matrix, transposed."""
    if quant is None or quant.axis is None:
        return quant
    if quant.group is not None:
        raise Unspoken("groups of a transposed matrix")
    return replace(quant, axis=1 - quant.axis)


def _behind(node: fx.Node) -> fx.Node:
    """What a dequantize node takes."""
    return node.all_input_nodes[0] if is_dequantize(node) and node.all_input_nodes else node


def _is_turn(node: fx.Node) -> bool:
    """Whether a node swaps the axes of a matrix."""
    name = target_name(node.target) if node.op == "call_function" else ""
    return name == "aten.t_copy.default" or (name == "aten.permute_copy.default" and list(node.args[1]) == [1, 0])  # type: ignore[arg-type]


def split(layer: Graph) -> Graph:
    """A linear layer as the product that `to_edge` makes of it, by a weight that it transposes."""
    (step,) = layer.steps
    x, weight, *bias = step.args
    turned = Step("turned", "aten.permute_copy.default", (weight, (1, 0)), (), None)
    product = "aten.addmm.default" if bias else "aten.mm.default"
    return replace(layer, steps=(turned, replace(step, op=product, args=(*bias, x, Ref("turned")))))


def quantized(graph: Graph) -> Graph:
    """The same with every real input and result in int8, whatever stood around it; all in one of the scales it has."""
    known = (*(v.quant for v in graph.values if not v.constant), *(step.quant for step in graph.steps))
    plain = next((q for q in known if q is not None and q.axis is None), Q)
    given = tuple(replace(v, quant=plain) if _is_real_input(v) else v for v in graph.values)
    steps = tuple(replace(step, quant=step.quant or plain) for step in graph.steps)
    return replace(graph, values=given, steps=steps)


def _is_real_input(value: Value) -> bool:
    return value.quant is None and not value.constant and value.dtype == "float32"


def constants_of(program: ExportedProgram) -> dict[str, Tensor]:
    """Parameters, buffers and lifted constants, by the names of their placeholders."""
    signature, known = program.graph_signature, {**program.constants, **program.state_dict}
    named = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    return {name: known[target] for name, target in named.items() if isinstance(known.get(target), Tensor)}


@dataclass
class _Maker:
    """Makes the values of a graph from the arguments of a node; `nodes` are what the values stand for."""

    constants: Mapping[str, Tensor]
    values: dict[str, Value] = field(default_factory=dict)
    nodes: dict[str, fx.Node] = field(default_factory=dict)
    dynamic: str | None = None

    def argument(self, found: Any) -> Any:
        """An argument as a graph has it: references for tensors, tuples for lists, names for types."""
        if isinstance(found, fx.Node):
            return Ref(self._operand(found))
        if isinstance(found, (list, tuple)):
            return tuple(self.argument(each) for each in found)
        if isinstance(found, torch.dtype):
            return _type_named(found)
        if isinstance(found, torch.memory_format):
            return str(found).removeprefix("torch.")
        if found is None or isinstance(found, (bool, int, float, str)):
            return found
        raise Unspoken(f"an argument of type {type(found).__name__}")

    def _operand(self, node: fx.Node) -> str:
        """The name of the value that stands for a tensor: `x` for the first that is not a constant."""
        weight = turned(node, self.constants)
        quant, behind = self._quant(node if weight is None else weight)
        known = next((name for name, value in self.nodes.items() if value is node), None)
        if known is not None:
            return known
        tensor = next(values(node), None)
        if tensor is None:
            raise Unspoken(f"an operand {node.name} without a tensor")
        data = self.constants.get(behind.name)
        if weight is not None and data is not None:
            quant, data = _across(quant), data.t()
        name = "x" if data is None and "x" not in self.values else f"operand_{len(self.values)}"
        shape = sizes(tensor)
        open_axes = tuple(axis for axis, size in enumerate(tensor.shape) if not isinstance(size, int))
        fill = _fill(data) if data is not None else seeded(name)
        dtype = _type_named(tensor.dtype)
        dtype = "float32" if quant is not None else dtype
        self.values[name] = Value(name, shape, quant, fill, data is not None, dtype, open_axes)
        self.nodes[name] = node
        return name

    def _quant(self, node: fx.Node) -> tuple[Quant | None, fx.Node]:
        """The quantization of an operand, and the node after it."""
        target = target_name(node.target) if node.op == "call_function" else ""
        if target in DEQUANTIZE | {DEQUANTIZE_PER_GROUP}:
            source = node.args[0]
            assert isinstance(source, fx.Node)
            return quant_of(node, self.constants), source
        if target in DEQUANTIZE_DYNAMIC:
            self.dynamic = _dynamic(node)
        return None, node


def _type_named(dtype: torch.dtype) -> str:
    if dtype not in NAMES:
        raise Unspoken(f"the type {dtype}")
    return NAMES[dtype]


def quant_of(node: fx.Node, constants: Mapping[str, Tensor]) -> Quant:
    """The parameters of a quantize or dequantize node. Raises Unspoken for what is computed, or has several zeros."""
    target = target_name(node.target)
    if target == DEQUANTIZE_PER_GROUP:
        scale, zero, low, high, dtype, group = (*node.args[1:6], node.args[6])
        return Quant(_numbers(scale, constants), _zero(zero, constants), int(low), int(high), 0, CODES[dtype], group)  # type: ignore[arg-type, index]
    if target == DEQUANTIZE_PER_CHANNEL or target.endswith("per_channel.default"):
        scale, zero, axis, low, high, dtype = node.args[1:7]
        found = _numbers(scale, constants)
        return Quant(found, _zero(zero, constants), int(low), int(high), int(axis), CODES[dtype])  # type: ignore[arg-type, index]
    scale, zero, low, high, dtype = node.args[1:6]
    if not isinstance(scale, (int, float)) or not isinstance(zero, int):
        raise Unspoken("a scale that is computed")
    return Quant(float(scale), zero, int(low), int(high), None, CODES[dtype])  # type: ignore[arg-type, index]


def _numbers(argument: Any, constants: Mapping[str, Tensor]) -> tuple[float, ...]:
    data = constants.get(argument.name) if isinstance(argument, fx.Node) else None
    if data is None:
        raise Unspoken("scales that are computed")
    return tuple(float(each) for each in data.flatten().tolist())


def _zero(argument: Any, constants: Mapping[str, Tensor]) -> int:
    if argument is None:
        return 0
    zeros = {int(each) for each in _numbers(argument, constants)}
    if len(zeros) != 1:
        raise Unspoken("zero points of several values")
    return zeros.pop()


def _dynamic(node: fx.Node) -> str:
    """How the quantization is chosen at run time."""
    waiting = list(node.all_input_nodes)
    while waiting:
        each = waiting.pop()
        if target_name(each.target) == CHOOSE_QPARAMS_PER_TOKEN:
            return "per_token"
        if each.op == "call_function" and target_name(each.target) in QUANTIZE_DYNAMIC | {GETITEM}:
            waiting += each.all_input_nodes
    return "per_tensor"


def _result(node: fx.Node) -> Quant | None:
    """The quantization of the result, where any user quantizes it."""
    users = [user for each in (node, *node.users) for user in each.users if each is node or is_item(each)]
    for user in users:
        if is_quantize(user):
            return quant_of(user, {})
    return None


def is_item(node: fx.Node) -> bool:
    """Whether a node picks one result of several."""
    return node.op == "call_function" and target_name(node.target) == GETITEM


def _index(user: fx.Node) -> int:
    return int(user.args[1]) if is_item(user) else 0  # type: ignore[arg-type]  # an index is a number


def _fill(data: Tensor) -> Fill:
    """A constant's numbers, where they are few."""
    if 0 < data.numel() <= LISTED:
        return Fill("list", values=tuple(float(each) for each in data.flatten().tolist()))
    return Fill(seed=data.numel())
