"""Compares the tags of our XnnpackPartitioner with the real one's, given the differences that we stand by.

A difference says which operators one of the two refuses and the other does not. Where tags differ, these operators
are refused on both sides, and then every node must have the same tag: a difference hides nothing but itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.conformance.run.partitioning import tags_of
from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.nodes import argument, operand, shape
from npu_assay.partitioners.exir.ops import DEQUANTIZE_DYNAMIC, DEQUANTIZE_PER_TENSOR, target_name
from npu_assay.partitioners.exir.program import copy_program
from npu_assay.partitioners.exir.rules import rejection
from npu_assay.partitioners.xnnpack import XnnpackPartitioner, backend
from npu_assay.partitioners.xnnpack.site import Site
from tests.crosscheck.executorch.peer import peer_accepts, peer_tags

Tags = Mapping[str, str]
Holds = Callable[[fx.Node], bool]
NO_TAG = "-"
CONVOLUTION = "aten.convolution.default"
LINEAR = "aten.linear.default"


def always(_: fx.Node) -> bool:
    return True


@dataclass(frozen=True)
class Difference:
    """Operators that only one of the two delegates.

    name: as in docs/decisions.md; for what we refuse, the code of our rejection. reason: why we differ.
    example: a case's id or a random program's seed that shows it. holds: which nodes it is about.
    """

    name: str
    reason: str
    example: str | int
    holds: Holds = always


@dataclass(frozen=True)
class Listed:
    """The differences that we stand by: what we refuse and the real partitioner takes, and the other way round."""

    refused: tuple[Difference, ...] = ()
    accepted: tuple[Difference, ...] = ()

    def explaining(self, node: fx.Node, accepted: bool, reasons: tuple[str, ...]) -> frozenset[str]:
        """The differences that explain what we said about a node; none where one of our reasons is not listed."""
        if accepted:
            return frozenset(found.name for found in self.accepted if found.holds(node))
        about = {found.name for found in self.refused if found.holds(node)}
        return frozenset(reasons) if about.issuperset(reasons) else frozenset()


class _Refusing(XnnpackPartitioner):
    """Ours, that refuses some nodes more."""

    refused: frozenset[str] = frozenset()

    def _own_rejections(self, node: fx.Node, sites: Mapping[fx.Node, Site]) -> tuple[Rejection, ...]:
        found = super()._own_rejections(node, sites)
        return (*found, rejection(node, "listed", "", "")) if node.name in self.refused else found


@dataclass(frozen=True)
class Answer:
    """Our tags, and our reasons by node."""

    tags: Tags
    reasons: Mapping[str, tuple[str, ...]]


def our_answer(program: ExportedProgram, options: Mapping[str, Any], refused: frozenset[str] = frozenset()) -> Answer:
    """What our partitioner says, when it also refuses the nodes in `refused`."""
    twin = copy_program(program, verify=False)
    partitioner = backend.partitioner(**dict(options))
    assert isinstance(partitioner, XnnpackPartitioner)
    partitioner.__class__ = _Refusing
    vars(partitioner)["refused"] = refused
    partitioner.partition(twin)
    reasons: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for found in partitioner.rejections:
        reasons[found.node] += (found.code,)
    return Answer(tags_of(twin.graph), reasons)


@dataclass(frozen=True)
class Comparison:
    """The names of the listed differences that a program shows, and what they leave: (node, our tag, the real one)."""

    shown: frozenset[str]
    left: frozenset[tuple[str, str, str]]


def compare(program: ExportedProgram, options: Mapping[str, Any], listed: Listed) -> Comparison:
    """Both partitioners' tags of a program."""
    ours, theirs = our_answer(program, options), peer_tags(program, options)
    if ours.tags == theirs:
        return Comparison(frozenset(), frozenset())
    shown, only_ours, only_theirs, data = set[str](), set[str](), set[str](), set[str]()
    for node in program.graph.nodes:
        accepted = node.name in ours.tags
        explained = listed.explaining(node, accepted, ours.reasons.get(node.name, ()))
        if explained and node.op == "placeholder" and accepted and {user.name for user in node.users} <= theirs.keys():
            data.add(node.name)
        elif explained and node.op == "call_function" and accepted != peer_accepts(program, node.name, options):
            (only_ours if accepted else only_theirs).add(node.name)
        else:
            continue
        shown |= explained
    again = our_answer(program, options, frozenset(only_ours)).tags
    theirs = peer_tags(program, options, frozenset(only_theirs))
    left = {found for found in _different(again, theirs) if not (found[0] in data and found[2] == NO_TAG)}
    return Comparison(frozenset(shown), frozenset(left))


def _different(ours: Tags, theirs: Tags) -> set[tuple[str, str, str]]:
    """Nodes with different tags: (name, ours, theirs)."""
    names = ours.keys() | theirs.keys()
    return {(n, ours.get(n, NO_TAG), theirs.get(n, NO_TAG)) for n in names if ours.get(n) != theirs.get(n)}


# ------------------------------------------------------------------------------------ what differences are about


def named(*names: str) -> Holds:
    """The operators of these names."""
    return lambda node: target_name(node.target) in names


def all_of(*conditions: Holds) -> Holds:
    """Every condition."""
    return lambda node: all(condition(node) for condition in conditions)


def of_dtype(dtype: torch.dtype) -> Holds:
    """Results of this type."""
    return lambda node: isinstance(node.meta.get("val"), torch.Tensor) and node.meta["val"].dtype == dtype


def on_unsigned_codes(node: fx.Node) -> bool:
    """Whether an operand or the result, directly or behind one operator, is quantized to something else than int8."""
    near = {*node.all_input_nodes, *node.users}
    near |= {source for found in node.all_input_nodes for source in found.all_input_nodes}
    near |= {user for found in node.users for user in found.users}
    codes = [argument(n, 5, "dtype", torch.int8) for n in near if "quantize_per_tensor" in target_name(n.target)]
    return any(dtype != torch.int8 for dtype in codes)


def weight(node: fx.Node) -> fx.Node | None:
    """The second operand."""
    return operand(node, 1)


def is_dynamic(node: fx.Node) -> bool:
    """Whether the first operand is quantized at run time."""
    source = operand(node, 0)
    return source is not None and target_name(source.target) in DEQUANTIZE_DYNAMIC


def quantises_other_reals(node: fx.Node) -> bool:
    """Whether the first operand is quantized at run time from something else than float32."""
    codes = operand(node.all_input_nodes[0]) if is_dynamic(node) else None
    return codes is not None and codes.all_input_nodes[0].meta["val"].dtype != torch.float32


def has_per_tensor_weight(node: fx.Node) -> bool:
    found = weight(node)
    return found is not None and target_name(found.target) == DEQUANTIZE_PER_TENSOR


def has_weight_of_rank(rank: int) -> Holds:
    """The second operand has this rank."""

    def holds(node: fx.Node) -> bool:
        found = weight(node)
        return found is not None and len(shape(found)) == rank

    return holds


def is_bias_of_convolution(node: fx.Node) -> bool:
    """Whether only convolutions take it, as their third operand."""
    users = list(node.users)
    return bool(users) and all(user.args[2:3] == (node,) and named(CONVOLUTION)(user) for user in users)
