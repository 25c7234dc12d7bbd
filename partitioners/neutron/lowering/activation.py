"""Activation functions, each a standalone operator."""

from __future__ import annotations

import math

from torch import fx

from npu_assay.partitioners.exir.compiling import axis_of, bind, refusal, require
from npu_assay.partitioners.exir.layout import Layout
from npu_assay.partitioners.neutron.lowering.context import Context, Lower
from npu_assay.partitioners.neutron.lowering.elementwise import unary
from npu_assay.partitioners.neutron.lowering.quantization import LOGISTIC_OUTPUT, Quantisation
from npu_assay.reference.affine import float32

# Bounds in real numbers that have an operator of their own.
BOUNDED = {(0.0, math.inf): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, 1.0): "RELU_0_TO_1"}


def clamp(ctx: Context, node: fx.Node) -> None:
    """aten.clamp with known bounds -> RELU, RELU6, RELU_N1_TO_1 or RELU_0_TO_1; no bound is an infinite one."""
    bound = bind(node)
    low, high = bound["min"], bound["max"]
    _bounded(ctx, node, -math.inf if low is None else low, math.inf if high is None else high)


def hardtanh(ctx: Context, node: fx.Node) -> None:
    """aten.hardtanh -> as clamp; the bounds are -1 and 1 unless given."""
    bound = bind(node)
    _bounded(ctx, node, bound["min_val"], bound["max_val"])


def leaky_relu(ctx: Context, node: fx.Node) -> None:
    """aten.leaky_relu -> LEAKY_RELU."""
    layout = ctx.layout(node)
    options = {"alpha": float32(bind(node)["negative_slope"])}
    ctx.emit(node, "LEAKY_RELU", [ctx.tensor(ctx.value(node.args[0], node), layout)], options, layout=layout)


def prelu(ctx: Context, node: fx.Node) -> None:
    """aten.prelu -> PRELU, whose slopes broadcast along torch's axis 1, wherever the device holds that."""
    value, slopes = ctx.value(node.args[0], node), ctx.constant(node.args[1], node, "slopes")
    layout = ctx.layout(node)
    assert slopes.data is not None
    sizes = [1] * value.rank
    if value.rank > 1:
        sizes[1] = slopes.data.size
    alpha = slopes.data.reshape(sizes).transpose(layout)
    # Without the batch axis, as TFLite's own converters write it.
    alpha = alpha.reshape(alpha.shape[1:]) if value.rank > 1 else alpha
    tensors = [ctx.tensor(value, layout), ctx.model.constant(slopes.name, alpha, slopes.quantisation)]
    ctx.emit(node, "PRELU", tensors, layout=layout)


def fixed(code: str, output: tuple[float, int]) -> Lower:
    """Writes the operator `code` of one tensor, whose output has this scale and zero point."""

    def lower(ctx: Context, node: fx.Node) -> None:
        _require_output(ctx, node, output)
        unary(code)(ctx, node)

    return lower


def softmax(ctx: Context, node: fx.Node) -> None:
    """aten._softmax -> SOFTMAX, which works on the device's last axis.

    A softmax along another axis than the last in the node's layout is computed with the two exchanged.
    """
    bound = bind(node)
    _require_output(ctx, node, LOGISTIC_OUTPUT)
    value = ctx.value(node.args[0], node)
    layout = _last(ctx.layout(node), axis_of(node, bound["dim"], value.rank))
    ctx.emit(node, "SOFTMAX", [ctx.tensor(value, layout)], {"beta": 1.0}, layout=layout)


def _last(layout: Layout, axis: int) -> Layout:
    """`layout` with `axis` exchanged with the last one."""
    swapped = list(layout)
    position = layout.index(axis)
    swapped[position], swapped[-1] = swapped[-1], swapped[position]
    return tuple(swapped)


def _bounded(ctx: Context, node: fx.Node, low: float, high: float) -> None:
    code = BOUNDED.get((float(low), float(high)))
    if code is None:
        raise refusal(node, "bounds", (low, high), f"one of {[*BOUNDED]}")
    unary(code)(ctx, node)


def _require_output(ctx: Context, node: fx.Node, wanted: tuple[float, int]) -> None:
    found = ctx.output_quantisation(node)
    fits = found == Quantisation(wanted[:1], wanted[1:])
    require(fits, node, "output scale and zero point", (found.scale, found.zero_point), wanted)
