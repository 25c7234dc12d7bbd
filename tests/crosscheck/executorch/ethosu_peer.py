"""ExecuTorch's own EthosUPartitioner on our edge programs, next to ours."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from crosscheck.executorch.agreement import Difference
from crosscheck.executorch.peer import peer_program
from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.operator_support import OperatorSupportBase

from conformance.tagging import tags_of
from partitioners.ethosu.compile_spec import EthosUCompileSpec
from partitioners.ethosu.partitioner import EthosUPartitioner
from partitioners.ethosu.support.common import dtype_of, is_qdq
from partitioners.exir.ops import target_name
from partitioners.exir.partitioner import DELEGATION_TAG
from partitioners.exir.program import copy_program

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses parts of itself, of torch and of Python that are deprecated
    from executorch.backends.arm.ethosu import EthosUCompileSpec as PeerCompileSpec
    from executorch.backends.arm.ethosu import EthosUPartitioner as PeerPartitioner
    from executorch.backends.arm.tosa import partitioner as peer_module
    from executorch.backends.arm.tosa.specification import TosaLoweringContext
    from executorch.exir.backend.utils import WhyNoPartitionReporter

__all__ = ["Answer", "Comparison", "PeerCompileSpec", "PeerPartitioner", "compare", "our_answer", "peer_answer"]

logging.getLogger("executorch").setLevel(logging.ERROR)

_components = peer_module._find_connected_components


def _in_graph_order(nodes: set[fx.Node]) -> list[set[fx.Node]]:
    """The pieces of a partition that had a cycle; by themselves they come in another order in every process."""
    at = {node: index for index, node in enumerate(next(iter(nodes)).graph.nodes)}
    return sorted(_components(nodes), key=lambda piece: min(at[node] for node in piece))


peer_module._find_connected_components = _in_graph_order
BORDER = "real_output"
SCALAR_TENSOR = "aten.scalar_tensor.default"
LATER = frozenset({"real_input", "real_output", "not_alone", "uint8"})
"""Reasons that a partition gives, not a node alone."""
IMPLIED = frozenset({"quantized_inputs"})
"""Of a node whose operand is refused because of a listed difference."""


class Sweeping(PeerPartitioner):  # type: ignore[misc]  # executorch is not there for mypy
    """The real partitioner that lets no real number cross the border of a delegate, however long that takes."""

    def _detag_boundary_nodes(self, module: fx.GraphModule, tag: str, *rest: Any, **options: Any) -> None:
        before = -1
        while before != (left := self._tagged(module, tag)):
            before = left
            super()._detag_boundary_nodes(module, tag, *rest, **options)
            for node in module.graph.nodes:
                real = (value := dtype_of(node)) is not None and value.is_floating_point
                ends = real and node.op == "call_function" and not is_qdq(node)
                if ends and _tag(node) == tag and any(_tag(user) != tag for user in node.users):
                    del node.meta[DELEGATION_TAG]

    def _tagged(self, module: fx.GraphModule, tag: str) -> int:
        return sum(_tag(node) == tag for node in module.graph.nodes)


def _tag(node: fx.Node) -> object:
    return node.meta.get(DELEGATION_TAG)


class Without(OperatorSupportBase):
    """Refuses nodes by name."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        return node.name not in self.names


@dataclass(frozen=True)
class Answer:
    """Tags by node name, the nodes that are supported by themselves, and the codes of those that are not."""

    tags: Mapping[str, str]
    supported: frozenset[str]
    codes: Mapping[str, frozenset[str]]


def our_answer(program: ExportedProgram, target: str, refused: frozenset[str] = frozenset()) -> Answer:
    """What our partitioner says when it also refuses the nodes in `refused`."""
    twin = copy_program(program, verify=False)
    partitioner = EthosUPartitioner(EthosUCompileSpec(target), [Without(refused)])
    partitioner.partition(twin)
    codes: dict[str, set[str]] = {}
    for found in partitioner.rejections:
        codes.setdefault(found.node, set()).add(found.code)
    calls = [node.name for node in twin.graph.nodes if node.op == "call_function"]
    supported = frozenset(name for name in calls if codes.get(name, set()) <= LATER)
    return Answer(tags_of(twin.graph), supported, {name: frozenset(found) for name, found in codes.items()})


def peer_twin(program: ExportedProgram) -> ExportedProgram:
    """The same program in ExecuTorch's operators; it leaves one of torch's as it is."""
    twin = peer_program(program)
    for node in twin.graph.nodes:
        if node.op == "call_function" and target_name(node.target) == SCALAR_TENSOR:
            node.target = torch.ops.aten.scalar_tensor.default
    return twin


def peer_answer(
    program: ExportedProgram,
    target: str,
    refused: frozenset[str] = frozenset(),
    kind: type[PeerPartitioner] = PeerPartitioner,
) -> Answer:
    """What the real partitioner says when it also refuses the nodes in `refused`."""
    twin = peer_twin(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        partitioner = kind(PeerCompileSpec(target), [Without(refused)])
        with TosaLoweringContext(partitioner.tosa_spec):
            support = partitioner._create_operator_support(twin, WhyNoPartitionReporter())
            calls = [node for node in twin.graph.nodes if node.op == "call_function"]
            supported = frozenset(node.name for node in calls if support.is_node_supported({}, node))
        partitioner.partition(twin)
    return Answer(tags_of(twin.graph), supported, {})


@dataclass(frozen=True)
class Comparison:
    """The names of the listed differences that a program shows, and what they leave: (node, our tag, the real one)."""

    shown: frozenset[str]
    left: frozenset[tuple[str, str, str]]


def compare(program: ExportedProgram, target: str, listed: tuple[Difference, ...]) -> Comparison:
    """Both partitioners' tags of a program.

    Where they differ, the nodes that a listed difference explains are refused on both sides, and then every node
    must have the same tag: a difference hides nothing but itself.
    """
    ours, theirs = our_answer(program, target), peer_answer(program, target)
    if ours.tags == theirs.tags:
        return Comparison(frozenset(), frozenset())
    shown, only_ours, only_theirs = set[str](), set[str](), set[str]()
    for node in program.graph.nodes:
        about = {found.name for found in listed if found.holds(node)}
        codes = ours.codes.get(node.name, frozenset()) - LATER
        if any(source.name in only_theirs for source in node.all_input_nodes):
            about |= IMPLIED
        if node.name in theirs.supported - ours.supported and codes <= about:
            only_theirs.add(node.name)
            shown |= codes - IMPLIED
        elif node.name in ours.supported - theirs.supported:
            accepted = {one for one in about if one.startswith("accepts ")}
            only_ours |= {node.name} if accepted else set()
            shown |= accepted
    again = our_answer(program, target, frozenset(only_ours)).tags
    wanted = peer_answer(program, target, frozenset(only_theirs)).tags
    if again != wanted and any(found.name == BORDER for found in listed):
        shown.add(BORDER)
        wanted = peer_answer(program, target, frozenset(only_theirs), Sweeping).tags
    return Comparison(frozenset(shown), frozenset(different(again, wanted)))


def different(ours: Mapping[str, str], theirs: Mapping[str, str]) -> set[tuple[str, str, str]]:
    """Nodes with different tags: (name, ours, theirs)."""
    names = ours.keys() | theirs.keys()
    return {(n, ours.get(n, "-"), theirs.get(n, "-")) for n in names if ours.get(n) != theirs.get(n)}
