"""Element-wise operators and softmax."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import tflite
from npu_assay.reference.golden.error_bound import reciprocal_scale
from npu_assay.reference.integer.operand import Given, QTensor, Rule, binary, operand, requantised, require

# ------------------------------------------------------------------------------------ element-wise


def unary(function: Callable[[Tensor, Affine, Affine], Tensor]) -> Rule:
    def rule(given: Given, y: Affine) -> Tensor:
        x = operand(given, "self")
        return function(x.codes, x.affine, y)

    return rule


abs_, sigmoid, tanh = unary(tflite.abs_), unary(tflite.logistic), unary(tflite.tanh)
exp, log = unary(tflite.exp), unary(tflite.log)
add = binary("aten.add.Tensor", tflite.add)
sub = binary("aten.sub.Tensor", tflite.sub)
mul = binary("aten.mul.Tensor", tflite.mul)


def _extreme(function: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    """Operands in the quantization of the result, and of two codes one."""

    def rule(given: Given, y: Affine) -> Tensor:
        a, b = (requantised(x.codes, x.affine, y) for x in (operand(given, "self"), operand(given, "other")))
        return function(a, b)

    return rule


maximum, minimum = _extreme(torch.maximum), _extreme(torch.minimum)


def neg(given: Given, y: Affine) -> Tensor:
    """A subtraction from the code of zero."""
    x = operand(given, "self")
    zero = torch.full_like(x.codes, x.zero_point)
    return tflite.sub(zero, x.codes, x.affine, x.affine, y)


def div(given: Given, y: Affine) -> Tensor:
    """Times the divisor's reciprocals, held as symmetric int8 codes."""
    x = operand(given, "self")
    divisor = given["other"]
    if isinstance(divisor, QTensor):
        require(not isinstance(divisor.scale, tuple), "aten.div.Tensor", "a scale per channel", "one scale")
        divisor = (divisor.codes - divisor.zero_point).to(torch.float32) * divisor.affine.scale32
    reciprocal = 1 / torch.as_tensor(divisor, dtype=torch.float32)
    require(bool(torch.isfinite(reciprocal).all()), "aten.div.Tensor", "a zero divisor", "none")
    held = Affine(reciprocal_scale(reciprocal), 0)
    codes = torch.round(reciprocal / held.scale32).clamp_(-127, 127).to(torch.int8)
    return tflite.mul(x.codes, codes, x.affine, held, y)


def limits(lower: str | float, upper: str | float | None) -> Rule:
    """relu and its kin: limits are numbers, or the names of the arguments that hold them."""

    def rule(given: Given, y: Affine) -> Tensor:
        x = operand(given, "self")
        lo, hi = (given[limit] if isinstance(limit, str) else limit for limit in (lower, upper))
        hi = None if hi == float("inf") else hi
        return tflite.relu(x.codes, lo, hi, x.affine, y)

    return rule


relu, relu6 = limits(0.0, None), limits(0.0, 6.0)
hardtanh, clamp = limits("min_val", "max_val"), limits("min", "max")


def leaky_relu(given: Given, y: Affine) -> Tensor:
    x = operand(given, "self")
    return tflite.leaky_relu(x.codes, float(given["negative_slope"]), x.affine, y)


def prelu(given: Given, y: Affine) -> Tensor:
    """Slopes along dim 1, which is last in channels-last; of a vector one slope."""
    x, slopes = operand(given, "self"), operand(given, "weight")
    if x.codes.dim() < 2:
        return tflite.prelu(x.codes, slopes.codes.reshape([-1] * x.codes.dim()), slopes.affine, x.affine, y)
    last = tflite.prelu(x.codes.movedim(1, -1), slopes.codes.reshape(-1), slopes.affine, x.affine, y)
    return last.movedim(-1, 1).contiguous()


def softmax(given: Given, y: Affine) -> Tensor:
    x, dim = operand(given, "self"), given["dim"]
    rows = tflite.softmax(x.codes.movedim(dim, -1), 1.0, x.affine)
    return requantised(rows.movedim(-1, dim).contiguous(), tflite.OUTPUT, y)


# ------------------------------------------------------------------------------------ sums of products
