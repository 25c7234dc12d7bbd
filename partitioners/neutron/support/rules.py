"""The judgment of one node, alone and inside a partition."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import input_qparams, output_qparams
from npu_assay.partitioners.exir.rules import rejection, rejections, rule
from npu_assay.partitioners.neutron.operators import operators
from npu_assay.partitioners.neutron.releases import FIRST, RELEASES
from npu_assay.partitioners.neutron.support.common import fused_activation, one_meaning, quantized, static_shape
from npu_assay.partitioners.neutron.support.division import DIVISION_RULES
from npu_assay.partitioners.neutron.support.rescale import scale_problem
from npu_assay.partitioners.neutron.support.rule import Context, Rule
from npu_assay.partitioners.neutron.support.stage import Partition, Stage, exclusive_dequantize, not_alone

COMMON: tuple[Rule, ...] = (fused_activation, quantized, one_meaning)
RULES_OF: Mapping[str, Mapping[str, tuple[Rule, ...]]] = {
    release: {name: row.rules for name, row in operators(release).items() if row.rules is not None}
    for release in RELEASES
}
RULES = RULES_OF[FIRST]
# Operators that a pass rewrites unless one of these rules stops it.
REWRITTEN: Mapping[str, tuple[Rule, ...]] = {"aten.div.Tensor": DIVISION_RULES}
UNSUPPORTED = "the operator is not in the support table"


@rule("rescale")
def rescale(node: fx.Node, context: Context) -> str | None:
    """the scales must be ones that 32-bit fixed-point arithmetic can hold without overflow"""
    name = target_name(node.target)
    problem = operators(context.release)[name].problem
    x, y = input_qparams(node, 1 if name == "aten.addmm.default" else 0), output_qparams(node)
    if x is None or y is None or x.defect() is not None or y.defect() is not None:
        return None
    return scale_problem(node, context) or (None if problem is None else problem(node, x, y, context))


def node_rejections(node: fx.Node, context: Context) -> tuple[Rejection, ...]:
    """Every reason why `node` alone cannot be delegated; empty when it can.

    If a shape is unknown, only quantization is checked.
    """
    name = target_name(node.target)
    rules = RULES_OF[context.release]
    if name not in rules:
        return _rewritten(node, name, context)
    found = rejections((*COMMON, static_shape), node, context)
    if any(rejected.code == static_shape.code for rejected in found):
        return found
    return found + rejections((*rules[name], rescale), node, context)


def _rewritten(node: fx.Node, name: str, context: Context) -> tuple[Rejection, ...]:
    found = rejections((static_shape,), node, context) or rejections(REWRITTEN.get(name, ()), node, context)
    return found or (rejection(node, "unsupported", name, UNSUPPORTED),)


def stage_rejections(node: fx.Node, partition: Partition, context: Context) -> tuple[Rejection, ...]:
    """Every reason why `node` cannot be delegated together with exactly these nodes."""
    found = (not_alone, exclusive_dequantize, *operators(context.release)[target_name(node.target)].stage)
    return rejections(found, node, Stage(partition, context))
