"""Means, sums and extremes over axes."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.exir.compiling import axis_of, bind
from npu_assay.partitioners.neutron.lowering.context import Context, Lower


def reduced(code: str) -> Lower:
    """Writes the operator `code` over the device's axes; no dims means all of them."""

    def lower(ctx: Context, node: fx.Node) -> None:
        bound = bind(node)
        value = ctx.value(bound["self"], node)
        source = ctx.layout(bound["self"])
        dims = [bound["dim"]] if isinstance(bound["dim"], int) else bound["dim"] or range(value.rank)
        gone = {axis_of(node, dim, value.rank) for dim in dims}
        kept = [axis for axis in source if bound["keepdim"] or axis not in gone]
        order = sorted(kept)
        layout = tuple(order.index(axis) for axis in kept)
        axes = ctx.model.integers(f"{node.name}_axes", sorted(source.index(axis) for axis in gone))
        ctx.emit(node, code, [ctx.tensor(value, source), axes], {"keep_dims": bool(bound["keepdim"])}, layout=layout)

    return lower
