"""A partitioner that gives a whole program to a backend, as far as it can be given away."""

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
    """One partition of everything but the conversions at the model's own inputs and outputs, or none at all.

    spec: what the partition is for. allowed: asked about the program before it is tagged; False leaves it as it is.
    """

    def __init__(self, spec: DelegationSpec, allowed: Callable[[ExportedProgram], bool] = lambda _: True) -> None:
        super().__init__()
        self.delegation_spec = spec
        self.allowed = allowed

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the program, unless nothing in it can be given away or it is not allowed."""
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
