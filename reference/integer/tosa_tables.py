"""Functions of one number as TOSA's TABLE computes them: entries in float32, made by torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine, float32
from npu_assay.reference.golden.aten import aten
from npu_assay.reference.golden.slack_tosa import TABLES
from npu_assay.reference.integer.operand import Given, QTensor, Rule, require
from npu_assay.reference.integer.tosa_rescale import quantised, reals_of, saturated, shifted, step

FRACTION = 7
"""Bits of a 16-bit code between two entries."""

OF_NUMBER = frozenset({"aten.div.Tensor_mode", "aten.pow.Tensor_Tensor", "aten.remainder.Tensor"})
"""Operators of two tensors, the second a constant of one element; the others' further arguments are numbers."""


def looked_up(x: QTensor, function: Callable[[Tensor], Tensor], y: Affine) -> Tensor:
    """A function of float32 numbers, between codes of the same type."""
    if x.codes.dtype == torch.int8:
        entries = quantised(function(reals_of(torch.arange(-128, 128), x)), y)
        return entries[x.codes.long() + 128]
    nodes = torch.arange(-(2**15), 2**15 + 1, 1 << FRACTION)
    reals = (nodes.to(torch.float32) - x.zero_point) * float32(step(x))
    entries = quantised(function(reals), y).long()
    codes = x.codes.long()
    below = (codes >> FRACTION) + (1 << (15 - FRACTION))
    slope = entries[below + 1] - entries[below]
    fine = (entries[below] << FRACTION) + slope * (codes & ((1 << FRACTION) - 1))
    return saturated(shifted(fine, 2.0**-FRACTION), y)


def function(op: str) -> Rule:
    """An operator whose first argument is the tensor."""

    def rule(given: Given, y: Affine) -> Tensor:
        first, *rest = given
        x = given[first]
        require(isinstance(x, QTensor), op, type(x).__name__, "codes")
        options: dict[str, Any] = {name: given[name] for name in rest}
        return looked_up(x, lambda reals: aten(op)(reals, **options), y)

    return rule


def of_number(op: str) -> Rule:
    """An operator of a tensor and a constant of one element: a function of the tensor."""

    def rule(given: Given, y: Affine) -> Tensor:
        first, second, *rest = given
        x, number = given[first], given[second]
        require(isinstance(number, QTensor) and number.codes.numel() == 1, op, "a tensor", "a number")
        other = reals_of(number.codes, number).reshape(())
        options: dict[str, Any] = {name: given[name] for name in rest}
        return looked_up(x, lambda reals: aten(op)(reals, other, **options), y)

    return rule


RULES: Mapping[str, Rule] = MappingProxyType({op: (of_number if op in OF_NUMBER else function)(op) for op in TABLES})
