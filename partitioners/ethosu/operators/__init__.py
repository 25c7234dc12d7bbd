"""The operators of the Ethos-U backend: one row each."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

from npu_assay.partitioners.ethosu.lowering.operation import Lower
from npu_assay.partitioners.ethosu.operators import layout, linear, pooling, reduction, slicing
from npu_assay.partitioners.ethosu.operators.row import Row
from npu_assay.partitioners.exir.ops import target_name

OPERATORS: Mapping[str, Row] = {
    **layout.ROWS,
    **linear.ROWS,
    **pooling.ROWS,
    **reduction.ROWS,
    **slicing.ROWS,
}
"""By name."""
LOWERINGS: Mapping[str, Lower] = {name: row.lower for name, row in OPERATORS.items() if row.lower is not None}
EXPORTED: Mapping[str, Row] = {
    name: row for own, row in OPERATORS.items() if row.annotation or row.rewrite for name in (own, *row.others)
}
"""What exported programs have, before they are in the edge dialect."""


def row_of(node: fx.Node) -> Row | None:
    """The row of a node of an exported program; None when it has none."""
    return EXPORTED.get(target_name(node.target)) if node.op == "call_function" else None
