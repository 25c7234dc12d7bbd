"""The operators that a table does not decompose, compared with torch's; reading a table does not need torch."""

from __future__ import annotations

import torch

from npu_assay.conformance.common.errors import nearest
from npu_assay.conformance.table import Table, TableError

NAMESPACE = "aten"  # of others a backend may register its own, in a process of its own


def check_preserved(table: Table) -> None:
    """Raise TableError for an operator that torch does not have."""
    for name in table.preserve:
        namespace, _, rest = name.partition(".")
        operator, _, overload = rest.rpartition(".")
        if namespace != NAMESPACE:
            continue
        packet = getattr(torch.ops.aten, operator, None)
        if packet is None:
            raise TableError(f"{table.file}: preserve: torch has no {name!r}{nearest(operator, dir(torch.ops.aten))}")
        if overload not in packet.overloads():
            raise TableError(f"{table.file}: preserve: torch has no {name!r}{nearest(overload, packet.overloads())}")
