"""What every row is asked, whatever the operator: from its plain call in one number type, and others by name.

Families know more of an operator: what it is near its own limits. This is what is asked where there is no family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from npu_assay.conformance.cases.families.elementwise.functions import within_domain
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Call,
    CaseDraft,
    Prefix,
    accepted,
    bare,
    behind_abs,
    limit,
    model,
    outside,
    placed,
    valued,
)
from npu_assay.conformance.cases.pieces.contexts import TWO_SCALES, contexts, float_contexts, used_twice
from npu_assay.conformance.cases.pieces.everywhere import integer_everywhere
from npu_assay.conformance.cases.pieces.quantization import RESCALED, rescaled
from npu_assay.conformance.cases.pieces.spelling import FLOATS, INT8, INT16, INTEGERS, opened, spelled
from npu_assay.conformance.cases.pieces.subject import IntegerSubject
from npu_assay.conformance.cases.pieces.values import FILLS
from npu_assay.conformance.programs.graph import Fill, Graph

CLASSIC = ""
"""The number type of a row that names none: int8, computed between dequantize and quantize nodes."""
CODES = (CLASSIC, INT8, INT16)
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Plain:
    """An operator, used in int8 (for rows of codes), in floats or on integers.

    call: the plain one. more: others by name. floats: the plain one in fp32. at: for any shape of the operand, where
    each element of the result is made of the one at its place. none: without elements. reals: whether the result is a
    real number. moves: whether nothing is rounded. domain: the only reals that it takes, None for all. listed: whether
    it takes none but those that its operand is filled with. telling: whether results are finite on any small number.
    prefix: what stands in front: an abs, of an operator that computes nothing.
    """

    call: Call
    more: tuple[tuple[str, Call], ...] = ()
    floats: Call | None = None
    at: Callable[[Shape], Call] | None = None
    none: Call | None = None
    reals: bool = True
    moves: bool = False
    domain: tuple[float, float] | None = None
    telling: bool = True
    listed: bool = False
    prefix: Prefix = bare

    def model(self, call: Call) -> Graph:
        """A call as a model, behind what makes its operand."""
        return model(call, self.prefix)


def asked(plain: Plain, precision: str, limits: Limits) -> list[CaseDraft]:
    """The cases of a row in one number type."""
    if precision in FLOATS:
        found = _on_floats(plain, precision)
    else:
        found = _classic(plain) if precision == CLASSIC else _on_integers(plain, precision, limits)
    if plain.domain is not None and precision in CODES:
        found = within_domain(found, plain.domain)
    return [draft for draft in found if not _other_numbers(draft)] if plain.listed else found


def _other_numbers(draft: CaseDraft) -> bool:
    """Whether the operator gets numbers that it was not filled with."""
    return draft.side == "value" or draft.variant.startswith("behind_") or draft.variant == TWO_SCALES


def _others(plain: Plain, precision: str) -> list[CaseDraft]:
    """Other sizes, other arguments."""
    return [accepted(name, plain.model(spelled(u, precision) if precision == INT16 else u)) for name, u in plain.more]


# ------------------------------------------------------------------------------------ codes and integers


def _on_integers(plain: Plain, precision: str, limits: Limits) -> list[CaseDraft]:
    """As every row of integer hardware is asked."""
    at = plain.at
    subject = IntegerSubject(
        (lambda shape: plain.call) if at is None else at,
        plain.call.values[0].shape,
        open=None if at is None else (0,),
        deep=at is not None,
        elementwise=at is not None,
        plain=not plain.reals,
        idle=plain.prefix is behind_abs,
    )
    found = [*integer_everywhere(subject, precision, limits), *_others(plain, precision)]
    return [*found, *rescaled(subject, precision)] if _rounds(plain) and precision != INTEGERS else found


def _rounds(plain: Plain) -> bool:
    """Whether its results are real numbers that other scales than the operand's may hold."""
    return plain.reals and not plain.moves


def _classic(plain: Plain) -> list[CaseDraft]:
    """As rows without number types are asked."""
    u = plain.call
    found = [
        accepted("baseline", plain.model(u)),
        limit("static_shape", "known_sizes", plain.model(u)),
        *_others(plain, CLASSIC),
    ]
    if plain.none is not None:
        found.append(outside("static_shape", "no_elements", plain.model(plain.none)))
    contexts_ = contexts(u, plain.prefix) if plain.reals else _plain_contexts(u)
    found += [_on_its_reals(plain, draft) for draft in contexts_]
    found += [valued(name, plain.model(u.with_x(fill=fill))) for name, fill in FILLS]
    for name, y in RESCALED:
        if _rounds(plain):
            found.append(valued(f"scale_{name}", plain.model(replace(u, y=y))))
    return found


def _on_its_reals(plain: Plain, draft: CaseDraft) -> CaseDraft:
    """The draft, with numbers that the operator takes where its operands are reals."""
    if plain.floats is None or draft.variant not in ("float_model", "float_input"):
        return draft
    others = plain.floats.values[1:] if draft.variant == "float_model" else plain.call.values[1:]
    y = None if draft.variant == "float_model" else plain.call.y
    return replace(draft, graph=model(replace(plain.call, values=(plain.floats.values[0], *others), y=y)))


def _plain_contexts(u: Call) -> Iterator[CaseDraft]:
    """Contexts of an operator whose result is no real number."""
    yield placed("used_twice", used_twice(u))
    yield limit("quantized", "codes", u)
    yield outside("quantized", "float_model", u)


# ------------------------------------------------------------------------------------ floats

TELLING = (0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1 / 3, -1 / 3, 3.0, -3.0, 2.0**-10, -(2.0**-10), 60.0, -60.0)


def _on_floats(plain: Plain, precision: str) -> list[CaseDraft]:
    """As rows of single and half precision are asked."""
    u = plain.call
    found = [accepted("baseline", plain.model(u)), *_others(plain, precision)]
    found += float_contexts(u, precision) if plain.reals else [placed("used_twice", used_twice(u))]
    found.append(limit("dtype", u.x.dtype, plain.model(u)))
    found.append(outside("dtype", "float64", plain.model(u.with_each(dtype="float64"))))
    found.append(limit("static_shape", "known_sizes", plain.model(u)))
    if plain.at is not None:
        found.append(outside("static_shape", "open_axis_0", plain.model(opened(u, (0,)))))
    if plain.none is not None:
        found.append(outside("static_shape", "no_elements", plain.model(plain.none)))
    if plain.at is not None and plain.telling:
        found.append(valued("telling", plain.model(u.with_x(fill=Fill("list", values=TELLING)))))
    return found
