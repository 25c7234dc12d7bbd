"""Functions of one number, such as exp and sigmoid, which hardware looks up in tables; signs and slopes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.around import behind_abs
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, valued
from npu_assay.conformance.cases.families.elementwise.unary import (
    INTEGER_SHAPES,
    FloatUnary,
    IntegerUnary,
    anywhere,
    fixed_results,
    float_spellings,
    float_unary,
    integer_all_codes,
    integer_unary,
    unlimited,
)
from npu_assay.conformance.cases.family import Family, Maker
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import UNIT, Call, Q, activation, bare, call, constant, quant
from npu_assay.conformance.cases.permitted import INFINITY, fixed_quant
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.placed import FULL_IMAGE, Placed, on_image
from npu_assay.conformance.cases.pieces.quantization import (
    BELOW,
    POSITIVE,
    PROBABILITY,
    TANH,
    requantized_codes,
    rescale_limit,
    unary_rescale,
)
from npu_assay.conformance.cases.pieces.spelling import IMAGE, INT16, call_on, in_int8, is_wide, real
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.cases.pieces.values import FILLS, POSITIVE_NUMBERS, all_codes, fills, rescaling_pairs
from npu_assay.conformance.programs.graph import Fill, Quant, Ref, Value

# ------------------------------------------------------------------------------------ static int8


def _looked_up(op: str, x: Quant, y: Quant) -> Callable[[Limits], Placed]:
    return lambda limits: (call(op, FULL_IMAGE, x=x, y=fixed_quant(limits, y)), bare)


def _positive_logarithm(limits: Limits) -> Placed:
    return call(
        "aten.log.default", FULL_IMAGE, x=POSITIVE, y=STATIC_LOG, fill=Fill("list", values=POSITIVE_CODES)
    ), bare


POSITIVE_CODES = tuple(float(-127 + (97 * index) % 255) for index in range(255))
"""Every code of a positive number, neighbors far apart."""


def static_abs_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.abs.default: scales and rank."""
    u = call("aten.abs.default", FULL_IMAGE)
    return [*unlimited(u, limits, lambda zero: min(zero, 0)), *unary_rescale(u)]


def static_neg_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.neg.default: scales and rank."""
    u = call("aten.neg.default", FULL_IMAGE)
    return [*unlimited(u, limits, lambda zero: -1 - zero), *_neg_rescale(u)]


def _neg_rescale(u: Call) -> list[CaseDraft]:
    """A difference, so limited like a sum: the input scale must be below 2**19 output scales."""
    y = quant(2.0**-19)
    past, kept = u.requantized(quant(1.0), y), u.requantized(quant(BELOW), y)
    return rescale_limit(("ratio_2_to_the_19", past), ("ratio_below_2_to_the_19", kept))


def static_leaky_relu_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.leaky_relu.default: scales and rank; any slope, also none, negative, above one."""
    slopes = (("default", ()), ("0.1", (0.1,)), ("0", (0.0,)), ("1", (1,)), ("minus_0.5", (-0.5,)), ("1.5", (1.5,)))
    variants = {name: call("aten.leaky_relu.default", FULL_IMAGE, *rest) for name, rest in slopes}
    named = call("aten.leaky_relu.default", FULL_IMAGE, negative_slope=0.25)
    slope_cases = [accepted(f"slope_{name}", u) for name, u in variants.items()]
    codes = [
        draft
        for name in ("default", "minus_0.5", "1.5")
        for draft in all_codes(
            variants[name], rescaling_pairs(1.5 if name == "1.5" else 1.0)[:4], label=f"_slope_{name}"
        )
    ]
    return [
        *unlimited(variants["0.1"], limits, int),
        *unary_rescale(variants["0.1"]),
        *slope_cases,
        accepted("slope_by_name", named),
        *codes,
    ]


STATIC_EXP, STATIC_LOG = quant(2.0, -128), quant(0.03, 0)


