"""ExecuTorch's own EthosUPartitioner on our edge programs, next to ours."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.fx.passes.operator_support import OperatorSupportBase

from npu_assay.conformance.run.partitioning import tags_of
from npu_assay.partitioners.ethosu.compile_spec import EthosUCompileSpec
from npu_assay.partitioners.ethosu.partitioner import EthosUPartitioner
from npu_assay.partitioners.ethosu.support.common import dtype_of, is_qdq
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.program import copy_program
from tests.crosscheck.executorch.agreement import Comparison, Difference
from tests.crosscheck.executorch.peer import peer_program

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses parts of itself, of torch and of Python that are deprecated
    from executorch.backends.arm.ethosu import EthosUCompileSpec as PeerCompileSpec
    from executorch.backends.arm.ethosu import EthosUPartitioner as PeerPartitioner
    from executorch.backends.arm.tosa import partitioner as peer_module
    from executorch.backends.arm.tosa.specification import TosaLoweringContext
    from executorch.exir.backend.utils import WhyNoPartitionReporter

__all__ = [
    "Answer",
    "Comparison",
    "PeerCompileSpec",
    "PeerPartitioner",
    "compare",
    "our_answer",
    "peer_answer",
    "peer_tags",
]

logging.getLogger("executorch").setLevel(logging.ERROR)

_components = peer_module._find_connected_components


def _in_graph_order(nodes: set[fx.Node]) -> list[set[fx.Node]]:
    """The pieces of a partition that had a cycle; by themselves they come in another order in every process."""
    at = {node: index for index, node in enumerate(next(iter(nodes)).graph.nodes)}
    return sorted(_components(nodes), key=lambda piece: min(at[node] for node in piece))


peer_module._find_connected_components = _in_graph_order
BORDER = "real_output"
ACCEPTS, FAILS = "accepts ", "fails "
"""How the names of differences begin that are no rejections of ours."""
FAILED = "failed"
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
    """Refuses nodes by name, and asks nobody about them."""

    def __init__(self, names: frozenset[str], inner: OperatorSupportBase | None = None) -> None:
        self.names = names
        self.inner = inner

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        return node.name not in self.names and (self.inner is None or self.inner.is_node_supported(submodules, node))


@dataclass(frozen=True)
class Answer:
    """Tags by node name, the nodes that are supported by themselves, and the codes of those that are not.

    `failed` are the nodes about which the real partitioner cannot say anything: its check ends with an error.
    """

    tags: Mapping[str, str]
    supported: frozenset[str]
    codes: Mapping[str, frozenset[str]]
    failed: frozenset[str] = frozenset()


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
    """The same program in ExecuTorch's operators, and with the types of the outputs as its own programs have them.

    It leaves one operator of torch's as it is.
    """
    twin = peer_program(program)
    for node in twin.graph.nodes:
        if node.op == "call_function" and target_name(node.target) == SCALAR_TENSOR:
            node.target = torch.ops.aten.scalar_tensor.default
        elif node.op == "output":
            node.meta["val"] = [source.meta["val"] for source in node.all_input_nodes]
    return twin


def peer_answer(
    program: ExportedProgram,
    target: str,
    refused: frozenset[str] = frozenset(),
    kind: type[PeerPartitioner] = PeerPartitioner,
) -> Answer:
    """What the real partitioner says when it also refuses the nodes in `refused`, and those where it fails."""
    tags = peer_tags(program, target, refused, kind)
    supported, failed = _checked(program, target)
    if tags is None:
        tags = peer_tags(program, target, refused | failed, kind)
    assert tags is not None, "it fails at something that is not one node"
    return Answer(tags, supported - refused, {}, failed)


def peer_tags(
    program: ExportedProgram,
    target: str,
    refused: frozenset[str] = frozenset(),
    kind: type[PeerPartitioner] = PeerPartitioner,
) -> Mapping[str, str] | None:
    """The real partitioner's tags when it also refuses the nodes in `refused`; None when it ends with an error."""
    twin, partitioner = peer_twin(program), _partitioner(target, kind)
    if refused:
        make = partitioner._create_operator_support
        partitioner._create_operator_support = lambda *args: Without(refused, make(*args))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            partitioner.partition(twin)
        except Exception:  # noqa: BLE001  # of whatever kind: which nodes it is about is asked next
            return None
    return tags_of(twin.graph)


def _checked(program: ExportedProgram, target: str) -> tuple[frozenset[str], frozenset[str]]:
    """The nodes that the real partitioner takes by themselves, and those where it ends with an error."""
    twin, partitioner = peer_twin(program), _partitioner(target, PeerPartitioner)
    supported, failed = set[str](), set[str]()
    with warnings.catch_warnings(), TosaLoweringContext(partitioner.tosa_spec):
        warnings.simplefilter("ignore")
        support = partitioner._create_operator_support(twin, WhyNoPartitionReporter())
        for node in twin.graph.nodes:
            try:
                if node.op == "call_function" and support.is_node_supported({}, node):
                    supported.add(node.name)
            except Exception:  # noqa: BLE001  # as above
                failed.add(node.name)
    return frozenset(supported), frozenset(failed)


@cache
def _spec(target: str) -> PeerCompileSpec:
    return PeerCompileSpec(target)


def _partitioner(target: str, kind: type[PeerPartitioner]) -> Any:
    return kind(_spec(target))


def compare(program: ExportedProgram, target: str, listed: tuple[Difference, ...]) -> Comparison:
    """Both partitioners' tags of a program.

    Where they differ, the nodes that a listed difference explains are refused on both sides, and then every node
    must have the same tag: a difference hides nothing but itself.
    """
    ours = our_answer(program, target)
    if ours.tags == peer_tags(program, target):
        return Comparison(frozenset(), frozenset())
    theirs = peer_answer(program, target)
    shown, only_ours, only_theirs = set[str](), set[str](), set[str]()
    for node in program.graph.nodes:
        about = {found.name for found in listed if found.holds(node)}
        codes = ours.codes.get(node.name, frozenset()) - LATER
        implied = IMPLIED if any(source.name in only_theirs for source in node.all_input_nodes) else frozenset()
        if node.name in theirs.failed:
            failures = {one for one in about if one.startswith(FAILS)}
            only_ours |= {node.name} if failures else set()
            shown |= failures
        elif node.name in theirs.supported - ours.supported and codes <= about | implied:
            only_theirs.add(node.name)
            shown |= codes - implied
        elif node.name in ours.supported - theirs.supported:
            accepted = {one for one in about if one.startswith(ACCEPTS)}
            only_ours |= {node.name} if accepted else set()
            shown |= accepted
    again = our_answer(program, target, frozenset(only_ours)).tags
    wanted = peer_answer(program, target, frozenset(only_theirs)).tags
    if again != wanted and any(found.name == BORDER for found in listed):
        shown.add(BORDER)
        wanted = peer_answer(program, target, frozenset(only_theirs), Sweeping).tags
    silent = {(name, FAILED, FAILED) for name in theirs.failed - only_ours}
    return Comparison(frozenset(shown), frozenset(different(again, wanted) | silent))


def different(ours: Mapping[str, str], theirs: Mapping[str, str]) -> set[tuple[str, str, str]]:
    """Nodes with different tags: (name, ours, theirs)."""
    names = ours.keys() | theirs.keys()
    return {(n, ours.get(n, "-"), theirs.get(n, "-")) for n in names if ours.get(n) != theirs.get(n)}
