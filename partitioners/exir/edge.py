"""`to_edge`: from programs that torch.export made to programs of the edge dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx._lazy_graph_module import _LazyGraphModule

from partitioners.exir.decompose import decomposed
from partitioners.exir.errors import EdgeError, ExirError
from partitioners.exir.manager import EdgeProgramManager, by_method
from partitioners.exir.ops import target_name
from partitioners.exir.program import EdgeProgram, EdgeVerifier, copy_attributes, copy_node, copy_program
from partitioners.exir.rewrites import DROPPED, Writer, is_view
from partitioners.exir.transform import rebuild
from partitioners.exir.values import arguments, fake_like, fake_mode_of

EDGE_TYPES = frozenset(
    {
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.uint16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    }
)
"""The tensor types that edge operators may take and return."""


@dataclass
class EdgeCompileConfig:
    """What `to_edge` may and may not do.

    _check_ir_validity: refuse operators outside core ATen and tensors of types edge does not know.
    _skip_dim_order: keep memory_format arguments instead of dim_order operators.
    _core_aten_ops_exception_list: operators outside core ATen to let pass.
    preserve_ops: operators to keep whole instead of decomposing them.
    """

    _check_ir_validity: bool = True
    _skip_dim_order: bool = False
    _core_aten_ops_exception_list: list[OpOverload] = field(default_factory=list)
    preserve_ops: list[OpOverload] = field(default_factory=list)


def to_edge(
    programs: ExportedProgram | Mapping[str, ExportedProgram],
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
) -> EdgeProgramManager:
    """Bring one program (then the method "forward") or one per method into the edge dialect.

    `constant_methods` maps further method names to the constants they return. The programs given
    stay as they are. Raises ExirError for wrong arguments and EdgeError, naming the node, for
    programs that have no edge form.
    """
    config = check_config(compile_config)
    sources = by_method(programs, "programs")
    edge = {name: edge_from_aten(source, config) for name, source in sources.items()}
    return EdgeProgramManager(edge, constant_methods)


def check_config(config: object) -> EdgeCompileConfig:
    """The configuration, or the default one. Raises ExirError for operators that cannot be preserved."""
    if config is None:
        return EdgeCompileConfig()
    if not isinstance(config, EdgeCompileConfig):
        raise ExirError(
            "configuration of the wrong type",
            found=type(config).__name__,
            expected="an EdgeCompileConfig",
            where="compile_config",
        )
    for op in (*config.preserve_ops, *config._core_aten_ops_exception_list):
        if not isinstance(op, OpOverload):
            raise ExirError(
                "not an operator overload",
                found=repr(op),
                expected="e.g. torch.ops.aten.relu.default",
                where="compile_config",
            )
    for op in config.preserve_ops:
        if is_view(op) or op._schema.is_mutable:
            kind = "returns a view" if is_view(op) else "writes its argument"
            raise ExirError(
                "operator that cannot be preserved",
                found=f"{target_name(op)}, which {kind}",
                expected="an operator without side effects",
                where="compile_config.preserve_ops",
            )
    return config


def edge_from_aten(program: ExportedProgram, config: EdgeCompileConfig) -> EdgeProgram:
    """The edge form of one program; a copy if it is one already."""
    if program.dialect == EdgeVerifier.dialect:
        return copy_program(program)
    aten = decomposed(program, config.preserve_ops)
    if config._check_ir_validity:
        check_core(aten.graph_module, frozenset((*config.preserve_ops, *config._core_aten_ops_exception_list)))
    edge = rewrite(aten, config)
    if config._check_ir_validity:
        check_types(edge.graph)
    return edge


def check_core(module: fx.GraphModule, exceptions: frozenset[OpOverload]) -> None:
    """Raise EdgeError for the first node whose ATen operator is not in the core set."""
    for node in _all_nodes(module):
        op = node.target
        if not isinstance(op, OpOverload) or op.namespace != "aten" or target_name(op) in DROPPED or op in exceptions:
            continue
        if not {torch.Tag.core, torch.Tag.view_copy} & set(op.tags):
            raise EdgeError(
                "operator outside core ATen",
                found=target_name(op),
                expected="a core ATen operator, or one listed in _core_aten_ops_exception_list or preserve_ops",
                where=node.name,
            )


def check_types(graph: fx.Graph) -> None:
    """Raise EdgeError for the first node with a tensor of a type that edge does not know."""
    for node in graph.nodes:
        value = node.meta.get("val")
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, torch.Tensor) and tensor.dtype not in EDGE_TYPES:
                raise EdgeError(
                    "tensor of a type that edge does not know",
                    found=str(tensor.dtype),
                    expected=f"one of {sorted(str(t) for t in EDGE_TYPES)}",
                    where=node.name,
                )


def rewrite(aten: ExportedProgram, config: EdgeCompileConfig) -> EdgeProgram:
    """The edge program of one in core ATen: operators rewritten, dead ones and unused constants dropped."""
    mode = fake_mode_of(aten.graph) or FakeTensorMode()
    module = rewrite_module(aten.graph_module, mode, not config._skip_dim_order)
    module.graph.eliminate_dead_code()
    calls = (n for n in module.graph.nodes if n.op == "call_function")
    for number, node in enumerate(calls, start=1):
        node.meta["debug_handle"] = number
    return rebuild(aten, module)


def rewrite_module(source: fx.GraphModule, mode: FakeTensorMode, dim_order: bool) -> fx.GraphModule:
    """A graph module with the edge form of `source`'s graph and of its control flow bodies.

    Constants that edge needs and ATen does not have become attributes `_tensor_constant<n>`.
    """
    root = copy_attributes(source)
    for name, child in source.named_children():
        if isinstance(child, fx.GraphModule):
            root.add_module(name, rewrite_module(child, mode, dim_order))
    graph = fx.Graph()

    def constant(tensor: torch.Tensor) -> fx.Node:
        name = next(n for n in (f"_tensor_constant{number}" for number in count()) if not hasattr(root, n))
        setattr(root, name, tensor)
        node = graph.get_attr(name)
        node.meta["val"] = fake_like(tensor, mode)
        return node

    writer = Writer(graph, mode, dim_order, constant)
    for node in source.graph.nodes:
        if node.op == "call_function":
            writer.write(node)
        elif node.op == "output":
            graph.output(arguments(node, writer.twins.__getitem__)[0][0]).meta = dict(node.meta)
        else:
            writer.twins[node] = copy_node(graph, node, writer.twins)
    return _LazyGraphModule(root, graph)


def _all_nodes(module: fx.GraphModule) -> list[fx.Node]:
    """The nodes of a graph and of the control flow bodies within it."""
    graphs = [m for m in module.modules() if isinstance(m, fx.GraphModule)]
    return [n for m in graphs for n in m.graph.nodes]
