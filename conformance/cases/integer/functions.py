"""Functions of one number, which the hardware looks up in tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.integer.common import Family, Subject, everywhere, requantised
from npu_assay.conformance.cases.integer.spelling import INT16, is_wide
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Draft,
    Q,
    Use,
    accepted,
    activation,
    constant,
    limit,
    model,
    outside,
    quant,
    use,
    valued,
)
from npu_assay.conformance.cases.shared import FILLS, SCATTERED, named
from npu_assay.conformance.programs.graph import Fill, Quant, Ref, Value

INFINITY = math.inf
UNIT = quant(1 / 120)
COARSE = quant(0.08, 1)
POSITIVE = quant(0.0234375, -128)  # reals in [0, 5.98]
FRACTION = quant(1.99 / 256)  # reals within (-1, 1)
SHAPES = ((7,), (3, 5), (2, 3, 4), (2, 3, 2, 3, 2))
WIDE_SCATTERED = Fill("list", values=tuple(float((40503 * index) % 65536 - 32768) for index in range(256)))


@dataclass(frozen=True)
class Function:
    """A function of `x`. args: what stands behind `x`; x, y: quantisations that fit its domain and its results.

    jump: quantisations with which its 16-bit table jumps; leaps: it does so at 0 with any, so that `x` is an abs then.
    """

    op: str
    args: tuple[Any, ...] = ()
    y: Quant = Q
    x: Quant = Q
    more: tuple[tuple[str, tuple[Any, ...], tuple[tuple[str, Any], ...]], ...] = ()
    domain: tuple[float, float] | None = None
    jump: tuple[Quant, Quant] | None = None
    leaps: bool = False

    def at(self, shape: tuple[int, ...]) -> Use:
        """The function of an `x` of this shape."""
        return use(self.op, shape, *self.args, x=self.x, y=self.y)

    def subject(self, precision: str) -> Subject:
        """What all rows are made from."""
        return Subject(self.at, shapes=SHAPES, elementwise=True, unsigned=self.leaps and is_wide(precision))


def cases(function: Function, precision: str, limits: Limits) -> list[Draft]:
    """What every function has: arguments, codes, other quantisations."""
    subject = function.subject(precision)
    u = subject.use(precision)
    drafts = everywhere(subject, precision, limits)
    for name, args, kwargs in function.more:
        drafts.append(accepted(name, model(replace(u, args=(u.args[0], *args), kwargs=kwargs))))
    drafts += all_codes(subject, precision)
    drafts += slopes(function, precision, limits)
    return drafts if function.domain is None else within(drafts, function.domain)


def within(drafts: list[Draft], domain: tuple[float, float]) -> list[Draft]:
    """The drafts with numbers of a domain only, without those that have none or take them from other operators."""
    kept, filled = [], {name for name, _ in FILLS[:3]}
    for draft in drafts:
        values = tuple(v if v.constant else _limited(v, domain) for v in draft.graph.values)
        known = not any(v is None for v in values) and not draft.variant.startswith("behind_")
        if known and draft.variant not in filled:
            kept.append(replace(draft, graph=replace(draft.graph, values=tuple(v for v in values if v is not None))))
    return kept


def _limited(value: Value, domain: tuple[float, float]) -> Value | None:
    low, high = domain
    q = value.quant
    if q is None:
        spread = tuple(low + (min(high, low + 6.0) - low) * index / 8 for index in range(1, 8))
        return replace(value, fill=Fill("list", values=spread))
    scales = q.scale if isinstance(q.scale, tuple) else (q.scale,)
    first = max(q.qmin, *(math.ceil(low / scale) + q.zero_point for scale in scales))
    last = min(q.qmax, *(math.floor(min(high, 1e9) / scale) + q.zero_point for scale in scales))
    if first > last:
        return None
    count = last - first + 1
    codes = tuple(float(first + (40503 * (index + 1)) % count) for index in range(min(count, 256)))
    return replace(value, fill=Fill("list", values=codes))


def slopes(function: Function, precision: str, limits: Limits, usual: Use | None = None) -> list[Draft]:
    """Entries next to each other in a 16-bit table, at most 2**15 - 1 codes apart."""
    if "table_slope" not in limits:
        return []
    limits.fixed("table_slope", 2**15 - 1)
    subject = function.subject(precision)
    u = subject.use(precision) if usual is None else usual
    drafts = [limit("table_slope", "usual", subject.model(u))]
    if function.jump is not None:
        x, y = function.jump
        drafts.append(outside("table_slope", "jumps", model(requantised(u, x, y, INT16))))
    return drafts


def all_codes(subject: Subject, precision: str) -> list[Draft]:
    """Every 8-bit code, or 256 of the 16-bit ones, for quantisations at several places; every 16-bit code once."""
    u = subject.use(precision, (1, 8, 4, 8))
    base = subject.at(subject.shape)
    x, y = base.values[0].quant or Q, base.y or Q
    assert isinstance(x.scale, float) and isinstance(y.scale, float)
    filled = replace(
        u, values=(replace(u.values[0], fill=WIDE_SCATTERED if is_wide(precision) else SCATTERED), *u.values[1:])
    )
    pairs = (
        (x, y),
        (quant(x.scale / 2, 0), quant(y.scale / 2, 0)),
        (quant(x.scale, -128), quant(y.scale, 127)),
        (quant(x.scale, 127), quant(y.scale * 2, -128)),
    )
    drafts = [
        valued(f"all_codes_{named(a)}_to_{named(b)}", subject.model(requantised(filled, a, b, precision)))
        for a, b in dict.fromkeys(pairs)
    ]
    if is_wide(precision):
        every = replace(subject.use(precision, (1, 16, 64, 64)).values[0], fill=Fill("all_codes"))
        drafts.append(valued("every_16_bit_code", subject.model(replace(u, values=(every, *u.values[1:])))))
    return drafts


# ------------------------------------------------------------------------------------ of two tensors


def number_cases(
    function: Function, kwargs: tuple[tuple[str, Any], ...], precision: str, limits: Limits
) -> list[Draft]:
    """A function of two tensors, the second one a constant of one element."""
    divisor = constant("other", (1,), quant(0.03125, -7), Fill("list", values=(57.0,)))

    def at(shape: tuple[int, ...]) -> Use:
        x = activation("x", shape, function.x)
        return Use(function.op, (x, divisor), (Ref("x"), Ref("other")), function.y, kwargs)

    subject = Subject(at, shapes=SHAPES, elementwise=True)
    u = subject.use(precision)
    other = u.values[1]

    def with_other(shape: tuple[int, ...], is_constant: bool) -> Use:
        return replace(u, values=(u.values[0], replace(other, shape=shape, constant=is_constant)))

    drafts = [
        *everywhere(subject, precision, limits),
        limit("number_operand", "constant_of_shape_1", model(u)),
        limit("number_operand", "constant_without_shape", model(with_other((), True))),
        limit("number_operand", "constant_of_shape_1x1x1", model(with_other((1, 1, 1), True))),
        outside("number_operand", "computed", model(with_other((1,), False))),
        *all_codes(subject, precision),
        *slopes(replace(function, jump=None), precision, limits, u),
    ]
    return drafts if function.domain is None else within(drafts, function.domain)


ROUNDING = "rounding_mode"
FUNCTIONS: Mapping[str, Function] = {
    row.op: row
    for row in (
        Function("aten.acos.default", x=FRACTION, domain=(-0.99, 0.99)),
        Function("aten.acosh.default", x=POSITIVE, y=quant(0.01, -128), domain=(1.05, INFINITY)),
        Function("aten.asin.default", x=FRACTION, domain=(-0.99, 0.99)),
        Function("aten.asinh.default"),
        Function("aten.atan.default"),
        Function("aten.atanh.default", x=FRACTION, domain=(-0.95, 0.95)),
        Function("aten.ceil.default"),
        Function("aten.celu.default", more=(("alpha_0.5", (0.5,), ()),)),
        Function("aten.cos.default", y=UNIT, jump=(quant(3.0), UNIT)),
        Function("aten.cosh.default", y=COARSE),
        Function("aten.elu.default", more=(("alpha_0.5", (0.5,), ()), ("selu", (1.67326, 1.0507), ()))),
        Function("aten.erf.default", y=UNIT),
        Function("aten.erfinv.default", x=FRACTION, domain=(-0.95, 0.95)),
        Function("aten.exp.default", y=COARSE),
        Function("aten.expm1.default", y=COARSE),
        Function("aten.floor.default"),
        Function("aten.gelu.default", more=(("tanh", (), (("approximate", "tanh"),)),)),
        Function("aten.hardsigmoid.default", y=UNIT),
        Function("aten.hardswish.default"),
        Function("aten.leaky_relu.default", more=(("slope_0.2", (0.2,), ()), ("slope_minus_0.5", (-0.5,), ()))),
        Function("aten.log.default", x=POSITIVE, domain=(0.2, INFINITY), jump=(quant(20.0), quant(0.002))),
        Function("aten.log10.default", x=POSITIVE, domain=(0.2, INFINITY), jump=(quant(20.0), quant(0.002))),
        Function("aten.log1p.default", x=POSITIVE, domain=(-0.5, INFINITY)),
        Function(
            "aten.pow.Tensor_Scalar",
            (2.0,),
            y=COARSE,
            more=(("cubed", (3,), ()), ("of_a_float", (3.0,), ()), ("itself", (1,), ())),
        ),
        Function("aten.reciprocal.default", x=POSITIVE, domain=(0.2, INFINITY), jump=(POSITIVE, Q), leaps=True),
        Function("aten.remainder.Scalar", (1.5,), more=(("whole_number", (2,), ()), ("negative", (-1.5,), ()))),
        Function("aten.round.default"),
        Function("aten.rsqrt.default", x=POSITIVE, domain=(0.2, INFINITY)),
        Function("aten.selu.default"),
        Function("aten.sigmoid.default", y=quant(1 / 256, -128)),
        Function("aten.sign.default", y=UNIT),
        Function("aten.silu.default"),
        Function("aten.sin.default", y=UNIT, jump=(quant(3.0), UNIT)),
        Function("aten.sinh.default", y=COARSE),
        Function("aten.tan.default", x=quant(0.01), y=COARSE, jump=(Q, COARSE)),
        Function("aten.tanh.default", y=UNIT),
    )
}
OF_TWO: Mapping[str, tuple[Function, tuple[tuple[str, Any], ...]]] = {
    "aten.div.Tensor_mode": (Function("aten.div.Tensor_mode", y=quant(1.0)), ((ROUNDING, "floor"),)),
    "aten.pow.Tensor_Tensor": (Function("aten.pow.Tensor_Tensor", x=POSITIVE, y=COARSE, domain=(0.2, INFINITY)), ()),
    "aten.remainder.Tensor": (Function("aten.remainder.Tensor"), ()),
}


def div_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.div.Tensor_mode: both ways to round."""
    function, floor = OF_TWO["aten.div.Tensor_mode"]
    trunc = number_cases(function, ((ROUNDING, "trunc"),), precision, limits)
    renamed = [replace(draft, variant=f"trunc_{draft.variant}") for draft in trunc if draft.side == "value"]
    return [*number_cases(function, floor, precision, limits), *renamed]


FAMILIES: Mapping[str, Family] = {
    **{name: partial(cases, function) for name, function in FUNCTIONS.items()},
    **{name: partial(number_cases, *row) for name, row in OF_TWO.items()},
    "aten.div.Tensor_mode": div_cases,
}
