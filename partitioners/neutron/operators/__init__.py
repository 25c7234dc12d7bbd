"""The operators of the Neutron backend: one row each, whatever the release."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from npu_assay.partitioners.neutron.lowering.context import Lower
from npu_assay.partitioners.neutron.operators import activation, elementwise, layout, linear, pooling, slicing
from npu_assay.partitioners.neutron.operators.row import Row
from npu_assay.partitioners.neutron.releases import FIRST, is_in

EVERY: Mapping[str, Row] = {
    **activation.ROWS,
    **elementwise.ROWS,
    **layout.ROWS,
    **linear.ROWS,
    **pooling.ROWS,
    **slicing.ROWS,
}
"""By the name in the edge dialect; what the compiler writes is the same in each release."""
LOWERINGS: Mapping[str, Lower] = {name: row.lower for name, row in EVERY.items()}


@cache
def operators(release: str) -> Mapping[str, Row]:
    """The rows of a release, as it has them."""
    return {name: row.of(release) for name, row in EVERY.items() if is_in(row.since, release)}


OPERATORS = operators(FIRST)
"""The rows of the default release."""
