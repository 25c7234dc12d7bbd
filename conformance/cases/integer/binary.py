"""Operators on two tensors, element by element, and on one without a table: sums, products, extrema, limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from npu_assay.conformance.cases.integer.common import Family, Subject, everywhere, ratio_limits
from npu_assay.conformance.cases.integer.spelling import INTEGERS, codes_quant, integers, is_wide, other_type, spelled
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Draft,
    Q,
    Use,
    X,
    accepted,
    activation,
    limit,
    model,
    outside,
    quant,
    seeded,
    sizes_of,
    valued,
)
from npu_assay.conformance.cases.shared import SCATTERED, named
from npu_assay.conformance.programs.graph import Fill, Quant, Ref

Y = Ref("y")
IMAGE = (1, 3, 4, 5)
OTHER = quant(0.03125, -7)
SUM = quant(0.08, 1)
BROADCAST = (
    (IMAGE, (1, 3, 1, 1)),
    (IMAGE, (5,)),
    (IMAGE, (3, 4, 5)),
    ((3, 1), (1, 4)),
    ((1, 3, 1, 5), (2, 1, 4, 1)),
    ((4, 5), (1, 3, 4, 5)),
)
SHAPES = ((7,), (3, 5), (2, 3, 4), (2, 3, 2, 3, 2))
TRIPLES = (
    (quant(0.05), quant(0.05), quant(0.1)),
    (quant(0.05, -128), quant(0.05, 127), quant(0.1, 0)),
    (quant(0.0625, 3), quant(0.03125, -4), quant(0.125, 5)),
    (quant(0.05, 9), quant(0.07, -20), quant(0.013, -128)),
    (quant(0.05, 1), quant(0.0007, 2), quant(0.06, 127)),
    (quant(3.0), quant(2.0, -3), quant(4.0, 1)),
)


@dataclass(frozen=True)
class Binary:
    """An operator on two tensors; y: its result's quantisation; plain: its result is a truth."""

    op: str
    y: Quant | None = SUM
    plain: bool = False

    def of(self, precision: str, left: tuple[int, ...], right: tuple[int, ...], **kwargs: object) -> Use:
        """The operator on tensors of these shapes."""
        if precision == INTEGERS:
            values = (integers("x", left), integers("y", right, low=-4, high=4))
            return Use(self.op, values, (X, Y), None, tuple(kwargs.items()))
        u = Use(self.op, (activation("x", left), activation("y", right, OTHER)), (X, Y), self.y, tuple(kwargs.items()))
        return spelled(u, precision)

    def subject(self, precision: str) -> Subject:
        """What all rows are made from."""
        base = INTEGERS if precision == INTEGERS else "int8"
        return Subject(lambda shape: self.of(base, shape, shape), shapes=SHAPES, elementwise=True, plain=self.plain)


def cases(binary: Binary, precision: str, limits: Limits) -> list[Draft]:
    """What every operator on two tensors has."""
    u = binary.of(precision, IMAGE, IMAGE)
    x, y = u.values
    drafts = everywhere(binary.subject(precision), precision, limits)
    drafts += [
        accepted("same_tensor_twice", model(replace(u, values=(x,), args=(X, X)))),
        accepted("constant_operand", model(replace(u, values=(x, replace(y, constant=True))))),
        *(
            accepted(f"broadcast_{sizes_of(left)}_and_{sizes_of(right)}", model(binary.of(precision, left, right)))
            for left, right in BROADCAST
        ),
    ]
    if precision == INTEGERS:
        return drafts
    if "mixed_dtype" in limits:
        if binary.plain:
            drafts.append(limit("mixed_dtype", "all_the_same", model(u)))
        strange = replace(y, quant=other_type(precision), fill=seeded("y"))
        drafts.append(outside("mixed_dtype", "second_operand", model(replace(u, values=(x, strange)))))
    return [*drafts, *codes(binary, precision)]


