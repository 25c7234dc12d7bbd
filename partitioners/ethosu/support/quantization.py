"""Rules about scales, zero points and the types of codes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import fx

from npu_assay.partitioners.ethosu.support.common import (
    dtype_of,
    is_dequantize,
    is_named,
    is_quantize,
    quantized_inputs,
    quantized_outputs,
    readers,
)
from npu_assay.partitioners.ethosu.support.rule import Context, Rule
from npu_assay.partitioners.exir.nodes import type_text
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_CHANNEL, GETITEM, QUANTIZE_PER_CHANNEL
from npu_assay.partitioners.exir.qdq import SMALLEST_NORMAL, QParams, qparams
from npu_assay.partitioners.exir.rules import rule

CODES = (torch.int8, torch.int16)
CONSTANT_CODES = (torch.int8, torch.int16, torch.int32)
PER_CHANNEL = (QUANTIZE_PER_CHANNEL, DEQUANTIZE_PER_CHANNEL)


def origin(node: fx.Node) -> fx.Node:
    """The operator that gives the value, looking back through the selection of one of several results."""
    return node.all_input_nodes[0] if is_named(node, GETITEM) else node


def codes_behind(node: fx.Node, context: Context) -> fx.Node | None:
    """The dequantize node whose codes an operand has, looking back through what moves them; None without one."""
    while context.traits(node).moves and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node if is_dequantize(node) else None


def operand_params(node: fx.Node, context: Context) -> list[QParams]:
    """How the node's operands are quantized, per tensor, in order."""
    found = (qparams(codes_behind(source, context)) for source in origin(node).all_input_nodes)
    return [params for params in found if params is not None]


def result_params(node: fx.Node) -> list[QParams]:
    """How the node's results are quantized, per tensor, each way once."""
    found = (qparams(user) for user in readers(node) if is_quantize(user))
    return list(dict.fromkeys(params for params in found if params is not None))


# ------------------------------------------------------------------------------------ conversions alone


def codes_of(node: fx.Node) -> torch.dtype | None:
    """The type of the integers on one side of a conversion."""
    return dtype_of(node) if is_quantize(node) else dtype_of(node.all_input_nodes[0])


@rule("io_dtype")
def conversion_dtype(node: fx.Node, context: Context) -> str | None:
    """quantized values must be int8 or int16, and int32 in constants"""
    # TOSA tells unsigned numbers by flags of single operators; here there are none.
    constant = is_dequantize(node) and context.is_constant(node)
    found = codes_of(node)
    return None if found in (CONSTANT_CODES if constant else CODES) else f"{node.name} has {type_text(found)}"


@rule("scalar_qparams")
def conversion_params(node: fx.Node, context: Context) -> str | None:
    """the scale must be a positive, normal number and the zero point a code, 0 for int16"""
    # RESCALE takes positive multipliers; no operator on int16 has a zero point.
    params = qparams(node)
    return None if params is None else _defect(node, params)


def _defect(node: fx.Node, params: QParams) -> str | None:
    if not (math.isfinite(params.scale32) and params.scale32 >= SMALLEST_NORMAL):
        return f"{node.name} has scale {params.scale}"
    info = torch.iinfo(params.dtype)
    low, high = (info.min, info.max) if info.bits == 8 else (0, 0)
    return None if low <= params.zero_point <= high else f"{node.name} has zero point {params.zero_point}"


@rule("per_tensor")
def conversion_per_tensor(node: fx.Node, context: Context) -> str | None:
    """only weights and biases may have a scale per channel"""
    # RESCALE has channels in the last dimension only, and no activation has them elsewhere.
    return node.name if is_named(node, *PER_CHANNEL) and not context.is_constant(node) else None


CONVERSION = (conversion_dtype, conversion_params, conversion_per_tensor)
"""Rules of quantize and dequantize nodes."""


# ------------------------------------------------------------------------------------ around an operator


def neighbours(node: fx.Node) -> Iterator[fx.Node]:
    """The dequantize nodes before an operator and the quantize nodes after it."""
    yield from filter(is_dequantize, node.all_input_nodes)
    yield from filter(is_quantize, readers(node))


def _around(rule: Rule) -> Rule:
    """The rule of a conversion, asked of the conversions around an operator."""

    def check(node: fx.Node, context: Context) -> str | None:
        found = (rule.check(member, context) for member in neighbours(node))
        return next((text for text in found if text is not None), None)

    return Rule(rule.code, rule.sentence, check)


@rule("mixed_dtype")
def mixed_dtype(node: fx.Node, context: Context) -> str | None:
    """quantized operands and results must have the same integer type"""
    # Of operators that compute; what only moves is rescaled behind it.
    members = [member for member in neighbours(node) if not context.is_constant(member)]
    found = list(dict.fromkeys(type_text(codes_of(member)) for member in members))
    return " and ".join(found) if len(found) > 1 else None


@rule("per_tensor")
def per_tensor(node: fx.Node, context: Context) -> str | None:
    """only weights and biases may have a scale per channel"""
    # Weights and biases of products are the only operands whose channels are told apart.
    constants = set(node.args[1:3]) - {node.args[0]} if context.traits(node).is_weighted else ()
    for member in neighbours(node):
        if is_named(member, *PER_CHANNEL) and not (member in constants and context.is_constant(member)):
            return member.name
    return None


AROUND: tuple[Rule, ...] = (
    quantized_inputs,
    quantized_outputs,
    _around(conversion_dtype),
    _around(conversion_params),
    per_tensor,
)
"""Rules of all operators: real numbers exist between one dequantize and one quantize node only."""
