"""The drafts of one row in one of its precisions: from the operator's family, its home, or another precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isfinite

from npu_assay.conformance.cases import homes
from npu_assay.conformance.cases.borrowed import FROM, borrowed
from npu_assay.conformance.cases.drafts import OPERATOR, CaseDraft, limit, outside
from npu_assay.conformance.cases.families import FAMILIES
from npu_assay.conformance.cases.family import STATIC_INT8, Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT, model
from npu_assay.conformance.cases.pieces.sizes import static_sizes
from npu_assay.conformance.cases.pieces.spelling import INT8, INTEGERS
from npu_assay.conformance.cases.variants import integer_dims, integer_operands, integer_windows
from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.table import INTEGER_PRECISIONS, Row
from npu_assay.reference.operators import HOMES, VIEWS


def drafts(row: Row, precision: str, limits: Limits) -> list[CaseDraft] | None:
    """A row's drafts in one of its precisions; None where there are none. "" is static int8."""
    named = replace(row, name=VIEWS.get(row.name, row.name))
    found = _of_family(named, precision, limits)
    if found is not None:
        return found
    found = homes.drafts(named.name, precision, limits)
    if found is not None:
        return _of_domain(named, precision, limits, found) if homes.has_domain(named.name, precision) else found
    elsewhere = _elsewhere(named, precision)
    return None if elsewhere is None else borrowed(precision, limits, elsewhere)


BASELINES = (
    *(name for name, family in FAMILIES.items() if family.plain is not None),
    *(name for name in HOMES if homes.has_domain(name, STATIC_INT8)),
)
"""The operators that have a plain program in static int8."""


def baseline(name: str) -> Graph:
    """The plain program of an operator in static int8. Raises KeyError for one that has none."""
    if name not in BASELINES:
        raise KeyError(name)
    return (drafts(Row(name, "", name, None, (), ()), STATIC_INT8, Limits()) or [])[0].graph


def _elsewhere(row: Row, precision: str) -> list[CaseDraft] | None:
    """The drafts of the row's family in the precision that is nearest to one that it does not know."""
    made = (_of_family(replace(row, precisions=(other,)), other, Limits()) for other in FROM.get(precision, ()))
    return next((found for found in made if found is not None), None)


def _of_domain(row: Row, precision: str, limits: Limits, found: list[CaseDraft]) -> list[CaseDraft]:
    """With what rows of integers are asked besides, without options that nobody takes."""
    if precision in INTEGER_PRECISIONS:
        return [*found, *_swept(row, precision, limits)]
    return found if OPTIONS in limits else [draft for draft in found if not draft.options and draft.delegates is None]


def thinned(row: Row, precision: str, drafts: list[CaseDraft]) -> list[CaseDraft]:
    """Fewer in a precision whose rules another one of the row has, too."""
    if precision in INTEGER_PRECISIONS:
        if precision == INT8 or (precision == INTEGERS and INT8 not in row.precisions):
            return drafts
        shown = {id(draft) for draft in _thinned(drafts, FEW_INTEGERS)}
        return [draft for draft in drafts if id(draft) in shown or draft.side == "value"]
    if precision == "fp16" or (precision == "static_int8" and "static_int8_per_channel" in row.precisions):
        return _thinned(drafts, FEW[precision])
    return drafts


def _of_family(row: Row, precision: str, limits: Limits) -> list[CaseDraft] | None:
    """The drafts of the row's family; None where it knows nothing of the precision."""
    family = FAMILIES.get(row.name)
    maker = None if family is None else family.maker(precision)
    if family is None or maker is None:
        return None
    found = maker(precision, limits)
    if precision == STATIC_INT8:
        return [*_plain(family, limits), *found]
    if precision in INTEGER_PRECISIONS:
        return _integers(row, precision, limits, found)
    return _floats(row, precision, limits, found)


def _plain(family: Family, limits: Limits) -> list[CaseDraft]:
    """The plain application, and its sizes."""
    assert family.plain is not None
    call, prefix = family.plain(limits)
    return [CaseDraft(OPERATOR, "accept", "baseline", model(call, prefix)), *static_sizes(call, prefix)]


# ------------------------------------------------------------------------------------ floats

STATIC = "static_shape"
OPTIONS = "configs"
"""The constraint of partitioners that take XNNPACK's options; others know neither them nor what they put together."""
FEW: Mapping[str, int] = {"fp16": 2, "static_int8": 5}
"""Half precision has the rules of single precision, and products in static_int8 those of per-channel weights."""


def _floats(row: Row, precision: str, limits: Limits, found: list[CaseDraft]) -> list[CaseDraft]:
    if OPTIONS not in limits:
        found = [draft for draft in found if not draft.options and draft.delegates is None]
    if STATIC in limits and not any(draft.constraint == STATIC for draft in found):
        found = _with_static_shapes(found)
    return thinned(row, precision, found)


def _with_static_shapes(found: Iterable[CaseDraft]) -> list[CaseDraft]:
    """The drafts of a row whose sizes must be known and at least 1: dynamic and empty shapes are outside."""
    made = list[CaseDraft]()
    for draft in found:
        unknown = any(value.dynamic for value in draft.graph.values)
        none = draft.constraint == "nonempty" and draft.side == "outside"
        made.append(outside(STATIC, draft.variant, draft.graph) if unknown or none else draft)
    (plain, *_) = made
    return [*made, limit(STATIC, "known_sizes", plain.graph)]


def _thinned(found: Iterable[CaseDraft], most: int) -> list[CaseDraft]:
    """The first few of every constraint and side, and all with options."""
    counts: Counter[tuple[str, str]] = Counter()
    kept = []
    for draft in found:
        key = (draft.constraint, draft.side)
        counts[key] += 1
        if counts[key] <= most or draft.options:
            kept.append(draft)
    return kept


# ------------------------------------------------------------------------------------ integers

KEEPS_TYPE = frozenset(f"aten.{name}.default" for name in ("constant_pad_nd", "hardtanh", "pad"))
FEW_INTEGERS = 4
"""16-bit codes have the rules of 8-bit ones, and per-channel weights those of one scale."""


def _integers(row: Row, precision: str, limits: Limits, found: list[CaseDraft]) -> list[CaseDraft]:
    """But for numbers, fewer where the row is the same in another precision."""
    found = [draft for draft in found if precision != INTEGERS or not _is_mixed(draft)]
    return [*thinned(row, precision, found), *_swept(row, precision, limits)]


def _swept(row: Row, precision: str, limits: Limits) -> list[CaseDraft]:
    return [
        *integer_windows.swept(row.name, precision, limits),
        *integer_operands.swept(row.name, precision),
        *integer_dims.swept(row.name, precision, limits),
    ]


def _is_mixed(draft: CaseDraft) -> bool:
    """Whether an operator on whole numbers, which has their type, is given a number that is not whole."""
    steps = (step for step in draft.graph.steps if step.name == SUBJECT)
    return any(step.op in KEEPS_TYPE and any(_is_fraction(a) for a in step.args) for step in steps)


def _is_fraction(argument: object) -> bool:
    return isinstance(argument, float) and isfinite(argument) and argument != int(argument)