def codes(binary: Binary, precision: str) -> Iterator[Draft]:
    """Every code against codes far from it, for quantisations that tell roundings apart."""
    u = binary.of(precision, (1, 8, 4, 8), (1, 8, 4, 8))
    for a, b, y in TRIPLES:
        first, second, after = (codes_quant(precision, q) for q in (a, b, y))
        x = replace(u.values[0], quant=first, fill=seeded("x") if is_wide(precision) else SCATTERED)
        other = replace(u.values[1], quant=second, fill=seeded("other"))
        graph = model(replace(u, values=(x, other), y=None if binary.plain else after))
        yield valued(f"codes_{named(a)}_{named(b)}_to_{named(y)}", graph)
    for name in ("min", "max", "alternating"):
        filled = tuple(replace(value, fill=Fill(name)) for value in u.values)
        yield valued(f"both_{name}", model(replace(u, values=filled)))


def scaled(u: Use, precision: str, left: float, right: float, after: float) -> Use:
    """The use with these scales, and zero points 0."""
    x, y = (
        replace(value, quant=codes_quant(precision, quant(scale)))
        for value, scale in zip(u.values, (left, right), strict=True)
    )
    return replace(u, values=(x, y), y=codes_quant(precision, quant(after)))


# ------------------------------------------------------------------------------------ rows


def sum_cases(binary: Binary, precision: str, limits: Limits) -> list[Draft]:
    """add and sub: alpha is 1, however it is spelled; the common scale must not be far above the output's."""
    limits.fixed("alpha", 1)
    u = binary.of(precision, IMAGE, IMAGE)
    drafts = cases(binary, precision, limits)
    spellings = (("left_out", {}), ("1", {"alpha": 1}), *((("1.0", {"alpha": 1.0}),) if precision != INTEGERS else ()))
    drafts += [limit("alpha", name, model(binary.of(precision, IMAGE, IMAGE, **kwargs))) for name, kwargs in spellings]
    past: tuple[float, ...] = (2, 0, -1) if precision == INTEGERS else (2, 0.5, -1)
    for number in past:
        strange = binary.of(precision, IMAGE, IMAGE, alpha=number)
        drafts.append(outside("alpha", str(number).replace("-", "minus_"), model(strange)))
    if precision != INTEGERS:
        # Two operands of up to 2**7 (2**15) steps of a code, each 2**19 (2**11) parts: 2**27 in all.
        drafts += ratio_limits(lambda ratio: scaled(u, precision, ratio, ratio, 1.0), 13 if is_wide(precision) else 21)
    return drafts


def product_cases(binary: Binary, precision: str, limits: Limits) -> list[Draft]:
    """mul: any scales whose product is not far above the output's."""
    drafts = cases(binary, precision, limits)
    if precision != INTEGERS:
        u = binary.of(precision, IMAGE, IMAGE)
        finer = 256 if is_wide(precision) else 1
        bits = -1 if is_wide(precision) else 15
        drafts += ratio_limits(lambda ratio: scaled(u, precision, 1.0, ratio * finer, 1.0), bits)
    return drafts


def extreme_cases(binary: Binary, precision: str, limits: Limits) -> list[Draft]:
    """maximum and minimum: both operands on the smaller scale."""
    drafts = cases(binary, precision, limits)
    if precision != INTEGERS:
        u = binary.of(precision, IMAGE, IMAGE)
        drafts += ratio_limits(lambda ratio: scaled(u, precision, ratio, 1.0, ratio), 14 if is_wide(precision) else 22)
    return drafts


FAMILIES: Mapping[str, Family] = {
    "aten.add.Tensor": partial(sum_cases, Binary("aten.add.Tensor")),
    "aten.sub.Tensor": partial(sum_cases, Binary("aten.sub.Tensor")),
    "aten.mul.Tensor": partial(product_cases, Binary("aten.mul.Tensor")),
    "aten.maximum.default": partial(extreme_cases, Binary("aten.maximum.default", Q)),
    "aten.minimum.default": partial(extreme_cases, Binary("aten.minimum.default", Q)),
}
