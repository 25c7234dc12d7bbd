"""Cases of rows for hardware that computes on integers alone: every row in each of its number types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from npu_assay.conformance.cases.integer import (
    binary,
    convolution,
    functions,
    images,
    layout,
    limits,
    logic,
    products,
    reductions,
    selection,
)
from npu_assay.conformance.cases.integer.common import Family
from npu_assay.conformance.cases.integer.outside import outside
from npu_assay.conformance.cases.integer.spelling import INT8, INT16, INTEGERS, PER_CHANNEL
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Draft
from npu_assay.conformance.cases.typed import thinned
from npu_assay.conformance.table import Row

PRECISIONS = (INT8, INT8 + PER_CHANNEL, INT16, INT16 + PER_CHANNEL, INTEGERS)
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        **functions.FAMILIES,
        **binary.FAMILIES,
        **limits.FAMILIES,
        **convolution.FAMILIES,
        **products.FAMILIES,
        **layout.FAMILIES,
        **images.FAMILIES,
        **reductions.FAMILIES,
        **logic.FAMILIES,
        **selection.FAMILIES,
    }
)


FEW = 4
"""16-bit codes have the rules of 8-bit ones, and per-channel weights those of one scale."""


def drafts(row: Row, precision: str, known: Limits) -> list[Draft]:
    """A row's cases in one precision; but for numbers, fewer where the row is the same in another.

    Raises KeyError for a row that there are none for.
    """
    found = (FAMILIES[row.name] if row.name in FAMILIES else outside(row.name))(precision, known)
    if precision == INT8 or (precision == INTEGERS and INT8 not in row.precisions):
        return found
    shown = {id(draft) for draft in thinned(found, FEW)}
    return [draft for draft in found if id(draft) in shown or draft.side == "value"]
