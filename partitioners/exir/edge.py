"""`to_edge`: from programs that torch.export made to programs of the edge dialect."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx._lazy_graph_module import _LazyGraphModule

from npu_assay.partitioners.exir.config import EdgeCompileConfig, check_config, check_no_etrecord
from npu_assay.partitioners.exir.decompose import decomposed, with_plain_tensors
from npu_assay.partitioners.exir.manager import EdgeProgramManager, by_method
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.program import (
    PLAIN_ATEN,
    EdgeProgram,
    EdgeVerifier,
    copy_attributes,
    copy_node,
    copy_program,
)
from npu_assay.partitioners.exir.rewrites import DROPPED, Writer, without_view
from npu_assay.partitioners.exir.transform import rebuild
from npu_assay.partitioners.exir.values import arguments, fake_like, fake_mode_of
from npu_assay.partitioners.exir.verifier import check_core, nodes_of


def to_edge(
    programs: ExportedProgram | Mapping[str, ExportedProgram],
    constant_methods: Mapping[str, Any] | None = None,
    compile_config: EdgeCompileConfig | None = None,
    generate_etrecord: bool = False,
) -> EdgeProgramManager:
    """Bring one program (then the method "forward") or one per method into the edge dialect.

    `constant_methods` maps further method names to the constants they return; `generate_etrecord` is ExecuTorch's
    and must be False. The programs given stay as they are. Raises ExirError for wrong arguments and EdgeError,
    naming the node, for programs that have no edge form.
    """
    check_no_etrecord(generate_etrecord)
    config = check_config(compile_config)
    sources = by_method(programs, "programs")
    edge = {name: edge_from_aten(source, config) for name, source in sources.items()}
    return EdgeProgramManager(edge, constant_methods, config)


def edge_from_aten(program: ExportedProgram, config: EdgeCompileConfig) -> EdgeProgram:
    """The edge form of one program; a copy if it is one already."""
    if program.dialect == EdgeVerifier.dialect:
        return copy_program(program)
    return edge_from_functional(decomposed(with_plain_tensors(program), config.preserve_ops), config)


def edge_from_functional(program: ExportedProgram, config: EdgeCompileConfig) -> EdgeProgram:
    """The edge form of a program that is already decomposed."""
    if config._check_ir_validity:
        exceptions = frozenset((*config.preserve_ops, *config._core_aten_ops_exception_list))
        for node in nodes_of(program.graph_module):
            if node.target not in exceptions and target_name(node.target) not in DROPPED | PLAIN_ATEN:
                # Views count as what they become: `unfold` is not core ATen, and `unfold_copy` is.
                check_core(node, without_view(node) if isinstance(node.target, OpOverload) else node.target, ())
    return rewrite(program, config)


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
