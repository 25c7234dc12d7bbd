"""Sums, products, quotients and comparisons, with numbers among their operands."""

from __future__ import annotations

import torch
from torch import fx
from torch._ops import OpOverload

from npu_assay.partitioners.ethosu.rewriting.writer import Rewrite, Writer, tensor

aten = torch.ops.aten
Operand = fx.Node | float


def _pair(w: Writer, x: Operand, y: Operand) -> tuple[fx.Node, fx.Node]:
    """Both operands as tensors."""
    like = x if isinstance(x, fx.Node) else y
    assert isinstance(like, fx.Node)  # of two numbers torch makes one
    first, second = (each if isinstance(each, fx.Node) else w.number(each, like) for each in (x, y))
    return first, second


def with_alpha(target: OpOverload) -> Rewrite:
    """A sum or difference: the factor of the second operand becomes a product, numbers become tensors."""

    def rule(w: Writer, input: Operand, other: Operand, alpha: float = 1) -> fx.Node | None:
        if isinstance(input, fx.Node) and isinstance(other, fx.Node) and alpha == 1 and w.node.target is target:
            return None
        first, second = _pair(w, input, other)
        return w.call(target, first, second if alpha == 1 else w.call(aten.mul.Tensor, second, alpha))

    return rule


def rsub(w: Writer, input: fx.Node, other: float, alpha: float = 1) -> fx.Node:
    """other - alpha * input"""
    return w.call(aten.sub.Tensor, other, input, alpha=alpha)


def product(w: Writer, input: Operand, other: Operand) -> fx.Node | None:
    """Numbers become tensors."""
    if isinstance(input, fx.Node) and isinstance(other, fx.Node) and w.node.target is aten.mul.Tensor:
        return None
    return w.call(aten.mul.Tensor, *_pair(w, input, other))


def quotient(w: Writer, input: Operand, other: Operand) -> fx.Node:
    """input * (1 / other)"""
    first, second = _pair(w, input, other)
    return w.call(aten.mul.Tensor, first, w.call(aten.reciprocal.default, second))


def rounded_quotient(w: Writer, input: Operand, other: Operand, rounding_mode: str | None = None) -> fx.Node:
    """The quotient, rounded down, towards zero, or not."""
    found = quotient(w, input, other)
    if rounding_mode is None:
        return found
    if rounding_mode == "floor":
        return w.call(aten.floor.default, found)
    negative = w.call(aten.gt.Tensor, w.number(0.0, found), found)
    up, down = w.call(aten.ceil.default, found), w.call(aten.floor.default, found)
    return w.call(aten.where.self, negative, up, down)


def floor_quotient(w: Writer, input: Operand, other: Operand) -> fx.Node:
    """The quotient, rounded down."""
    return rounded_quotient(w, input, other, "floor")


def remainder(w: Writer, input: fx.Node, other: fx.Node) -> fx.Node:
    """input - other * floor(input / other)"""
    whole = w.call(aten.mul.Tensor, floor_quotient(w, input, other), other)
    return w.call(aten.sub.Tensor, input, whole)


def compare_number(w: Writer, input: fx.Node, other: float) -> fx.Node:
    """The number becomes a tensor."""
    assert isinstance(w.node.target, OpOverload)
    return w.call(w.node.target.overloadpacket.Tensor, input, w.filled(other, input))


def not_equal(w: Writer, input: fx.Node, other: fx.Node) -> fx.Node:
    """not (input == other)"""
    return w.call(aten.logical_not.default, w.call(aten.eq.Tensor, input, other))


def sign(w: Writer, input: fx.Node) -> fx.Node:
    """-1, 0 or 1 by comparisons with 0."""
    above = w.call(aten.gt.Scalar, input, 0.0)
    below = w.call(aten.lt.Scalar, input, 0.0)
    zero = w.call(aten.mul.Tensor, input, 0.0)
    one = w.call(aten.add.Tensor, zero, 1.0)
    down = w.call(aten.where.self, below, w.call(aten.neg.default, one), zero)
    up = w.call(aten.where.self, above, one, zero)
    return w.call(aten.where.self, below, down, up)


def root(w: Writer, input: fx.Node) -> fx.Node:
    """input ** 0.5"""
    return w.call(aten.pow.Tensor_Scalar, input, 0.5)


def logit(w: Writer, input: fx.Node, eps: float | None = None) -> fx.Node:
    """log(p / (1 - p)), with p at least `eps` away from 0 and 1"""
    if eps is not None:
        input = w.call(aten.clamp.default, input, eps, 1.0 - eps)
    rest = w.call(aten.add.Tensor, w.call(aten.mul.Tensor, input, -1.0), 1.0)
    odds = w.call(aten.mul.Tensor, input, w.call(aten.reciprocal.default, rest))
    return w.call(aten.log.default, odds)


def selu(w: Writer, input: fx.Node) -> fx.Node:
    """elu with the constants of self-normalising networks"""
    return w.call(aten.elu.default, input, 1.6732632423543772, 1.0507009873554805, 1.0)


def celu(w: Writer, input: fx.Node, alpha: float = 1.0) -> fx.Node:
    """elu of which the exponent is divided by alpha"""
    return w.call(aten.elu.default, input, alpha, 1.0, 1.0 / alpha)


def relu6(w: Writer, input: fx.Node) -> fx.Node:
    """A clamp from 0 to 6"""
    return w.call(aten.hardtanh.default, input, 0.0, 6.0)


def prelu(w: Writer, input: fx.Node, weight: fx.Node) -> fx.Node:
    """max(input, 0) + weight * min(input, 0)"""
    sizes = [1] * tensor(input).dim()
    if len(sizes) > 1:
        sizes[1] = tensor(weight).numel()
    up, down = w.call(aten.clamp.default, input, 0, None), w.call(aten.clamp.default, input, None, 0)
    slope = w.call(aten.reshape.default, weight, sizes)
    return w.call(aten.add.Tensor, up, w.call(aten.mul.Tensor, down, slope))
