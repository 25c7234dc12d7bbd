"""A program in the form that the compiler takes, and the way back to the program's own nodes.

The documented flow, `to_edge(program).to_backend(NeutronPartitioner())`, runs no passes, and a partitioner may only
add tags to a program. So partitioner and compiler each rewrite a copy: what the partitioner accepts
in its copy, it tags in the program, and the compiler rewrites the tagged nodes in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend import ConstantPass, Pass
from npu_assay.partitioners.exir.program import copy_module
from npu_assay.partitioners.exir.qdq import is_dequantize
from npu_assay.partitioners.neutron.passes import may_change

ORIGIN = "neutron_origin"
"""The key in a rewritten node's meta of the name that the node has in the program."""


def rewritten(
    program: ExportedProgram, passes: Sequence[Pass], constants: Mapping[str, torch.Tensor | None]
) -> fx.GraphModule:
    """A copy of the program's graph after `passes`; every node that replaces one of the program names it in `ORIGIN`.

    It is the program's own module where the passes change nothing. passes: those that the partitioner judges by.
    constants: the data of constants by placeholder name, None where it is not known.
    """
    if not may_change(program.graph):
        own: fx.GraphModule = program.graph_module
        return own
    module = copy_module(program.graph_module)
    for node in module.graph.nodes:
        node.meta[ORIGIN] = node.name
    known = {name: data for name, data in constants.items() if data is not None}
    for one in passes:
        one(module, known) if isinstance(one, ConstantPass) else one(module)
    return module


def attached_constants(module: fx.GraphModule) -> dict[str, torch.Tensor]:
    """The tensors that passes attached to the module, by the name of the node that reads them."""
    reads = [node for node in module.graph.nodes if node.op == "get_attr"]
    found = {node.name: getattr(module, str(node.target), None) for node in reads}
    return {name: data for name, data in found.items() if isinstance(data, torch.Tensor)}


@dataclass(frozen=True)
class Correspondence:
    """Which nodes of a program the nodes of its rewritten copy stand for."""

    program: fx.Graph
    copy: fx.Graph

    @cached_property
    def images(self) -> dict[fx.Node, fx.Node]:
        """The node of the copy for each node of the program; nodes that a rewrite absorbed have none."""
        if self.copy is self.program:
            return {node: node for node in self.program.nodes}
        by_name = {node.meta[ORIGIN]: node for node in self.copy.nodes if ORIGIN in node.meta}
        return {node: by_name[node.name] for node in self.program.nodes if node.name in by_name}

    @cached_property
    def origins(self) -> dict[fx.Node, fx.Node]:
        """The node of the program for each node of the copy; nodes that a rewrite added have none."""
        if self.copy is self.program:
            return self.images
        by_name = {node.name: node for node in self.program.nodes}
        return {node: by_name[node.meta[ORIGIN]] for node in self.copy.nodes if ORIGIN in node.meta}

    def decisive(self, node: fx.Node) -> fx.Node:
        """The node of the copy whose verdict is that of `node`: its image, or that of the operator that absorbed it."""
        while node not in self.images:
            node = next(iter(node.users))
        return self.images[node]

    def originals(self, partition: Iterable[fx.Node]) -> frozenset[fx.Node]:
        """The program's nodes for nodes of the copy, with what rewrites absorbed into these alone."""
        found = {self.origins[node] for node in partition if node in self.origins}
        for node in reversed(self.program.nodes):
            absorbed = node.op == "call_function" and node not in self.images
            if absorbed and found.issuperset(node.users):
                found.add(node)
        return frozenset(found)


@dataclass(frozen=True)
class Leak:
    """A number that no quantize node made codes of, on its way across the border of a partition."""

    outside: fx.Node
    text: str


def leak(node: fx.Node, partition: frozenset[fx.Node]) -> Leak | None:
    """The first such number beside an operator of a partition, or None. All are nodes of the program."""
    for source in node.all_input_nodes:
        if source.op == "call_function" and source not in partition:
            what = f"has users outside {node.name}'s partition" if is_dequantize(source) else "is not dequantized"
            return Leak(source, f"operand {source.name} {what}")
    for user in node.users:
        if user not in partition:
            return Leak(user, f"{user.name} uses the unquantized result")
    return None
