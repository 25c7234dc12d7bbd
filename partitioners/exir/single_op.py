"""The simplest integer backend: each delegate is one operator between dequantize and quantize nodes.

Begin a backend with it. A `Cluster` is such an operator with its nodes; `ClusterPartitioner` tags those that the
backend's rules allow, and gives reasons for the others; `only_cluster` finds it again in `preprocess`, and
`only_plain` an operator on numbers that are not quantized. A backend whose delegates hold several operators needs more
than this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG, DelegationSpec, Partitioner, PartitionResult
from npu_assay.partitioners.exir.cluster import (
    ACTIVATIONS,
    WEIGHTED,
    Takes,
    activation_bounds,
    find_cluster,
    obstacle,
)
from npu_assay.partitioners.exir.cluster import Cluster as Cluster
from npu_assay.partitioners.exir.cluster import Operand as Operand
from npu_assay.partitioners.exir.cluster import only_cluster as only_cluster
from npu_assay.partitioners.exir.constants import constant_values, tag_constant_data
from npu_assay.partitioners.exir.nodes import shape, size_text
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.plain_operator import PlainOperator as PlainOperator
from npu_assay.partitioners.exir.plain_operator import find_plain, other_types
from npu_assay.partitioners.exir.plain_operator import only_plain as only_plain
from npu_assay.partitioners.exir.qdq import QParams, output_qparams
from npu_assay.partitioners.exir.rules import Rule, rejection, rejections, rule

QUANTIZED = "the operator must stand between dequantize and quantize nodes"
PLAIN = "operands and results that are not quantized must have one of the types that the operator is computed in"


class ClusterPartitioner(Partitioner):
    """Tags every cluster whose operator has rules, all of which hold; each is a delegate of its own.

    A backend's partitioner sets `backend_id`, the name of its compiler, and `rules`: by operator, functions
    made with `npu_assay.partitioners.exir.rules.rule`. The rules `quantized` and `static_shape` hold for every
    operator. `dtypes` are the types of codes that it takes; a constant bias may also have codes of 32 bits.
    `activations` are those that are fused with the convolution or linear operator before them, as quantizers leave
    them: the cluster's `output` then has the codes to which they clamp its result. `per_channel` says whether it takes
    constants that are quantized per channel, and `numbers` whether operands may be plain numbers: `describe` gives one
    as the code 1 or -1, with its size as the scale.

    `plain` are, by operator, the types that it takes where nothing is quantized: {"aten.add.Tensor": (torch.float32,
    torch.int32)}. Its rules then get None for the cluster, `only_plain` finds it again in `preprocess`, and other types
    are rejected for `dtype`.
    """

    backend_id: ClassVar[str]
    dtypes: ClassVar[Collection[torch.dtype]] = (torch.int8,)
    activations: ClassVar[Collection[str]] = ACTIVATIONS
    per_channel: ClassVar[bool] = False
    numbers: ClassVar[bool] = False
    rules: ClassVar[Mapping[str, Sequence[Rule[Any]]]] = MappingProxyType({})
    plain: ClassVar[Mapping[str, Collection[torch.dtype]]] = MappingProxyType({})

    def __init__(self) -> None:
        super().__init__()
        self.rejections: list[Rejection] = []

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the clusters; constants get the tag of their users. `rejections` then has the reasons for all others."""
        self.rejections = []
        constants = constant_values(exported_program)
        tags: dict[str, DelegationSpec] = {}
        taken = set[fx.Node]()
        for node in exported_program.graph.nodes:
            if node in taken or not self._is_known(node):
                continue
            cluster, found = self._judged(node, constants)
            self.rejections += found
            if cluster is not None and not found:
                tag = f"{self.backend_id}_{len(tags)}"
                tags[tag] = DelegationSpec(self.backend_id, [])
                for member in cluster.members:
                    member.meta[DELEGATION_TAG] = tag
                taken |= {*cluster.members} - {node}
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)

    def _judged(
        self, node: fx.Node, constants: Mapping[str, torch.Tensor | None]
    ) -> tuple[Cluster | PlainOperator | None, list[Rejection]]:
        """The node's cluster, or itself where it takes plain numbers, and the reasons to reject it."""
        plain = find_plain(node, constants) if target_name(node.target) in self.plain else None
        if plain is not None:
            return plain, self._judged_plain(plain)
        takes = Takes(self.dtypes, self.activations, self.per_channel, self.numbers)
        cluster = find_cluster(node, constants, takes)
        missing = obstacle(node, constants, takes)
        found = rejections((_static_shape, *self.rules[target_name(node.target)]), node, cluster)
        quantized = [] if missing is None else [rejection(node, "quantized", missing, QUANTIZED)]
        return cluster, [*quantized, *found]

    def _judged_plain(self, found: PlainOperator) -> list[Rejection]:
        other = other_types(found, self.plain[found.op])
        typed = [] if other is None else [rejection(found.node, "dtype", other, PLAIN)]
        return [*typed, *rejections((_static_shape, *self.rules[found.op]), found.node, None)]

    def _is_known(self, node: fx.Node) -> bool:
        return node.op == "call_function" and target_name(node.target) in self.rules


@rule("same_qparams")
def same_qparams(node: fx.Node, cluster: Cluster | None) -> str | None:
    """every operand and the result must have the same scale and zero point"""
    if cluster is None:
        return None
    y = cluster.output
    others = (o.qparams for o in cluster.operands if not o.qparams.same_values(y))
    return next((f"({x.scale}, {x.zero_point}) and ({y.scale}, {y.zero_point})" for x in others), None)


@rule("unfused")
def unfused(node: fx.Node, cluster: Cluster | None) -> str | None:
    """no activation may stand between the operator and the quantize node after it"""
    behind = [user for user in node.users if activation_bounds(user) is not None]
    fused = target_name(node.target) in WEIGHTED and any(output_qparams(user) is not None for user in behind)
    return f"{behind[0].name} is not after a quantize node" if fused else None


def lookup_table(function: Callable[[torch.Tensor], torch.Tensor], x: QParams, y: QParams) -> torch.Tensor:
    """`function` of all 256 codes of `x`, from -128 up, in LSB of `y`: int32, rounded half to even.

    The zero point of `y` is not added; results saturate only to int32.
    """
    reals = (torch.arange(-128, 128, dtype=torch.float64) - x.zero_point) * x.scale32
    return torch.round(function(reals) / y.scale32).clamp(-(2.0**31), 2.0**31 - 1).to(torch.int32)


@rule("static_shape")
def _static_shape(node: fx.Node, cluster: Cluster | None) -> str | None:
    """every dimension must be a known number, at least 1"""
    for each in (node, *node.all_input_nodes):
        if not all(isinstance(size, int) and size > 0 for size in shape(each)):
            return f"{each.name}: {size_text(shape(each))}"
    return None
