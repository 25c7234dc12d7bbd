"""All rules, by operator, and the judgment of one node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

from torch import fx

from npu_assay.partitioners.ethosu.operators import OPERATORS
from npu_assay.partitioners.ethosu.support.common import (
    ANY_DEQUANTIZE,
    ANY_QUANTIZE,
    EVERY_NODE,
    along_dims,
    inputs,
    is_empty,
    matrix_of_weights,
    not_empty,
    static_shape,
)
from npu_assay.partitioners.ethosu.support.quantization import AROUND, operand_params, result_params
from npu_assay.partitioners.ethosu.support.rule import Context, Rule
from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.rules import rejection, rejections, rule

RULES: Mapping[str, tuple[Rule, ...]] = {
    name: (*row.first, *row.rules) for name, row in OPERATORS.items() if row.rules is not None
}
"""Limits of Ethos-U85's operators, those without which the others cannot be asked at first."""
UNMEASURABLE = frozenset({static_shape.code, not_empty.code, along_dims.code, matrix_of_weights.code})
CONTROL_FLOW = frozenset({"cond", "while_loop"})
REFUSED: Mapping[str, str] = {
    "unsupported": "the NPU has no such operator",
    "control_flow": "bodies of conditions and loops are not delegated",
}
"""Sentences on operators without rules, by code."""


@rule("rescale")
def rescale(node: fx.Node, context: Context) -> str | None:
    """the scales must be ones that 32-bit fixed-point arithmetic can hold without overflow"""
    # The device's results are unpredictable elsewhere.
    if any(not 0 < one.scale < math.inf for one in (*operand_params(node, context), *result_params(node))):
        return None
    found = OPERATORS[target_name(node.target)].scalings
    return None if found is None else next((text for one in found(node, context) if (text := one.defect())), None)


def supported_operators(is_u55: bool) -> frozenset[str]:
    """The names of the operators that the target has."""
    return frozenset(name for name in RULES if OPERATORS[name].on_u55 or not is_u55)


def all_rules() -> tuple[Rule, ...]:
    """Every rule that one node alone can break."""
    groups = (EVERY_NODE, AROUND, (rescale,), *RULES.values())
    return tuple(dict.fromkeys(rule for group in groups for rule in group))


def node_rejections(node: fx.Node, context: Context) -> tuple[Rejection, ...]:
    """Every reason why `node` alone cannot be delegated; empty when it can.

    If an operand's shape is unknown or empty, or a scalar's where an axis is needed, only the rules of every operator
    are checked.
    """
    name = target_name(node.target)
    if name in CONTROL_FLOW:
        return (rejection(node, "control_flow", name, REFUSED["control_flow"]),)
    if name not in supported_operators(context.is_u55):
        return (rejection(node, "unsupported", name, REFUSED["unsupported"]),)
    own, (*every, last) = RULES[name], EVERY_NODE
    first = (one for one in own if one in OPERATORS[name].first)
    found = _once((), rejections((*every, *first, last), node, context))
    if not _is_measurable(node, {rejected.code for rejected in found}):
        return found
    around = () if name in ANY_QUANTIZE | ANY_DEQUANTIZE else AROUND
    return found + _once(found, rejections((*own, *around, rescale), node, context))


def _is_measurable(node: fx.Node, codes: Set[str]) -> bool:
    """Whether the operator's own rules can be asked, too. That a result is empty is what some of them explain."""
    empty_result_only = not any(is_empty(tensor.shape) for _, tensor in inputs(node))
    return not codes & (UNMEASURABLE - {not_empty.code} if empty_result_only else UNMEASURABLE)


def _once(before: tuple[Rejection, ...], found: tuple[Rejection, ...]) -> tuple[Rejection, ...]:
    """The rejections that say something new."""
    return tuple(one for one in dict.fromkeys(found) if one not in before)
