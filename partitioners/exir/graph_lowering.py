"""Lower a graph module instead of a program: its tensors become constants, and attributes again afterwards."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec

from npu_assay.partitioners.exir.constants import placeholders
from npu_assay.partitioners.exir.errors import EdgeError
from npu_assay.partitioners.exir.lowering import Details, lower_parts
from npu_assay.partitioners.exir.program import (
    EdgeProgram,
    argument,
    copy_attributes,
    copy_node,
    output_values,
)

GUARDS = "_guards_fn"
"""The submodule in which torch checks the sizes of inputs. It computes nothing."""


def lower_graph_module(graph_module: fx.GraphModule, partitioner: Any, *, details: Details | None = None) -> Any:
    """A new graph module that calls delegates for what the partitioner tags; inputs and outputs stay as they are.

    The graph is one of the edge dialect, such as `manager.exported_program().module()`, with `meta["val"]` on every
    node. Tensors that it reads with get_attr are constants to the partitioner, and all placeholders are inputs.
    Raises ExirError as `to_backend` does for programs.
    """
    program = as_program(graph_module)
    return as_graph_module(lower_parts(program, partitioner, details=details), graph_module)


def as_program(module: fx.GraphModule) -> EdgeProgram:
    """The graph module as an edge program of its own graph; tensors are shared. Raises ExirError, naming the node."""
    graph, twins, constants = fx.Graph(), dict[fx.Node, fx.Node](), dict[str, InputSpec]()
    state: dict[str, torch.Tensor] = {}
    nodes = [n for n in module.graph.nodes if n.target != GUARDS]
    # Placeholders come first in a program, those of constants before the others.
    for node in sorted(nodes, key=lambda n: (not _is_constant(n, module), n.op != "placeholder")):
        _check_value(node)
        if not _is_constant(node, module):
            twins[node] = copy_node(graph, node, twins)
            continue
        target, tensor = str(node.target), operator.attrgetter(str(node.target))(module)
        twin = graph.create_node("placeholder", node.name, name=node.name)
        twin.meta.update(node.meta)
        kind = InputKind.PARAMETER if isinstance(tensor, torch.nn.Parameter) else InputKind.BUFFER
        constants[twin.name] = InputSpec(kind, argument(twin), target, None if kind == InputKind.PARAMETER else True)
        state[target], twins[node] = tensor, twin
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    signature = ExportGraphSignature(
        [constants.get(n.name) or InputSpec(InputKind.USER_INPUT, argument(n), None) for n in inputs],
        [OutputSpec(OutputKind.USER_OUTPUT, argument(value), None) for value in output_values(graph)],
    )
    return EdgeProgram(copy_attributes(module), graph, signature, state)


def _is_constant(node: fx.Node, module: fx.GraphModule) -> bool:
    return node.op == "get_attr" and isinstance(operator.attrgetter(str(node.target))(module), torch.Tensor)


def _check_value(node: fx.Node) -> None:
    """Refuse nodes without a value, which no partitioner can judge."""
    if node.op in ("placeholder", "call_function") and "val" not in node.meta:
        raise EdgeError("node without a value", "no meta['val']", "a graph of the edge dialect", node.name)


def as_graph_module(program: EdgeProgram, like: fx.GraphModule) -> fx.GraphModule:
    """The program as a graph module that holds its constants, with the calling convention of another one."""
    root, graph, twins = copy_attributes(program.graph_module), fx.Graph(), dict[fx.Node, fx.Node]()
    constants = {node: spec for node, spec in placeholders(program) if spec.kind != InputKind.USER_INPUT}
    for spec in constants.values():
        _attach(root, str(spec.target), program.state_dict[str(spec.target)])
    inputs = [n for n in program.graph.nodes if n.op == "placeholder" and n not in constants]
    rest = [n for n in program.graph.nodes if n.op != "placeholder"]
    for node in (*inputs, *constants, *rest):
        if node in constants:
            twins[node] = graph.create_node("get_attr", str(constants[node].target), name=node.name)
            twins[node].meta.update(node.meta)
        else:
            twins[node] = copy_node(graph, node, twins)
    graph.set_codegen(like.graph._codegen)
    return fx.GraphModule(root, graph)


def _attach(root: torch.nn.Module, target: str, tensor: torch.Tensor) -> None:
    """Put a tensor where a dotted name says."""
    *path, name = target.split(".")
    for part in path:
        if not hasattr(root, part):
            root.add_module(part, torch.nn.Module())
        root = getattr(root, part)
    if isinstance(tensor, torch.nn.Parameter):
        root.register_parameter(name, tensor)
    else:
        root.register_buffer(name, tensor)
