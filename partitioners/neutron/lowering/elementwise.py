"""Arithmetic on one or two tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import fx

from npu_assay.partitioners.exir.compiling import bind, require
from npu_assay.partitioners.exir.layout import Layout
from npu_assay.partitioners.neutron.lowering.context import Context, Lower, reshaped


def unary(code: str) -> Lower:
    """Writes the operator `code` of one tensor, element by element."""

    def lower(ctx: Context, node: fx.Node) -> None:
        layout = ctx.layout(node)
        ctx.emit(node, code, [ctx.tensor(ctx.value(node.args[0], node), layout)], layout=layout)

    return lower


def neg(ctx: Context, node: fx.Node) -> None:
    """aten.neg -> SUB from a scalar that stands for 0; TFLite has no NEG for int8."""
    value, layout = ctx.value(node.args[0], node), ctx.layout(node)
    zero = np.full((), value.quantisation.zero_point, np.int8)
    zeros = ctx.model.constant(f"{node.name}_zero", zero, value.quantisation)
    ctx.emit(node, "SUB", [zeros, ctx.tensor(value, layout)], layout=layout)


def binary(code: str) -> Lower:
    """Writes the operator `code` of two tensors that broadcast; of torch's sums, those with alpha 1."""

    def lower(ctx: Context, node: fx.Node) -> None:
        layout, alpha = ctx.layout(node), bind(node).get("alpha", 1)
        require(alpha == 1, node, "alpha", alpha, 1)
        ctx.emit(node, code, [operand(ctx, node, argument, layout) for argument in node.args[:2]], layout=layout)

    return lower


def operand(ctx: Context, node: fx.Node, argument: Any, layout: Layout) -> int:
    """The tensor of an operand that broadcasts to a result held in `layout`.

    Torch aligns shapes at the last axis in its own order, TFLite in the device's: an operand with
    fewer axes gets leading axes of size 1 before it is permuted.
    """
    value = ctx.value(argument, node)
    if value.rank == 0:
        return ctx.tensor(value)
    if value.rank < len(layout):
        value = reshaped(node, value, (1,) * (len(layout) - value.rank) + value.shape)
    return ctx.tensor(value, layout)
