"""Which operators' results the float golden bounds only widely: what may be off there and passes gate 3."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.record.results import CaseResult, Number
from npu_assay.conformance.table import Table

WIDE: dict[str, float] = {"bound_lsb": 2.0, "bound_share": 0.01}
"""The largest bound that is not listed: LSB, and for reals the share of the output's range."""


@dataclass(frozen=True)
class WideBounds:
    """The cases of one operator with wide bounds, in one unit.

    cases: how many. free: how many of them gate 1 does not compare exactly either, so that an error of that size
    passes. widest: the bound of the widest one, case: its id; of a free one if there is any.
    """

    row: str
    unit: str
    cases: int
    free: int
    widest: float
    case: str

    @property
    def text(self) -> str:
        """The widest bound in words."""
        if math.isinf(self.widest):
            return "anything"
        return f"{self.widest:.3g} LSB" if self.unit == "bound_lsb" else f"{self.widest:.3g} of the range"


def wide_bounds(table: Table, results: Iterable[CaseResult]) -> tuple[WideBounds, ...]:
    """The operators with wide bounds, in the table's order; those of codes before those of reals."""
    rows = grouped_by((result for result in results if result.verdict == "accept"), lambda result: result.row)
    places = ((name, unit) for name in dict.fromkeys(row.name for row in table.asked_rows) for unit in WIDE)
    found = ((row, unit, [r for r in rows.get(row, ()) if _size(r.metrics[unit]) > WIDE[unit]]) for row, unit in places)
    return tuple(_listed(row, unit, wide) for row, unit, wide in found if wide)


def free_cases(wide: Iterable[WideBounds]) -> int:
    """How many cases have a wide bound and no exact codes or reals to compare with."""
    return sum(line.free for line in wide)


def _listed(row: str, unit: str, results: list[CaseResult]) -> WideBounds:
    free = [result for result in results if result.metrics["allowed_lsb"] != 0]
    widest = max(free or results, key=lambda result: (_size(result.metrics[unit]), result.case))
    return WideBounds(row, unit, len(results), len(free), _size(widest.metrics[unit]), widest.case)


def _size(value: Number) -> float:
    """A metric as a number; nothing where there is none."""
    return 0.0 if value is None else float(value)