def static_exp_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.exp.default: scales and rank; the largest entry of its table is a number of 32 bits."""
    u = call("aten.exp.default", FULL_IMAGE, y=STATIC_EXP)
    x = quant(0.125, -73)  # up to 25, whose exponential is 7.2e10
    past, kept = u.requantized(x, quant(33.0)), u.requantized(x, quant(34.0))
    return [
        *anywhere(u, limits),
        *fills(u),
        *rescale_limit(("largest_entry_2_to_the_31.02", past), ("largest_entry_2_to_the_30.98", kept)),
        *all_codes(u, [(quant(0.04, -128), quant(100.0, -128)), (quant(0.02, 127), quant(1 / 256, -128)), (Q, UNIT)]),
        *all_codes(u, [(quant(0.05, zero), quant(0.1, zero)) for zero in (-128, 0, 127)]),
    ]


def static_log_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.log.default: scales and rank; of positive numbers, and of zero, whose result is the lowest code."""
    u = call("aten.log.default", FULL_IMAGE, x=POSITIVE, y=STATIC_LOG)
    found = [
        *(draft for draft in anywhere(u, limits) if draft.variant != "twice_in_a_row"),
        *fills(u),
        *all_codes(u, [(POSITIVE, quant(0.03, zero)) for zero in (-128, 127)]),
        *all_codes(u, [(quant(20.0, -128), quant(0.05, 0)), (quant(2.0**-10, -128), quant(0.05, 20))]),
    ]
    zeros = u.with_x(fill=Fill("list", values=(-128.0, -127.0, 0.0, 127.0)))
    return [*within_domain(found, (2.0**-10, INFINITY)), valued("zero", zeros)]


def static_sigmoid_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.sigmoid.default: output quantized with (1/256, -128)."""
    return fixed_results("aten.sigmoid.default", limits, Q, fixed_quant(limits, PROBABILITY))


def static_tanh_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.tanh.default: output quantized with (1/128, 0)."""
    return fixed_results("aten.tanh.default", limits, UNIT, fixed_quant(limits, TANH))


# ------------------------------------------------------------------------------------ floats


_POSITIVE = (1.0, 0.5, 0.25, 2.0, 3.0, 10.0, 100.0, 0.999, 1.001, 2.0**-10, 2.0**-14, 1000.0)
PLAIN: Mapping[str, FloatUnary] = {
    row.op: row
    for row in (
        FloatUnary("aten.abs.default", "AbsConfig", integers=True),
        FloatUnary("aten.ceil.default", "CeilConfig"),
        FloatUnary("aten.exp.default", "ExpConfig", large=(8.0, 10.0, -10.0, -16.0, -80.0)),
        FloatUnary("aten.floor.default", "FloorConfig"),
        FloatUnary("aten.hardswish.default", "HardswishConfig", large=(60.0, -60.0, 200.0, -200.0)),
        FloatUnary("aten.log.default", "LogConfig", fill=POSITIVE_NUMBERS, numbers=_POSITIVE, large=(1e4, 6e4)),
        FloatUnary("aten.neg.default", "NegConfig", integers=True),
        FloatUnary(
            "aten.rsqrt.default",
            "ReciprocalSquareRootConfig",
            fill=POSITIVE_NUMBERS,
            numbers=_POSITIVE,
            large=(1e4, 6e4),
        ),
        FloatUnary("aten.sigmoid.default", "SigmoidConfig", large=(8.0, -8.0, 20.0, -20.0)),
        FloatUnary(
            "aten.sqrt.default", "SquareRootConfig", fill=POSITIVE_NUMBERS, numbers=(*_POSITIVE, 0.0), large=(1e4, 6e4)
        ),
        FloatUnary("aten.tanh.default", "TanhConfig", large=(8.0, -8.0, 20.0, -20.0)),
    )
}


