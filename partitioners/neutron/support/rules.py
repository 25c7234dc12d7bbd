"""All rules, by operator, and the judgement of one node."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.rules import rejection, rejections
from npu_assay.partitioners.neutron.support import activation, conv, elementwise, layout, linear, pieces, pool
from npu_assay.partitioners.neutron.support.common import fused_activation, quantized, static_shape
from npu_assay.partitioners.neutron.support.division import DIVISION_RULES
from npu_assay.partitioners.neutron.support.rescale import rescale
from npu_assay.partitioners.neutron.support.rule import Context, Rule

COMMON: tuple[Rule, ...] = (fused_activation, quantized)
RULES: Mapping[str, tuple[Rule, ...]] = {
    **activation.RULES,
    **conv.RULES,
    **elementwise.RULES,
    **layout.RULES,
    **linear.RULES,
    **pieces.RULES,
    **pool.RULES,
}
# Operators that a pass rewrites unless one of these rules stops it.
REWRITTEN: Mapping[str, tuple[Rule, ...]] = {"aten.div.Tensor": DIVISION_RULES}
UNSUPPORTED = "the operator is not in the support table"


def node_rejections(node: fx.Node, context: Context) -> tuple[Rejection, ...]:
    """Every reason why `node` alone cannot be delegated; empty when it can.

    A shape that is not known leaves nothing else to judge than quantisation.
    """
    name = target_name(node.target)
    if name not in RULES:
        return _rewritten(node, name, context)
    found = rejections((*COMMON, static_shape), node, context)
    if any(rejected.code == static_shape.code for rejected in found):
        return found
    return found + rejections((*RULES[name], rescale), node, context)


def _rewritten(node: fx.Node, name: str, context: Context) -> tuple[Rejection, ...]:
    found = rejections((static_shape,), node, context) or rejections(REWRITTEN.get(name, ()), node, context)
    return found or (rejection(node, "unsupported", name, UNSUPPORTED),)
