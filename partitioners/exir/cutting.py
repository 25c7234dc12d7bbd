"""Cut the tagged nodes out of a program: one program per partition, and one that calls them.

Nothing is edited in place: the new graphs are written from the tagged one in a single pass.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
)

from partitioners.exir.constants import placeholders
from partitioners.exir.errors import ContractError
from partitioners.exir.lowered import LoweredBackendModule, call_delegate
from partitioners.exir.partitioner import DELEGATION_TAG
from partitioners.exir.program import (
    EdgeProgram,
    argument,
    copy_attributes,
    copy_node,
    keep_name,
    output_values,
    renamed_call_graph,
)
from partitioners.exir.run import constant_value

_CONSTANT_ORDER = {
    InputKind.PARAMETER: 0,
    InputKind.BUFFER: 1,
    InputKind.CONSTANT_TENSOR: 2,
    InputKind.CUSTOM_OBJ: 3,
    InputKind.TOKEN: 4,
}


@dataclass(frozen=True, eq=False)
class Partition:
    """One tag's nodes, and how they hang together with the rest.

    nodes: operators in graph order. constants: placeholders that move inside, in the order of the
    submodule's inputs. inputs: what comes from outside, in order of first use. outputs: nodes
    used outside, in graph order. mutations: (node, buffer) of buffers written inside.
    """

    tag: str
    nodes: tuple[fx.Node, ...]
    constants: tuple[fx.Node, ...]
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]
    mutations: tuple[tuple[fx.Node, str], ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """How a program is cut: its partitions in graph order, and the order of the outer graph.

    `order` lists nodes that stay outside and partitions as they will run.
    """

    partitions: tuple[Partition, ...]
    order: tuple[fx.Node | Partition, ...]


def group_operators(program: ExportedProgram, tags: Mapping[fx.Node, str]) -> dict[fx.Node, str]:
    """The tag of every operator that goes into a partition.

    Untagged `getitem` nodes follow a tagged operator with several outputs, as a delegate returns
    single tensors. Raises ContractError when an operator and a getitem of it are in different places.
    """
    groups: dict[fx.Node, str] = {}
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        tag = tags.get(node)
        if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
            tag = _getitem_tag(node, tag, groups.get(node.args[0]))
        if tag is not None:
            groups[node] = tag
    return groups


def _getitem_tag(node: fx.Node, own: str | None, source: str | None) -> str | None:
    if own is not None and own != source:
        raise ContractError(
            "an output taken apart from the operator that makes it",
            found=f"tag {own!r}, and {source!r} on {node.args[0]}",
            expected="the same tag on both",
            where=node.name,
        )
    return source


def plan(program: ExportedProgram, tags: Mapping[fx.Node, str]) -> Plan:
    """Decide what goes where. Raises ContractError for cycles and for mutated buffers used outside their partition."""
    groups = group_operators(program, tags)
    movable = {n for n in tags if n.op == "placeholder"}
    kinds = dict(placeholders(program))
    written = _written_buffers(program, kinds, movable, groups)
    members: dict[str, list[fx.Node]] = {}
    for node, tag in groups.items():
        members.setdefault(tag, []).append(node)
    partitions = tuple(_partition(tag, nodes, movable, kinds, written) for tag, nodes in members.items())
    return Plan(partitions, _schedule(program, partitions, groups))


def _written_buffers(
    program: ExportedProgram,
    kinds: Mapping[fx.Node, InputSpec],
    movable: set[fx.Node],
    groups: Mapping[fx.Node, str],
) -> dict[fx.Node, str]:
    """The nodes that write a buffer which moves into their partition, with the buffer's name."""
    writers = {
        spec.target: node
        for node, spec in zip(output_values(program.graph), program.graph_signature.output_specs, strict=True)
        if spec.kind == OutputKind.BUFFER_MUTATION
    }
    written: dict[fx.Node, str] = {}
    for buffer in movable:
        target = kinds[buffer].target
        if target in writers:
            _check_mutation(buffer, writers[target], groups)
            written[writers[target]] = str(target)
    return written


def _check_mutation(buffer: fx.Node, writer: fx.Node, groups: Mapping[fx.Node, str]) -> None:
    places = {groups.get(node) for node in (writer, *(u for u in buffer.users if u.op != "output"))}
    if len(places) > 1 or None in places:
        raise ContractError(
            "a tagged mutated buffer that is not used in one partition alone",
            found=f"uses in {sorted(str(p) for p in places)}",
            expected="every user and the node that writes it under one tag",
            where=buffer.name,
        )


