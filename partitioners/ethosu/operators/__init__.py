"""The operators of the Ethos-U backend: one row each."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

from npu_assay.partitioners.ethosu.lowering.operation import Lower
from npu_assay.partitioners.ethosu.operators import (
    activation,
    constants,
    elementwise,
    layout,
    linear,
    pooling,
    recurrent,
    reduction,
    slicing,
)
from npu_assay.partitioners.ethosu.operators.row import Row, named
from npu_assay.partitioners.exir.ops import target_name

OPERATORS: Mapping[str, Row] = {
    **activation.ROWS,
    **constants.ROWS,
    **elementwise.ROWS,
    **layout.ROWS,
    **linear.ROWS,
    **pooling.ROWS,
    **recurrent.ROWS,
    **reduction.ROWS,
    **slicing.ROWS,
}
"""By name."""
LOWERINGS: Mapping[str, Lower] = {name: row.lower for name, row in OPERATORS.items() if row.lower is not None}
_EXPORTED: Mapping[str, Row] = {name: row for own, row in OPERATORS.items() for name in (own, *named(row.others))}
_UNKNOWN = Row()


def row_of(node: fx.Node) -> Row:
    """The row of a node's operator, also by its spellings in exported programs; an empty one when there is none."""
    return _EXPORTED.get(target_name(node.target), _UNKNOWN) if node.op == "call_function" else _UNKNOWN
