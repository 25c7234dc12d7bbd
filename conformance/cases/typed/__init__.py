"""Cases of rows that list number types: every row in each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT, Draft, limit, outside
from npu_assay.conformance.cases.typed import binary, convert, convolution, elementwise, image, layout, products
from npu_assay.conformance.cases.typed.common import Family
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import Row

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        **elementwise.FAMILIES,
        **binary.FAMILIES,
        **convert.FAMILIES,
        **layout.FAMILIES,
        **image.FAMILIES,
        **products.FAMILIES,
        **convolution.FAMILIES,
    }
)


STATIC = "static_shape"
OPTIONS = "configs"
"""The constraint of partitioners that take XNNPACK's options; others know neither them nor what they put together."""
FEW: Mapping[str, int] = MappingProxyType({"fp16": 2, "static_int8": 5})
"""Half precision has the rules of single precision, and products in static_int8 those of per-channel weights."""


def drafts(row: Row, precision: str, limits: Limits) -> list[Draft]:
    """A row's cases in one precision. Raises KeyError for a row that there are none for."""
    found = FAMILIES[row.name](precision, limits)
    if OPTIONS not in limits:
        found = [draft for draft in found if not draft.options and draft.delegates is None]
    if STATIC in limits and not any(draft.constraint == STATIC for draft in found):
        found = with_static_shapes(found)
    if precision == "fp16" or (precision == "static_int8" and "static_int8_per_channel" in row.precisions):
        return thinned(found, FEW[precision])
    return found


def with_static_shapes(found: Iterable[Draft]) -> list[Draft]:
    """The drafts of a row whose sizes must be known and at least 1: those of open sizes and of none are outside."""
    drafts = list[Draft]()
    for draft in found:
        unknown = any(value.dynamic for value in draft.graph.values)
        none = draft.constraint == "nonempty" and draft.side == "outside"
        drafts.append(outside(STATIC, draft.variant, draft.graph) if unknown or none else draft)
    (plain, *_) = drafts
    return [*drafts, limit(STATIC, "known_sizes", plain.graph)]


def thinned(found: Iterable[Draft], most: int) -> list[Draft]:
    """The first few of every constraint and side, and all with options."""
    counts: Counter[tuple[str, str]] = Counter()
    kept = []
    for draft in found:
        key = (draft.constraint, draft.side)
        counts[key] += 1
        if counts[key] <= most or draft.options:
            kept.append(draft)
    return kept


def typed_case(row: Row, precision: str, draft: Draft) -> Case:
    """A draft as a case of a row in a precision."""
    reason = draft.constraint if draft.reason is None else draft.reason
    return Case(
        f"{row.name}/{precision}/{draft.constraint}/{draft.side}/{draft.variant}",
        row.name,
        draft.constraint,
        draft.side,
        draft.expect,
        reason if draft.expect == "reject" else None,
        draft.graph,
        SUBJECT,
        precision,
        draft.options,
        draft.delegates,
    )