def _partition(
    tag: str,
    nodes: Sequence[fx.Node],
    movable: set[fx.Node],
    kinds: Mapping[fx.Node, InputSpec],
    written: Mapping[fx.Node, str],
) -> Partition:
    inside = set(nodes)
    used = list(dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in inside))
    constants = sorted((n for n in used if n in movable), key=lambda n: _CONSTANT_ORDER[kinds[n].kind])
    inputs = tuple(n for n in used if n not in movable and n.op != "get_attr")
    for node in inputs:
        _check_input(node, tag)
    mutations = tuple((n, written[n]) for n in nodes if n in written)
    outputs = tuple(n for n in nodes if _leaves(n, inside, n in written))
    return Partition(tag, tuple(nodes), tuple(constants), inputs, outputs, mutations)


def _check_input(node: fx.Node, tag: str) -> None:
    if isinstance(node.meta.get("val"), (list, tuple)):
        raise ContractError(
            "an operator with several outputs apart from its getitem nodes",
            found=f"tag {tag!r} on a user of it only",
            expected="the same tag on both",
            where=node.name,
        )


def _leaves(node: fx.Node, inside: set[fx.Node], writes: bool) -> bool:
    """Whether a node's value is needed outside; a mutation that moves inside does not count."""
    outside = [u for u in node.users if u not in inside]
    if writes and all(u.op == "output" for u in outside):
        uses = sum(a is node for u in outside for a in output_values(u.graph))
        return uses > 1
    return bool(outside)


def _schedule(
    program: ExportedProgram, partitions: Sequence[Partition], groups: Mapping[fx.Node, str]
) -> tuple[fx.Node | Partition, ...]:
    """Outer nodes and partitions in an order in which everything is ready, else nearest to the graph's.

    Raises ContractError when there is no such order.
    """
    by_tag = {p.tag: p for p in partitions}
    position = {node: index for index, node in enumerate(program.graph.nodes)}
    unit = {n: by_tag[groups[n]] if n in groups else n for n in position}
    rank = {u: position[u] if isinstance(u, fx.Node) else position[u.nodes[0]] for u in unit.values()}
    needs = {u: {unit[a] for n in _members(u) for a in n.all_input_nodes} - {u} for u in rank}
    waiting = {u: len(needs[u]) for u in needs}
    users: dict[fx.Node | Partition, list[fx.Node | Partition]] = {u: [] for u in needs}
    for user, sources in needs.items():
        for source in sources:
            users[source].append(user)
    unit_at = {r: u for u, r in rank.items()}
    ready = [rank[u] for u, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order: list[fx.Node | Partition] = []
    while ready:
        done = unit_at[heapq.heappop(ready)]
        order.append(done)
        for user in users[done]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, rank[user])
    if len(order) < len(needs):
        raise _cycle(needs, set(needs) - set(order))
    return tuple(order)


def _members(unit: fx.Node | Partition) -> Sequence[fx.Node]:
    return unit.nodes if isinstance(unit, Partition) else (unit,)


def _cycle(
    needs: Mapping[fx.Node | Partition, set[fx.Node | Partition]], stuck: set[fx.Node | Partition]
) -> ContractError:
    """The error for units that wait for each other: walk backwards among them until one repeats."""
    name = {u: u.name if isinstance(u, fx.Node) else f"partition {u.tag!r}" for u in stuck}
    path = [min(stuck, key=name.__getitem__)]
    while path[-1] not in path[:-1]:
        path.append(min(needs[path[-1]] & stuck, key=name.__getitem__))
    loop = path[path.index(path[-1]) :][::-1]
    units = [u for u in loop if isinstance(u, Partition)]
    between = next((u for u in loop if isinstance(u, fx.Node)), units[0].nodes[0])
    return ContractError(
        "partitions that wait for each other",
        found=" -> ".join(name[u] for u in loop),
        expected="no cycle once every tag is a single node",
        where=between.name,
    )


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
    values: list[Any] = []
    specs: list[OutputSpec] = []
    for value, spec in zip(output_values(program.graph), program.graph_signature.output_specs, strict=True):
        if spec.kind == OutputKind.BUFFER_MUTATION and spec.target in moved:
            continue
        twin = twins[value] if isinstance(value, fx.Node) else value
        values.append(twin)
        specs.append(OutputSpec(spec.kind, argument(twin) if isinstance(value, fx.Node) else spec.arg, spec.target))
    graph.output(tuple(values)).meta = untagged_meta(node)
    return specs
