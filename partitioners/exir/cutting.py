"""Cut the tagged nodes out of a program: one program per partition, and one that calls them.

Nothing is edited in place: the new graphs are written from the tagged one in a single pass. They are not
verified again: `to_backend` has verified the program, and that the partitioner left it as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec

from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.partitioners.exir.constants import placeholders
from npu_assay.partitioners.exir.delegation import Partition, Plan
from npu_assay.partitioners.exir.lowered import LoweredBackendModule, call_delegate
from npu_assay.partitioners.exir.program import (
    EdgeProgram,
    argument,
    copy_attributes,
    copy_node,
    keep_name,
    output_specs,
    renamed_call_graph,
    returned,
)
from npu_assay.partitioners.exir.run import constant_value


def submodule(program: ExportedProgram, partition: Partition) -> EdgeProgram:
    """The edge program of one partition: constants inside it, then its inputs; written buffers, then its outputs."""
    graph = fx.Graph()
    twins: dict[fx.Node, fx.Node] = {}
    for node in (*partition.constants, *partition.inputs):
        twins[node] = _placeholder(graph, node)
    for node in partition.nodes:
        for source in node.all_input_nodes:
            if source not in twins:  # bodies of control flow and the like
                twins[source] = _untagged(graph, source, twins)
        twins[node] = _untagged(graph, node, twins)
    returned = [twins[n] for n, _ in partition.mutations] + [twins[n] for n in partition.outputs]
    graph.output(tuple(returned))
    kinds = dict(placeholders(program))
    specs = [kinds[n] for n in partition.constants]
    values = {str(s.target): constant_value(program, s) for s in specs}
    return EdgeProgram(
        program.graph_module,
        graph,
        _submodule_signature(partition, specs, twins),
        {k: v for k, v in values.items() if k in program.state_dict},
        dict(program.range_constraints),
        constants={k: v for k, v in values.items() if k not in program.state_dict},
        verify=False,
    )


def _submodule_signature(
    partition: Partition, constants: Sequence[InputSpec], twins: Mapping[fx.Node, fx.Node]
) -> ExportGraphSignature:
    moved = [
        InputSpec(s.kind, argument(twins[n]), s.target, s.persistent)
        for n, s in zip(partition.constants, constants, strict=True)
    ]
    inputs = [InputSpec(InputKind.USER_INPUT, argument(twins[n]), None) for n in partition.inputs]
    writes = [OutputSpec(OutputKind.BUFFER_MUTATION, argument(twins[n]), b) for n, b in partition.mutations]
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, argument(twins[n]), None) for n in partition.outputs]
    return ExportGraphSignature(moved + inputs, writes + outputs)


def _placeholder(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """An input of `graph` that stands for the outer node of the same name."""
    twin = graph.create_node("placeholder", node.name, name=node.name)
    twin.meta = untagged_meta(node)
    keep_name(twin, node.name)
    return twin


def _untagged(graph: fx.Graph, node: fx.Node, twins: Mapping[fx.Node, fx.Node]) -> fx.Node:
    twin = copy_node(graph, node, twins)
    twin.meta.pop(DELEGATION_TAG, None)
    return twin


def untagged_meta(node: fx.Node) -> dict[str, Any]:
    """The node's meta without its tag."""
    return {key: value for key, value in node.meta.items() if key != DELEGATION_TAG}


def outer_program(program: ExportedProgram, cut: Plan, lowered: Mapping[str, LoweredBackendModule]) -> EdgeProgram:
    """The program that calls `lowered[tag]` in place of every partition."""
    graph, root = fx.Graph(), copy_attributes(program.graph_module)
    inside = {n for p in cut.partitions for n in p.nodes}
    dropped = {n for p in cut.partitions for n in p.constants if inside.issuperset(n.users)}
    dropped |= _moved_buffers(program, cut)
    twins: dict[fx.Node, fx.Node] = {}
    for unit in cut.order:
        if isinstance(unit, Partition):
            twins.update(_delegate(graph, root, unit, lowered[unit.tag], twins))
        elif unit.op == "output":
            specs = _write_output(graph, unit, program, cut, twins)
        elif unit not in dropped and not (unit.op == "get_attr" and unit.users and inside.issuperset(unit.users)):
            twins[unit] = _untagged(graph, unit, twins)
    inputs = [s for n, s in placeholders(program) if n not in dropped]
    signature = ExportGraphSignature([InputSpec(s.kind, s.arg, s.target, s.persistent) for s in inputs], specs)
    kept = {str(s.target) for s in inputs if s.kind != InputKind.USER_INPUT}
    moved = {str(s.target) for n, s in placeholders(program) if n in dropped} - kept
    return EdgeProgram(
        root,
        graph,
        signature,
        {k: v for k, v in program.state_dict.items() if k not in moved},
        dict(program.range_constraints),
        renamed_call_graph(program, signature),
        None,
        {k: v for k, v in program.constants.items() if k not in moved},
        verify=False,
    )


def _moved_buffers(program: ExportedProgram, cut: Plan) -> set[fx.Node]:
    targets = {buffer for p in cut.partitions for _, buffer in p.mutations}
    return {n for n, s in placeholders(program) if s.target in targets}


def _delegate(
    graph: fx.Graph,
    root: torch.nn.Module,
    partition: Partition,
    lowered: LoweredBackendModule,
    twins: Mapping[fx.Node, fx.Node],
) -> dict[fx.Node, fx.Node]:
    """Append a call of `lowered`; return what now stands for each output of the partition."""
    arguments = [twins[n] for n in partition.inputs]
    results = call_delegate(graph, root, lowered, arguments, [n.meta["val"] for n in partition.outputs])
    for node, result in zip(partition.outputs, results, strict=True):
        result.meta = untagged_meta(node)
    return dict(zip(partition.outputs, results, strict=True))


def _write_output(
    graph: fx.Graph, node: fx.Node, program: ExportedProgram, cut: Plan, twins: Mapping[fx.Node, fx.Node]
) -> list[OutputSpec]:
    """Append the output node without the mutations that moved inside; return the signature's outputs."""
    moved = {buffer for p in cut.partitions for _, buffer in p.mutations}
    kept = [(v, s) for v, s in returned(program) if s.kind != OutputKind.BUFFER_MUTATION or s.target not in moved]
    values = tuple(twins[value] if isinstance(value, fx.Node) else value for value, _ in kept)
    graph.output(values).meta = untagged_meta(node)
    return output_specs(values, [spec for _, spec in kept])
