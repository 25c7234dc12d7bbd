"""Rules of division, which a pass turns into multiplication by constant reciprocals."""

from __future__ import annotations

import torch
from torch import fx

from npu_assay.partitioners.exir.nodes import operand, shape, size_text
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import is_dequantize, qparams
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.neutron.support.common import device_rank, operand_problem, result_problem
from npu_assay.partitioners.neutron.support.elementwise import any_dim_multiple
from npu_assay.partitioners.neutron.support.rescale import LARGEST_SCALE, LEAST_SCALE
from npu_assay.partitioners.neutron.support.rule import Context

# Closer to zero than this, a divisor counts as zero. Source: v1.3.1.
NEARLY_ZERO = 1e-12


# What stands between a whole number and the float division that it becomes a divisor of.
CASTS = frozenset({"dim_order_ops._to_dim_order_copy.default", "aten._to_copy.default"})


def divisor_source(node: fx.Node) -> fx.Node | None:
    """The node that holds the divisor, looking through a change of type; None for a number."""
    divisor = operand(node, 1)
    cast = divisor is not None and divisor.op == "call_function" and target_name(divisor.target) in CASTS
    return operand(divisor) if divisor is not None and cast else divisor


def divisor_values(node: fx.Node, context: Context) -> torch.Tensor | None:
    """The divisor in float64: its constant tensor, or a scalar tensor for a number. None when not known."""
    number, divisor = node.args[1], divisor_source(node)
    if isinstance(number, (int, float)):
        return torch.tensor(number, dtype=torch.float64)
    if divisor is None:
        return None
    params = qparams(divisor) if is_dequantize(divisor) else None
    data = context.data(divisor if params is None else divisor.args[0])
    if data is None or params is None:
        return None if data is None else data.to(torch.float64)
    return (data.to(torch.float64) - params.zero_point) * params.scale32


def reciprocal_scale(divisor: torch.Tensor) -> float:
    """The scale of the int8 codes of 1 / divisor (float64), a float32 number."""
    return (1.0 / divisor).abs().max().div(127).to(torch.float32).item()


def reciprocal_codes(divisor: torch.Tensor) -> tuple[torch.Tensor, float]:
    """int8 codes of 1 / divisor (float64), rounded half to even, and their scale."""
    scale = reciprocal_scale(divisor)
    return torch.round(1.0 / divisor / scale).to(torch.int8), scale


@rule("quantized")
def quantized(node: fx.Node, context: Context) -> str | None:
    """the operator must stand between dequantize and quantize nodes (static int8)"""
    dividend = operand(node)
    found = ["the dividend is a number" if dividend is None else operand_problem(node, dividend), result_problem(node)]
    return "; ".join(text for text in found if text is not None) or None


@rule("static_divisor")
def static_divisor(node: fx.Node, context: Context) -> str | None:
    """the divisor must be a number or a constant tensor of the dividend's shape"""
    divisor = divisor_source(node)
    if divisor is None:
        return None
    if not context.is_constant(divisor):
        return f"the divisor {divisor.name} is computed by the model"
    if shape(divisor) in ((), shape(operand(node))):
        return None
    return f"a divisor of shape {size_text(shape(divisor))} for {size_text(shape(operand(node)))}"


@rule("nonzero_divisor")
def nonzero_divisor(node: fx.Node, context: Context) -> str | None:
    """no divisor may be zero"""
    values = divisor_values(node, context)
    if values is None:
        return None
    bad = values[~(torch.isfinite(values) & (values.abs() >= NEARLY_ZERO))]
    return f"{bad.numel()} of {values.numel()} divisors are {bad[0].item():g}" if bad.numel() else None


@rule("rescale")
def reciprocals(node: fx.Node, context: Context) -> str | None:
    """the scales must be ones that 32-bit fixed-point arithmetic can hold without overflow"""
    values = divisor_values(node, context)
    if values is None or nonzero_divisor(node, context) is not None:
        return None
    if values.numel() == 0:
        return "no divisor"
    scale = reciprocal_scale(values)
    return None if LEAST_SCALE <= scale <= LARGEST_SCALE else f"reciprocals with scale {scale:.6g}"


DIVISION_RULES = (quantized, static_divisor, nonzero_divisor, reciprocals, any_dim_multiple, device_rank)
