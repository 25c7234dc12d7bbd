"""Operators on one tensor, element by element: what all of them are asked in each precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from npu_assay.conformance.cases.around import behind_abs
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, placed, valued
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, Q, X, call, quant, sizes_of
from npu_assay.conformance.cases.permitted import deepest
from npu_assay.conformance.cases.pieces.contexts import behind_convolution, contexts, twice_in_a_row
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.fusion import after_products
from npu_assay.conformance.cases.pieces.placed import FULL_IMAGE
from npu_assay.conformance.cases.pieces.quantization import fixed_output, moved_ratios, requantized_codes, rescaled
from npu_assay.conformance.cases.pieces.sizes import rank_limit
from npu_assay.conformance.cases.pieces.spelling import (
    IMAGE,
    INT8,
    INTEGERS,
    call_on,
    is_static,
    is_wide,
    or_integers,
    real,
)
from npu_assay.conformance.cases.pieces.subject import FLOAT, Config, Subject
from npu_assay.conformance.cases.pieces.values import (
    SCATTERED,
    TELLING,
    WIDE_SCATTERED,
    ZERO_POINTS,
    all_codes,
    fills,
    lut_inputs,
    named,
    rescaling_pairs,
)
from npu_assay.conformance.programs.graph import Fill, Quant

# ------------------------------------------------------------------------------------ static int8


STATIC_SHAPES = (
    (1,),
    (7,),
    (3, 5),
    (2, 3, 7),
    (1, 3, 5, 7),
    (2, 1, 4, 3),
    (2, 3, 2, 3, 2),
    (1, 1, 1, 1),
    (1, 2, 1, 3, 1, 2),
)


def static_shapes(u: Call, limits: Limits) -> list[CaseDraft]:
    """Ranks 1 to 6, one channel, one element, sizes that are multiples of nothing; then the largest rank."""
    choices = [shape for shape in STATIC_SHAPES if len(shape) <= deepest(limits)]
    return [
        *(accepted(f"shape_{sizes_of(shape)}", u.with_x(shape=shape)) for shape in choices),
        *rank_limit(limits, lambda shape: u.with_x(shape=shape)),
    ]


def unlimited(u: Call, limits: Limits, follow: Callable[[int], int]) -> list[CaseDraft]:
    """A row with limits on scales and rank only: every other shape, context and usual rescale is accepted."""
    return [*anywhere(u, limits), *all_codes(u, rescaling_pairs(1.0, follow)), *fills(u)]


def anywhere(u: Call, limits: Limits) -> list[CaseDraft]:
    """A row with limits on scales and rank only: shapes and contexts."""
    return [
        *static_shapes(u, limits),
        *contexts(u),
        *behind_convolution(u),
        placed("behind_abs", u, behind_abs),
        placed("twice_in_a_row", twice_in_a_row(u)),
    ]


def fixed_results(op: str, limits: Limits, x: Quant, y: Quant) -> list[CaseDraft]:
    """sigmoid and tanh: tables of 256 entries with a fixed output quantization."""
    u = call(op, FULL_IMAGE, x=x, y=y)
    return [
        *static_shapes(u, limits),
        *contexts(u),
        *behind_convolution(u),
        placed("behind_abs", u, behind_abs),
        *fixed_output(u, y),
        *after_products(u),
        *all_codes(u, [(q, y) for q in lut_inputs()]),
        *fills(u),
    ]


# ------------------------------------------------------------------------------------ floats


FLOAT_SHAPES = ((), (7,), (2, 3, 2, 3, 2), (3, 65))
SMALL = (2.0**-14, -(2.0**-14), 2.0**-10, 1e-3, -1e-3, 0.015625, -0.03125)
LARGE_NUMBERS = (60.0, -60.0, 255.0, -255.0, 1000.0, -1000.0)


@dataclass(frozen=True)
class FloatUnary:
    """An operator on one tensor. args: what stands after `x`; fill: numbers that it is defined for.

    numbers: further values to look at, in fp32 and fp16.
    """

    op: str
    config: str
    args: tuple[Any, ...] = ()
    supports: tuple[str, ...] = FLOAT
    fill: Fill | None = None
    numbers: tuple[float, ...] = (*TELLING, *SMALL)
    large: tuple[float, ...] = LARGE_NUMBERS
    integers: bool = False

    def at(self, precision: str, shape: tuple[int, ...]) -> Call:
        """The operator on an `x` of this shape."""
        return call_on(self.op, real("x", shape, precision, self.fill), precision, *self.args)

    @property
    def subject(self) -> Subject:
        """What all rows are made from."""
        return Subject(self.at, config=Config(self.config, self.supports), whole=self.integers)


def float_unary(unary: FloatUnary, precision: str, limits: Limits) -> list[CaseDraft]:
    """What every operator on one tensor has."""
    u = unary.subject.call(precision)
    drafts = everywhere(unary.subject, precision, limits)
    if is_static(precision):
        return [*drafts, *all_codes(u, pairs())]
    if precision == "fp32":
        drafts += float_shapes(unary, precision)
    if precision == "fp32" and unary.fill is None:
        drafts.append(placed("twice_in_a_row", twice_in_a_row(u)))
    return [*drafts, *float_values(unary, u)]


def float_shapes(unary: FloatUnary, precision: str) -> list[CaseDraft]:
    """Ranks 0 to 5, sizes that are multiples of nothing."""
    return [accepted(f"shape_{sizes_of(shape) or 'scalar'}", unary.at(precision, shape)) for shape in FLOAT_SHAPES]


def float_values(unary: FloatUnary, u: Call) -> list[CaseDraft]:
    """Numbers that tell implementations apart."""
    listed = {"telling": unary.numbers, "large": unary.large}
    return [
        valued(name, u.with_x(shape=(1, 2, 3, 8), fill=Fill("list", values=numbers)))
        for name, numbers in listed.items()
        if numbers
    ]


def pairs() -> list[tuple[Quant, Quant]]:
    """Equal parameters, zero points at the ends, ties, saturation, extreme scales."""
    equal = [(quant(0.05, zero), quant(0.05, zero)) for zero in ZERO_POINTS]
    ends = [(quant(0.05, 0), quant(0.06, zero)) for zero in (-128, 127)]
    ties = [(quant(0.0625, zero), quant(0.125, moved)) for zero, moved in ((0, 0), (-5, 4), (0, 3))]
    return [*equal, *ends, *ties, (quant(0.05, 3), quant(0.01, 0)), (quant(2.0**-10, 7), quant(3.0, -7))]


def float_spellings(
    unary: FloatUnary, precision: str, spellings: Sequence[tuple[str, tuple[Any, ...]]]
) -> list[tuple[str, Call]]:
    """The operator with other arguments after `x`."""
    x = real("x", IMAGE, precision, unary.fill)
    return [(name, call_on(unary.op, x, precision, *args)) for name, args in spellings]


# ------------------------------------------------------------------------------------ integers


INTEGER_SHAPES = ((7,), (3, 5), (2, 3, 4), (2, 3, 2, 3, 2))


def integer_all_codes(subject: Subject, precision: str) -> list[CaseDraft]:
    """Every 8-bit code, or 256 of the 16-bit ones, for quantizations at several places; every 16-bit code once."""
    u = subject.call(precision, (1, 8, 4, 8))
    base = subject.call(INT8)
    x, y = base.values[0].quant or Q, base.y or Q
    assert isinstance(x.scale, float) and isinstance(y.scale, float)
    filled = u.with_x(fill=WIDE_SCATTERED if is_wide(precision) else SCATTERED)
    pairs = (
        (x, y),
        (quant(x.scale / 2, 0), quant(y.scale / 2, 0)),
        (quant(x.scale, -128), quant(y.scale, 127)),
        (quant(x.scale, 127), quant(y.scale * 2, -128)),
    )
    drafts = [
        valued(f"all_codes_{named(a)}_to_{named(b)}", subject.model(requantized_codes(filled, a, b, precision)))
        for a, b in dict.fromkeys(pairs)
    ]
    if is_wide(precision):
        every = replace(subject.call(precision, (1, 16, 64, 64)).values[0], fill=Fill("all_codes"))
        drafts.append(valued("every_16_bit_code", subject.model(replace(u, values=(every, *u.values[1:])))))
    return drafts


@dataclass(frozen=True)
class IntegerUnary:
    """An operator on `x`; args: what stands after it; y: its result's quantization; more: other arguments."""

    op: str
    args: tuple[Any, ...] = ()
    y: Quant = Q
    more: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    @property
    def subject(self) -> Subject:
        """What all rows are made from."""
        at = or_integers(lambda shape: call(self.op, shape, *self.args, y=self.y))
        return Subject(at, shapes=INTEGER_SHAPES, elementwise=True)


def integer_unary(unary: IntegerUnary, precision: str, limits: Limits) -> list[CaseDraft]:
    """What every one of them has."""
    subject = unary.subject
    u = subject.call(precision)
    drafts = everywhere(subject, precision, limits)
    drafts += [accepted(name, replace(u, args=(X, *args))) for name, args in unary.more]
    if precision == INTEGERS:
        return drafts
    drafts += integer_all_codes(subject, precision)
    return [*drafts, *rescaled(subject, precision), *moved_ratios(subject, precision)]
