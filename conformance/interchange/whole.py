"""A partitioner that delegates a whole program to a backend, as one partition."""

from __future__ import annotations

from collections.abc import Callable

from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from npu_assay.partitioners.exir import DelegationSpec, Partitioner, PartitionResult, tag_constant_data
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.partitioners.exir.constants import placeholders
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE, target_name

TAG = "whole"


class Whole(Partitioner):
    """Tags one partition of everything between the model's inputs and outputs, or nothing.

    spec: of the partition. allowed: called with the program before it is tagged; False leaves it untagged.
    """

    def __init__(self, spec: DelegationSpec, allowed: Callable[[ExportedProgram], bool] = lambda _: True) -> None:
        super().__init__()
        self.delegation_spec = spec
        self.allowed = allowed

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the program, unless it has no inner nodes or `allowed` returns False."""
        inside = inner_nodes(exported_program)
        if not inside or not self.allowed(exported_program):
            return PartitionResult(exported_program, {})
        for node in inside:
            node.meta[DELEGATION_TAG] = TAG
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, {TAG: self.delegation_spec})


def inner_nodes(program: ExportedProgram) -> list[fx.Node]:
    """The operators between the quantize nodes of inputs and the dequantize nodes of outputs."""
    inputs = {node for node, spec in placeholders(program) if spec.kind == InputKind.USER_INPUT}
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    return [node for node in calls if not _enters(node, inputs) and not _leaves(node)]


def _enters(node: fx.Node, inputs: set[fx.Node]) -> bool:
    return target_name(node.target) in QUANTIZE and node.args[0] in inputs


def _leaves(node: fx.Node) -> bool:
    return target_name(node.target) in DEQUANTIZE and all(user.op == "output" for user in node.users)
