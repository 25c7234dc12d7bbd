"""Decide how tagged nodes leave a program: which nodes and constants go where, and in what order the rest runs."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind

from npu_assay.partitioners.exir.constants import placeholders
from npu_assay.partitioners.exir.errors import ContractError
from npu_assay.partitioners.exir.program import output_values, returned

_CONSTANT_ORDER = {
    InputKind.PARAMETER: 0,
    InputKind.BUFFER: 1,
    InputKind.CONSTANT_TENSOR: 2,
    InputKind.CUSTOM_OBJ: 3,
    InputKind.TOKEN: 4,
}


@dataclass(frozen=True, eq=False)
class Partition:
    """One tag's nodes, and their connections with the rest of the program.

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
            "getitem node and its operator in different partitions",
            f"tag {own!r}, and {source!r} on {node.args[0]}",
            "the same tag on both",
            node.name,
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
    writers = {spec.target: node for node, spec in returned(program) if spec.kind == OutputKind.BUFFER_MUTATION}
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
            f"uses in {sorted(str(p) for p in places)}",
            "every user and the node that writes it under one tag",
            buffer.name,
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
            "operator with several outputs and its getitem node in different partitions",
            f"tag {tag!r} on a user of it only",
            "the same tag on both",
            node.name,
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
    """Outer nodes and partitions in an order in which all operands are ready, as near to the graph's as possible.

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
    """The error for a cycle: walk backwards through the units that cannot run until one repeats."""
    name = {u: u.name if isinstance(u, fx.Node) else f"partition {u.tag!r}" for u in stuck}
    path = [min(stuck, key=name.__getitem__)]
    while path[-1] not in path[:-1]:
        path.append(min(needs[path[-1]] & stuck, key=name.__getitem__))
    loop = path[path.index(path[-1]) :][::-1]
    units = [u for u in loop if isinstance(u, Partition)]
    between = next((u for u in loop if isinstance(u, fx.Node)), units[0].nodes[0])
    return ContractError(
        "cycle of partitions",
        " -> ".join(name[u] for u in loop),
        "no cycle when each partition is contracted to one node",
        between.name,
    )
