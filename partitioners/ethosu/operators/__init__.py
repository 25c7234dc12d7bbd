"""The operators of the Ethos-U backend: one row each."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.ethosu.lowering.operation import Lower
from npu_assay.partitioners.ethosu.operators import pooling
from npu_assay.partitioners.ethosu.operators.row import Row

OPERATORS: Mapping[str, Row] = {
    **pooling.ROWS,
}
"""By name."""
LOWERINGS: Mapping[str, Lower] = {name: row.lower for name, row in OPERATORS.items() if row.lower is not None}
EXPORTED: Mapping[str, Row] = {
    name: row for own, row in OPERATORS.items() if row.annotation or row.rewrite for name in (own, *row.others)
}
"""What exported programs have, before they are in the edge dialect."""
