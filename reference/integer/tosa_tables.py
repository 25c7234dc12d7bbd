"""Functions of one number as TOSA's TABLE computes them: ATen operators by `npu_assay.reference.arithmetic.tosa`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import tosa
from npu_assay.reference.golden.aten import aten
from npu_assay.reference.integer.operand import Given, QTensor, Rule, require
from npu_assay.reference.operators.home import ByName


@ByName
def function(op: str) -> Rule:
    """An operator whose first argument is the tensor."""

    def rule(given: Given, y: Affine) -> Tensor:
        first, *rest = given
        x = given[first]
        require(isinstance(x, QTensor), op, type(x).__name__, "codes")
        options: dict[str, Any] = {name: given[name] for name in rest}
        return tosa.looked_up(x.codes, lambda reals: aten(op)(reals, **options), x.affine, y)

    return rule


@ByName
def of_number(op: str) -> Rule:
    """An operator of a tensor and a constant of one element: a function of the tensor."""

    def rule(given: Given, y: Affine) -> Tensor:
        first, second, *rest = given
        x, number = given[first], given[second]
        require(isinstance(number, QTensor) and number.codes.numel() == 1, op, "a tensor", "a number")
        other = tosa.reals_of(number.codes, number.affine).reshape(())
        options: dict[str, Any] = {name: given[name] for name in rest}
        codes = x.codes.expand_as(x.codes + number.codes)
        return tosa.looked_up(codes, lambda reals: aten(op)(reals, other, **options), x.affine, y)

    return rule
