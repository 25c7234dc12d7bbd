"""Means, sums and extremes over axes."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.exir.compiling import axis_of, bind
from npu_assay.partitioners.neutron.lowering.context import Context


def mean(ctx: Context, node: fx.Node) -> None:
    """aten.mean.dim -> MEAN."""
    _reduction(ctx, node, "MEAN")


def sum_(ctx: Context, node: fx.Node) -> None:
    """aten.sum.dim_IntList -> SUM."""
    _reduction(ctx, node, "SUM")


def amax(ctx: Context, node: fx.Node) -> None:
    """aten.amax -> REDUCE_MAX."""
    _reduction(ctx, node, "REDUCE_MAX")


def amin(ctx: Context, node: fx.Node) -> None:
    """aten.amin -> REDUCE_MIN."""
    _reduction(ctx, node, "REDUCE_MIN")


def _reduction(ctx: Context, node: fx.Node, code: str) -> None:
    """Over the device's axes; no dims means all of them."""
    bound = bind(node)
    value = ctx.value(bound["self"], node)
    source = ctx.layout(bound["self"])
    dims = [bound["dim"]] if isinstance(bound["dim"], int) else bound["dim"] or range(value.rank)
    reduced = {axis_of(node, dim, value.rank) for dim in dims}
    axes = sorted(source.index(axis) for axis in reduced)
    kept = [axis for axis in source if bound["keepdim"] or axis not in reduced]
    order = sorted(kept)
    layout = tuple(order.index(axis) for axis in kept)
    inputs = [ctx.tensor(value, source), ctx.model.integers(f"{node.name}_axes", axes)]
    ctx.emit(node, code, inputs, {"keep_dims": bool(bound["keepdim"])}, layout=layout)