def float_leaky_relu_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.leaky_relu.default: any slope, also none, negative, above one."""
    unary = FloatUnary("aten.leaky_relu.default", "LeakyReLUConfig", (0.1,))
    slopes = (("default", ()), ("0", (0.0,)), ("1", (1,)), ("minus_0.5", (-0.5,)), ("1.5", (1.5,)))
    chosen = float_spellings(unary, precision, slopes)
    return [*float_unary(unary, precision, limits), *(accepted(f"slope_{name}", u) for name, u in chosen)]


def float_elu_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.elu.default: any alpha, no other scales (selu and celu have them)."""
    limits.fixed("elu_scales", 1)
    unary = FloatUnary("aten.elu.default", "EluConfig")
    alphas = (("1", (1,)), ("0.5", (0.5,)), ("2", (2.0,)), ("minus_0.5", (-0.5,)))
    kept = (("left_out", ()), ("given", (0.75, 1, 1)), ("given_as_floats", (0.75, 1.0, 1.0)))
    past = (
        ("scale_2", (1.0, 2.0)),
        ("input_scale_half", (1.0, 1.0, 0.5)),
        ("selu", (1.6732632423543772, 1.0507009873554805)),
        ("celu_alpha_2", (2.0, 1.0, 0.5)),
    )
    return [
        *float_unary(unary, precision, limits),
        *(accepted(f"alpha_{name}", u) for name, u in float_spellings(unary, precision, alphas)),
        *(limit("elu_scales", name, u) for name, u in float_spellings(unary, precision, kept)),
        *(outside("elu_scales", name, u) for name, u in float_spellings(unary, precision, past)),
    ]


def float_gelu_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.gelu.default: the exact form only."""
    unary = FloatUnary("aten.gelu.default", "GeluConfig", large=(6.0, -6.0, 30.0, -30.0))
    x = real("x", IMAGE, precision)
    return [
        *float_unary(unary, precision, limits),
        limit("approximate", "left_out", call_on(unary.op, x, precision)),
        limit("approximate", "none", call_on(unary.op, x, precision, approximate="none")),
        outside("approximate", "tanh", call_on(unary.op, x, precision, approximate="tanh")),
    ]


def float_pow_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.pow.Tensor_Scalar: squares, the exponent a whole number or a float."""
    limits.fixed("exponent", 2)
    unary = FloatUnary("aten.pow.Tensor_Scalar", "PowConfig", (2,), large=(60.0, -60.0, 200.0))
    kept, past = float_spellings(unary, precision, [("2", (2,)), ("2.0", (2.0,))]), (3, 1, 2.5, 3.0)
    positive = replace(unary, fill=Fill("list", values=(0.25, 1.0, 3.5, 0.1, 7.75, 1.5, 0.6875)))
    others = float_spellings(positive, precision, [(str(number), (number,)) for number in past])
    return [
        *float_unary(unary, precision, limits),
        *(limit("exponent", name, u) for name, u in kept),
        *(outside("exponent", name, u) for name, u in others),
    ]


# ------------------------------------------------------------------------------------ integers


WITHIN_1 = quant(1 / 120)
COARSE = quant(0.08, 1)
FRACTION = quant(1.99 / 256)  # reals within (-1, 1)


@dataclass(frozen=True)
class Function:
    """A function of `x`. args: what stands after `x`; x, y: quantizations that fit its domain and its results.

    jump: quantizations with which its 16-bit table jumps; leaps: it does so at 0 with any, so that `x` is an abs then.
    """

    op: str
    args: tuple[Any, ...] = ()
    y: Quant = Q
    x: Quant = Q
    more: tuple[tuple[str, tuple[Any, ...], tuple[tuple[str, Any], ...]], ...] = ()
    domain: tuple[float, float] | None = None
    jump: tuple[Quant, Quant] | None = None
    leaps: bool = False

    def at(self, shape: tuple[int, ...]) -> Call:
        """The function of an `x` of this shape."""
        return call(self.op, shape, *self.args, x=self.x, y=self.y)

    def subject(self, precision: str) -> Subject:
        """What all rows are made from."""
        return Subject(
            in_int8(self.at),
            shapes=INTEGER_SHAPES,
            elementwise=True,
            prefix=behind_abs if self.leaps and is_wide(precision) else bare,
        )


