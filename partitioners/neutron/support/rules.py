"""All rules, by operator, and the judgement of one node."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.rules import rejection
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
    found = _broken(node, context, (*COMMON, static_shape))
    if any(rejected.code == static_shape.code for rejected in found):
        return found
    return found + _broken(node, context, (*RULES[name], rescale))


def _rewritten(node: fx.Node, name: str, context: Context) -> tuple[Rejection, ...]:
    found = _broken(node, context, (static_shape,)) or _broken(node, context, REWRITTEN.get(name, ()))
    return found or (rejection(node, "unsupported", name, UNSUPPORTED),)


def _broken(node: fx.Node, context: Context, rules: tuple[Rule, ...]) -> tuple[Rejection, ...]:
    found = (one(node, context) for one in rules)
    return tuple(rejected for rejected in found if rejected is not None)
