"""How far XNNPACK's static int8 operators may be off, in output steps, beside half a step and float32's errors.

Source: the formulas of `npu_assay.reference.arithmetic.xnnpack.static`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded
from npu_assay.reference.golden.error_bound_tosa import rounded_bias, rule_of

ErrorBound = float | Tensor
Given = Mapping[str, Any]  # arguments by their schema names


def sum_(given: Given, step: float) -> ErrorBound:
    """add, sub: each operand's ratio is held in multiples of 2**-shift, half of one off, times its code."""
    operands = (given["self"], given["other"])
    ratios = [float(x.scale) / step for x in operands]
    unit = math.ldexp(1.0, math.frexp(max(ratios))[1] - 1 - 20)
    return sum((x.magnitude / x.scale * (unit / 2) for x in operands), torch.zeros((), dtype=torch.float64))


def product(given: Given, step: float) -> ErrorBound:
    """linear, convolution: the real bias is rounded to a step of the accumulator, per output channel."""
    return 0.0 if given["bias"] is None else rounded_bias(given, step)


def clamped(given: Given, step: float) -> ErrorBound:
    """relu and its kin: where the steps differ, the zero point is added in float32 before the rounding."""
    return 0.0 if given["self"].scale == step else 2.0**-15


def unchanged(given: Given, step: float) -> ErrorBound:
    """Nothing is rounded but the result."""
    return 0.0


def error_bound(op: str, given: Given, step: float) -> ErrorBound:
    """What the operator's own roundings before the last may change, broadcasting to the result."""
    x = next((value for value in given.values() if isinstance(value, Bounded)), None)
    rule = rule_of(op, "xnnpack_fp32")
    found: ErrorBound = rule(given, step) if rule is not None and x is not None and x.scale is not None else 0.0
    return found