def integer_function(function: Function, precision: str, limits: Limits) -> list[CaseDraft]:
    """What every function has: arguments, codes, other quantizations."""
    subject = function.subject(precision)
    u = subject.call(precision)
    drafts = everywhere(subject, precision, limits)
    for name, args, kwargs in function.more:
        drafts.append(accepted(name, replace(u, args=(u.args[0], *args), kwargs=kwargs)))
    drafts += integer_all_codes(subject, precision)
    drafts += slopes(function, precision, limits)
    return drafts if function.domain is None else within_domain(drafts, function.domain)


def within_domain(drafts: list[CaseDraft], domain: tuple[float, float]) -> list[CaseDraft]:
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


def slopes(function: Function, precision: str, limits: Limits, usual: Call | None = None) -> list[CaseDraft]:
    """Entries next to each other in a 16-bit table, at most 2**15 - 1 codes apart."""
    if "table_slope" not in limits:
        return []
    limits.fixed("table_slope", 2**15 - 1)
    subject = function.subject(precision)
    u = subject.call(precision) if usual is None else usual
    drafts = [limit("table_slope", "usual", subject.model(u))]
    if function.jump is not None:
        x, y = function.jump
        drafts.append(outside("table_slope", "jumps", requantized_codes(u, x, y, INT16)))
    return drafts


def with_number(
    function: Function, kwargs: tuple[tuple[str, Any], ...], precision: str, limits: Limits
) -> list[CaseDraft]:
    """A function of two tensors, the second one a constant of one element."""
    divisor = constant("other", (1,), quant(0.03125, -7), Fill("list", values=(57.0,)))

    def at(shape: tuple[int, ...]) -> Call:
        x = activation("x", shape, function.x)
        return Call(function.op, (x, divisor), (Ref("x"), Ref("other")), function.y, kwargs)

    subject = Subject(in_int8(at), shapes=INTEGER_SHAPES, elementwise=True)
    u = subject.call(precision)
    other = u.values[1]

    def with_other(shape: tuple[int, ...], is_constant: bool) -> Call:
        return replace(u, values=(u.x, replace(other, shape=shape, constant=is_constant)))

    drafts = [
        *everywhere(subject, precision, limits),
        limit("number_operand", "constant_of_shape_1", u),
        limit("number_operand", "constant_without_shape", with_other((), True)),
        limit("number_operand", "constant_of_shape_1x1x1", with_other((1, 1, 1), True)),
        outside("number_operand", "computed", with_other((1,), False)),
        *integer_all_codes(subject, precision),
        *slopes(replace(function, jump=None), precision, limits, u),
    ]
    return drafts if function.domain is None else within_domain(drafts, function.domain)


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
        Function("aten.cos.default", y=WITHIN_1, jump=(quant(3.0), WITHIN_1)),
        Function("aten.cosh.default", y=COARSE),
        Function("aten.elu.default", more=(("alpha_0.5", (0.5,), ()), ("selu", (1.67326, 1.0507), ()))),
        Function("aten.erf.default", y=WITHIN_1),
        Function("aten.erfinv.default", x=FRACTION, domain=(-0.95, 0.95)),
        Function("aten.exp.default", y=COARSE),
        Function("aten.expm1.default", y=COARSE),
        Function("aten.floor.default"),
        Function("aten.gelu.default", more=(("tanh", (), (("approximate", "tanh"),)),)),
        Function("aten.hardsigmoid.default", y=WITHIN_1),
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
        Function("aten.sign.default", y=WITHIN_1),
        Function("aten.silu.default"),
        Function("aten.sin.default", y=WITHIN_1, jump=(quant(3.0), WITHIN_1)),
        Function("aten.sinh.default", y=COARSE),
        Function("aten.tan.default", x=quant(0.01), y=COARSE, jump=(Q, COARSE)),
        Function("aten.tanh.default", y=WITHIN_1),
    )
}
OF_TWO: Mapping[str, tuple[Function, tuple[tuple[str, Any], ...]]] = {
    "aten.div.Tensor_mode": (Function("aten.div.Tensor_mode", y=quant(1.0)), ((ROUNDING, "floor"),)),
    "aten.pow.Tensor_Tensor": (Function("aten.pow.Tensor_Tensor", x=POSITIVE, y=COARSE, domain=(0.2, INFINITY)), ()),
    "aten.remainder.Tensor": (Function("aten.remainder.Tensor"), ()),
}


