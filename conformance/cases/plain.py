"""What every row is asked, whatever the operator: from its plain call in one precision, and others by name.

Families know more of an operator: what it is near its own limits. This is what is asked where there is no family.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, placed, valued
from npu_assay.conformance.cases.families.elementwise.functions import within_domain
from npu_assay.conformance.cases.family import STATIC_INT8
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, model
from npu_assay.conformance.cases.pieces.contexts import TWO_SCALES, contexts, float_contexts, used_twice
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.quantization import (
    RESCALED,
    float_same_qparams,
    moved_ratios,
    rescaled,
    same_qparams,
)
from npu_assay.conformance.cases.pieces.spelling import (
    FLOATS,
    INT8,
    INT16,
    INTEGERS,
    STATIC,
    as_integers,
    is_static,
    opened,
    spelled,
)
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.cases.pieces.values import fills, float_layout_values, one_hots
from npu_assay.conformance.programs.graph import Fill

CODES = (STATIC_INT8, STATIC[0], INT8, INT16)


@dataclass(frozen=True)
class Plain:
    """An operator in one precision, of which nothing is known but how it is called.

    subject: its plain call; any shape of `x` goes where each element of the result is made of the one at its
    place. more: other calls by name. axes: calls that differ from the plain one in one thing, which the first name
    tells, and of which predicates say what is right. floats: the plain one in fp32. none: without elements. moves:
    whether nothing is rounded. domain: the only reals that it takes, None for all. listed: whether it takes none but
    those that `x` is filled with. telling: whether results are finite on any small number.
    """

    subject: Subject
    more: tuple[tuple[str, Call], ...] = ()
    floats: Call | None = None
    none: Call | None = None
    moves: bool = False
    domain: tuple[float, float] | None = None
    telling: bool = True
    listed: bool = False
    axes: tuple[tuple[str, str, Call], ...] = ()

    @property
    def rounds(self) -> bool:
        """Whether its results are real numbers that other scales than the operand's may hold."""
        return self.subject.reals and not self.moves


def asked(plain: Plain, precision: str, limits: Limits) -> list[CaseDraft]:
    """The cases of a row in one precision."""
    if precision in FLOATS or is_static(precision):
        found = list(_on_floats(plain, precision, limits))
    else:
        found = _static(plain, limits) if precision == STATIC_INT8 else _on_integers(plain, precision, limits)
    if plain.domain is not None and precision in CODES:
        found = within_domain(found, plain.domain)
    return [draft for draft in found if not _other_numbers(draft)] if plain.listed else found


def _other_numbers(draft: CaseDraft) -> bool:
    """Whether the operator gets numbers that it was not filled with."""
    return draft.side == "value" or draft.variant.startswith("behind_") or draft.variant == TWO_SCALES


def _others(plain: Plain, precision: str) -> list[CaseDraft]:
    """Other sizes, other arguments."""
    calls = (*(("", name, u) for name, u in plain.more), *plain.axes)
    return [
        replace(accepted(name, spelled(u, precision) if precision == INT16 else u, plain.subject.prefix), axis=axis)
        for axis, name, u in calls
    ]


def _empty(plain: Plain) -> Iterator[CaseDraft]:
    """Known sizes, and none."""
    if plain.none is not None:
        yield outside("static_shape", "no_elements", plain.none, plain.subject.prefix)


# ------------------------------------------------------------------------------------ codes and integers


def _on_integers(plain: Plain, precision: str, limits: Limits) -> list[CaseDraft]:
    """As every row of integer hardware is asked."""
    found = [*everywhere(plain.subject, precision, limits), *_others(plain, precision)]
    if plain.axes:
        found += one_hots(plain.subject.call(precision), spots=3)
        if "code_dtype" in limits and precision != INTEGERS:
            found.append(outside("code_dtype", "int32", as_integers(plain.subject.call(precision))))
    if precision == INTEGERS or not plain.rounds:
        return found
    ratios = moved_ratios(plain.subject, precision) if plain.axes else ()
    return [*found, *rescaled(plain.subject, precision), *ratios]


def _static(plain: Plain, limits: Limits) -> list[CaseDraft]:
    """As rows without precisions are asked."""
    u, prefix = plain.subject.call(STATIC_INT8), plain.subject.prefix
    alike = "same_qparams" in limits
    around = contexts(u, prefix) if plain.subject.reals else _plain_contexts(u)
    return [
        accepted("baseline", u, prefix),
        limit("static_shape", "known_sizes", u, prefix),
        *_others(plain, STATIC_INT8),
        *_empty(plain),
        *(_on_its_reals(plain, u, draft) for draft in around),
        *(_among(u) if plain.axes else ()),
        *(same_qparams(u, prefix) if alike else ()),
        *fills(u, prefix),
        *(valued(f"scale_{name}", replace(u, y=y), prefix) for name, y in RESCALED if plain.rounds and not alike),
    ]


def _among(u: Call) -> Iterator[CaseDraft]:
    """Contexts of an operator that has a domain, and numbers that show wrong axes."""
    yield placed("behind_abs", u, behind_abs)
    if u.x.shape[0] == 1 and len(u.x.shape) in (3, 4):
        yield placed("behind_conv", u, behind_conv)
    yield from one_hots(u)


def _on_its_reals(plain: Plain, u: Call, draft: CaseDraft) -> CaseDraft:
    """The draft, with numbers that the operator takes where its operands are reals."""
    if plain.floats is None or draft.variant not in ("float_model", "float_input"):
        return draft
    alone = draft.variant == "float_model"
    others = (plain.floats if alone else u).values[1:]
    return replace(draft, graph=model(replace(u, values=(plain.floats.x, *others), y=None if alone else u.y)))


def _plain_contexts(u: Call) -> Iterator[CaseDraft]:
    """Contexts of an operator whose result is no real number."""
    yield placed("used_twice", used_twice(u))
    yield limit("quantized", "codes", u)
    yield outside("quantized", "float_model", u)


# ------------------------------------------------------------------------------------ floats

TELLING = (0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1 / 3, -1 / 3, 3.0, -3.0, 2.0**-10, -(2.0**-10), 60.0, -60.0)


def _on_floats(plain: Plain, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """As rows of single and half precision are asked."""
    u, prefix = plain.subject.call(precision), plain.subject.prefix
    if plain.axes:
        yield from (*everywhere(plain.subject, precision, limits), *_others(plain, precision))
        yield from float_layout_values(u)
        if is_static(precision):
            alike = "same_qparams" in limits
            yield from float_same_qparams(u) if alike else rescaled(plain.subject, precision)
        return
    yield accepted("baseline", u, prefix)
    yield from _others(plain, precision)
    yield from float_contexts(u, precision) if plain.subject.reals else (placed("used_twice", used_twice(u)),)
    yield limit("dtype", u.x.dtype, u, prefix)
    yield outside("dtype", "float64", u.with_each(dtype="float64"), prefix)
    yield limit("static_shape", "known_sizes", u, prefix)
    if plain.subject.elementwise:
        yield outside("static_shape", "open_axis_0", opened(u, (0,)), prefix)
    yield from _empty(plain)
    if plain.subject.elementwise and plain.telling:
        yield valued("telling", u.with_x(fill=Fill("list", values=TELLING)), prefix)
