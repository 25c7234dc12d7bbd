"""The slack of XNNPACK's static int8 operators, in output steps, beside half a step and float32's relative errors.

Source: the formulas of `npu_assay.reference.arithmetic.xnnpack.static`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded

Slack = float | Tensor
Given = Mapping[str, Any]  # arguments by their schema names


def _sum(given: Given, step: float) -> Slack:
    """add, sub: each operand's ratio is held in multiples of 2**-shift, half of one off, times its code."""
    operands = (given["self"], given["other"])
    ratios = [float(x.scale) / step for x in operands]
    unit = math.ldexp(1.0, math.frexp(max(ratios))[1] - 1 - 20)
    return sum((x.magnitude / x.scale * (unit / 2) for x in operands), torch.zeros((), dtype=torch.float64))


def _products(given: Given, step: float) -> Slack:
    """linear, convolution: the real bias is rounded to a step of the accumulator, per output channel.

    A transposed convolution has the scales of one group's outputs; all groups share them.
    """
    x, weight, bias = given["input"], given["weight"], given["bias"]
    if bias is None:
        return 0.0
    scales = weight.scale if isinstance(weight.scale, tuple) else (weight.scale,)
    halves = [0.5 * x.scale * scale / step for scale in scales] * (given["groups"] if given.get("transposed") else 1)
    if len(scales) == 1:
        return float(halves[0])
    rank = x.value.dim() - 2 if "transposed" in given else 0
    return torch.tensor(halves, dtype=torch.float64).reshape(-1, *[1] * rank)


def _clamp(given: Given, step: float) -> Slack:
    """relu and its kin: where the steps differ, the zero point is added in float32 before the rounding."""
    return 0.0 if given["self"].scale == step else 2.0**-15


_RULES: Mapping[str, Callable[[Given, float], Slack]] = MappingProxyType(
    {
        "aten.add.Tensor": _sum,
        "aten.sub.Tensor": _sum,
        "aten.linear.default": _products,
        "aten.convolution.default": _products,
        "aten.relu.default": _clamp,
        "aten.relu6.default": _clamp,
        "aten.hardtanh.default": _clamp,
        "aten.clamp.default": _clamp,
    }
)


def slack(op: str, given: Given, step: float) -> Slack:
    """What the operator's own roundings before the last may change, broadcasting to the result."""
    x = next((value for value in given.values() if isinstance(value, Bounded)), None)
    return _RULES[op](given, step) if op in _RULES and x is not None and x.scale is not None else 0.0
