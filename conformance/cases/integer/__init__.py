"""Cases of rows for hardware that computes on integers alone: every row in each of its number types."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType

from npu_assay.conformance.cases import integer_dims, integer_operands, integer_windows
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
from npu_assay.conformance.cases.integer.spelling import INT8, INT16, INTEGERS, PER_CHANNEL
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT, Draft
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


NO_INTEGERS = frozenset({"aten.mean.dim"})
"""Operators that torch does not compute on whole numbers."""


def _is_mixed(draft: Draft) -> bool:
    """Whether an operator on whole numbers, which has their type, is given one that is none."""
    steps = (step for step in draft.graph.steps if step.name == SUBJECT)
    return any(step.op in KEEPS_TYPE and any(_is_fraction(a) for a in step.args) for step in steps)


def _is_fraction(argument: object) -> bool:
    return isinstance(argument, float) and isfinite(argument) and argument != int(argument)


KEEPS_TYPE = frozenset(f"aten.{name}.default" for name in ("constant_pad_nd", "hardtanh", "pad"))
FEW = 4
"""16-bit codes have the rules of 8-bit ones, and per-channel weights those of one scale."""


def drafts(row: Row, precision: str, known: Limits) -> list[Draft]:
    """A row's cases in one precision; but for numbers, fewer where the row is the same in another.

    Raises KeyError for a row that there are none for.
    """
    if precision == INTEGERS and row.name in NO_INTEGERS:
        raise KeyError(row.name)
    found = [draft for draft in FAMILIES[row.name](precision, known) if precision != INTEGERS or not _is_mixed(draft)]
    more = [
        *integer_windows.swept(row.name, precision, known),
        *integer_operands.swept(row.name, precision),
        *integer_dims.swept(row.name, precision, known),
    ]
    if precision == INT8 or (precision == INTEGERS and INT8 not in row.precisions):
        return [*found, *more]
    shown = {id(draft) for draft in thinned(found, FEW)}
    return [*(draft for draft in found if id(draft) in shown or draft.side == "value"), *more]
