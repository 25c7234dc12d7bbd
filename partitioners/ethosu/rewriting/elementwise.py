"""Sums, products, quotients and comparisons, with numbers among their operands."""

from __future__ import annotations

import torch
from torch import fx
from torch._ops import OpOverload

from npu_assay.partitioners.ethosu.rewriting.writer import Rewrite, Writer

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
