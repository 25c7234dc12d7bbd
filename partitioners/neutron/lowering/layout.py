"""Operators that move codes without computing: their input and output have the same quantization."""

from __future__ import annotations

import math

from torch import fx

from npu_assay.partitioners.common.lowering import static_shape
from npu_assay.partitioners.exir.compiling import axis_of, bind, require
from npu_assay.partitioners.exir.layout import arranged, identity, to_channels_last
from npu_assay.partitioners.neutron.formats import is_spatial_reshape
from npu_assay.partitioners.neutron.lowering.context import Context, reshaped
from npu_assay.partitioners.neutron.lowering.padding import pad


def view(ctx: Context, node: fx.Node) -> None:
    """aten.view_copy, squeeze_copy, unsqueeze_copy -> RESHAPE of the tensor in torch's axis order.

    Where channels come last before and after, and stay, it is one of the tensor in that order.
    """
    value, layout = ctx.value(node.args[0], node), ctx.layout(node)
    shape = static_shape(node)
    is_last = is_spatial_reshape(node) and identity(value.rank) != ctx.layout(node.all_input_nodes[0])
    if value.data is None and is_last and layout != identity(len(shape)):
        tensor = ctx.tensor(value, to_channels_last(value.rank))
        ctx.define(node, ctx.model.reshape(tensor, arranged(shape, layout), node.name), layout)
    else:
        ctx.values[node] = reshaped(node, value, shape)


def permute(ctx: Context, node: fx.Node) -> None:
    """aten.permute_copy -> one TRANSPOSE together with the layouts on both sides, or nothing."""
    value = ctx.value(node.args[0], node)
    ctx.permuted(node, value, tuple(axis_of(node, dim, value.rank) for dim in bind(node)["dims"]))


def clone(ctx: Context, node: fx.Node) -> None:
    """A copy of the same numbers in any memory format -> nothing."""
    value = ctx.value(node.args[0], node)
    ctx.permuted(node, value, identity(value.rank))


def cat(ctx: Context, node: fx.Node) -> None:
    """aten.cat -> CONCATENATION along the axis where the device holds the dimension."""
    bound, layout = bind(node), ctx.layout(node)
    wanted = ctx.output_quantisation(node)
    values = [ctx.requantised(ctx.value(operand, node), wanted) for operand in bound["tensors"]]
    axis = layout.index(axis_of(node, bound["dim"], len(layout)))
    options = {"axis": axis, "fused_activation_function": "NONE"}
    ctx.emit(node, "CONCATENATION", [ctx.tensor(v, layout) for v in values], options, layout=layout)


def slice_(ctx: Context, node: fx.Node) -> None:
    """aten.slice_copy with step 1 -> SLICE; negative bounds count from the end, others are clipped."""
    bound, shape, layout = bind(node), static_shape(node), ctx.layout(node)
    require(bound["step"] == 1, node, "step", bound["step"], 1)
    value = ctx.requantised(ctx.value(node.args[0], node), ctx.output_quantisation(node))
    axis = axis_of(node, bound["dim"], value.rank)
    size = value.shape[axis]
    start = 0 if bound["start"] is None else bound["start"]
    begin = [0] * value.rank
    begin[axis] = min(max(start + size if start < 0 else start, 0), size)
    inputs = [
        ctx.tensor(value, layout),
        ctx.model.integers(f"{node.name}_begin", arranged(begin, layout)),
        ctx.model.integers(f"{node.name}_size", arranged(shape, layout)),
    ]
    ctx.emit(node, "SLICE", inputs, layout=layout)


def constant_pad(ctx: Context, node: fx.Node) -> None:
    """aten.constant_pad_nd -> PAD, or PADV2 when the constant is not 0. The last dimension's pair comes first."""
    bound, layout = bind(node), ctx.layout(node)
    value = ctx.requantised(ctx.value(node.args[0], node), ctx.output_quantisation(node))
    amounts = list(bound["pad"])
    require(all(amount >= 0 for amount in amounts), node, "padding", amounts, "no negative amounts")
    number = float(bound["value"])
    require(not math.isnan(number), node, "value", number, "a number")
    pairs = [(0, 0)] * value.rank
    for index in range(len(amounts) // 2):
        pairs[value.rank - 1 - index] = (amounts[2 * index], amounts[2 * index + 1])
    arranged_pairs = [pairs[axis] for axis in layout]
    tensor = pad(ctx.model, ctx.tensor(value, layout), arranged_pairs, node.name, number)
    ctx.define(node, tensor, layout)