def integer_rounded_div_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.div.Tensor_mode: both ways to round."""
    function, floor = OF_TWO["aten.div.Tensor_mode"]
    trunc = with_number(function, ((ROUNDING, "trunc"),), precision, limits)
    renamed = [replace(draft, variant=f"trunc_{draft.variant}") for draft in trunc if draft.side == "value"]
    return [*with_number(function, floor, precision, limits), *renamed]


def _floats(name: str) -> Maker:
    return partial(float_unary, PLAIN[name])


def _integers(name: str) -> Maker:
    return partial(integer_function, FUNCTIONS[name])


def _both(name: str) -> tuple[str, Family]:
    """An operator with nothing but what all functions are asked."""
    floats = _floats(name) if name in PLAIN else None
    return name, Family(floats=floats, integers=_integers(name) if name in FUNCTIONS else None)


FAMILIES: Mapping[str, Family] = {
    **dict(_both(name) for name in dict.fromkeys((*PLAIN, *FUNCTIONS))),
    **{name: Family(integers=partial(with_number, *row)) for name, row in OF_TWO.items()},
    "aten.exp.default": Family(
        plain=on_image("aten.exp.default", y=STATIC_EXP),
        static=static_exp_cases,
        floats=_floats("aten.exp.default"),
        integers=_integers("aten.exp.default"),
    ),
    "aten.log.default": Family(
        plain=_positive_logarithm,
        static=static_log_cases,
        floats=_floats("aten.log.default"),
        integers=_integers("aten.log.default"),
    ),
    "aten.abs.default": Family(
        plain=on_image("aten.abs.default"),
        static=static_abs_cases,
        floats=_floats("aten.abs.default"),
        integers=partial(integer_unary, IntegerUnary("aten.abs.default")),
    ),
    "aten.div.Tensor_mode": Family(integers=integer_rounded_div_cases),
    "aten.elu.default": Family(floats=float_elu_cases, integers=_integers("aten.elu.default")),
    "aten.gelu.default": Family(floats=float_gelu_cases, integers=_integers("aten.gelu.default")),
    "aten.leaky_relu.default": Family(
        plain=on_image("aten.leaky_relu.default", 0.1),
        static=static_leaky_relu_cases,
        floats=float_leaky_relu_cases,
        integers=_integers("aten.leaky_relu.default"),
    ),
    "aten.neg.default": Family(
        plain=on_image("aten.neg.default"),
        static=static_neg_cases,
        floats=_floats("aten.neg.default"),
        integers=partial(integer_unary, IntegerUnary("aten.neg.default")),
    ),
    "aten.pow.Tensor_Scalar": Family(floats=float_pow_cases, integers=_integers("aten.pow.Tensor_Scalar")),
    "aten.sigmoid.default": Family(
        plain=_looked_up("aten.sigmoid.default", Q, PROBABILITY),
        static=static_sigmoid_cases,
        floats=_floats("aten.sigmoid.default"),
        integers=_integers("aten.sigmoid.default"),
    ),
    "aten.tanh.default": Family(
        plain=_looked_up("aten.tanh.default", UNIT, TANH),
        static=static_tanh_cases,
        floats=_floats("aten.tanh.default"),
        integers=_integers("aten.tanh.default"),
    ),
}
