"""The operators of the Neutron backend: one row each."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.neutron.lowering.context import Lower
from npu_assay.partitioners.neutron.operators import activation, elementwise, layout, linear, pooling, slicing
from npu_assay.partitioners.neutron.operators.row import Row

OPERATORS: Mapping[str, Row] = {
    **activation.ROWS,
    **elementwise.ROWS,
    **layout.ROWS,
    **linear.ROWS,
    **pooling.ROWS,
    **slicing.ROWS,
}
"""By the name in the edge dialect."""
LOWERINGS: Mapping[str, Lower] = {name: row.lower for name, row in OPERATORS.items()}
