"""add, sub, mul, div, maximum and minimum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, inside, limit, outside, placed, silent, valued
from npu_assay.conformance.cases.families.elementwise.binary import (
    FloatBinary,
    IntegerBinary,
    any_dim,
    binary,
    constant_operand,
    dims,
    float_binary,
    integer_binary,
    integer_scaled,
    nothing_computed,
    one_differs,
    one_whole,
    quantized,
    same_shape,
    static_pairs_of_numbers,
    static_triples,
    with_itself,
)
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Call,
    Q,
    X,
    activation,
    bare,
    call,
    constant,
    f32,
    quant,
    sizes_of,
    weight_quant,
)
from npu_assay.conformance.cases.permitted import deepest, image
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.placed import FULL_IMAGE, Placed
from npu_assay.conformance.cases.pieces.quantization import BELOW, HALF, ratio_limits, rescale_limit
from npu_assay.conformance.cases.pieces.sizes import rank_limit
from npu_assay.conformance.cases.pieces.spelling import IMAGE, INTEGERS, is_static, is_wide
from npu_assay.conformance.cases.pieces.subject import FLOAT_STATIC
from npu_assay.conformance.cases.pieces.values import POSITIVE_NUMBERS
from npu_assay.conformance.programs.graph import Fill, Quant, Ref

# ------------------------------------------------------------------------------------ static int8


def _product(limits: Limits) -> Placed:
    shape = image(limits.multiple("any_dim_multiple_of"))
    return binary("aten.mul.Tensor", shape, HALF, HALF, quant(0.002, 1)), bare


def _quotient(limits: Limits) -> Placed:
    return call("aten.div.Tensor", image(limits.multiple("any_dim_multiple_of")), 2.0, y=quant(0.025, 3)), bare


STATIC_SUM = quant(0.1, 5)
PRODUCT = quant(0.002, 1)
SHAPES = ((1,), (7,), (6, 82), (1, 4, 7), (1, 3, 5, 7), (2, 1, 4, 3), (2, 3, 2, 3, 2), (1, 1, 1, 1))


def static_sum_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.add.Tensor and aten.sub.Tensor: alpha = 1; equal shapes, or one that is the result's."""
    limits.fixed("alpha", 1)
    u = binary(op, FULL_IMAGE, y=STATIC_SUM)
    alphas = ((2, "2"), (0, "0"), (-1, "minus_1"), (0.5, "0.5"), (1.5, "1.5"))
    powers = [(Quant(2.0**-5, 0), Quant(2.0**-5, 0), Quant(2.0**-4, z)) for z in (0, -1)]
    extreme = [(quant(2.0**-10, 4), quant(2.0**-10, 4), quant(2.0**-9, 0)), (quant(4, 4), quant(3, 4), quant(8, 0))]
    return [
        limit("alpha", "default", u),
        limit("alpha", "1", replace(u, kwargs=(("alpha", 1),))),
        limit("alpha", "1.0", replace(u, kwargs=(("alpha", 1.0),))),
        *(outside("alpha", text, replace(u, kwargs=(("alpha", value),))) for value, text in alphas),
        *same_shape(op, Q, STATIC_SUM),
        *one_whole(op, Q, STATIC_SUM),
        *_add_rescale(u),
        *nothing_computed(constant_operand(u), quant(1.0, 3), 3.0, either="add" in op),
        *(accepted(f"shape_{sizes_of(s)}", binary(op, s, y=STATIC_SUM)) for s in SHAPES if len(s) <= deepest(limits)),
        placed("same_input_twice", with_itself(u)),
        placed("same_input_twice_behind_conv", with_itself(u), behind_conv),
        placed("behind_abs", u, behind_abs),
        *(placed(f"behind_conv_channels_{c}", binary(op, (1, c, 4, 6), y=STATIC_SUM), behind_conv) for c in (8, 5, 1)),
        placed("constant_operand", constant_operand(u)),
        *contexts(u),
        *static_pairs_of_numbers(u, [*static_triples(0.05, 0.1), *powers, *extreme]),
        *rank_limit(limits, lambda shape: binary(op, shape, y=STATIC_SUM)),
    ]


def _add_rescale(u: Call) -> list[CaseDraft]:
    """The larger input scale, either operand's, must be below 2**19 output scales."""
    y = quant(2.0**-19)
    below, power, small = quant(BELOW), quant(1.0), quant(2.0**-19)
    return [
        limit("rescale", "below_2_to_the_19", quantized(u, below, small, y)),
        limit("rescale", "second_below_2_to_the_19", quantized(u, small, below, y)),
        outside("rescale", "2_to_the_19", quantized(u, power, small, y)),
        outside("rescale", "second_2_to_the_19", quantized(u, small, power, y)),
    ]


def _mul_rescale(u: Call) -> list[CaseDraft]:
    """Products up to 2**14, shifted left by 17 bits, leave 32 bits."""
    y = quant(2.0**-16)
    past, kept = (quantized(u, quant(1.0), quant(scale), y) for scale in (1.0, BELOW))
    return rescale_limit(("ratio_2_to_the_16", past), ("ratio_below_2_to_the_16", kept))


def static_mul_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.mul.Tensor: equal shapes, some dimension a multiple of 8 (or all 1)."""
    op, m = "aten.mul.Tensor", limits.multiple("any_dim_multiple_of")
    other = 3 if m == 5 else 5

    def product(shape: tuple[int, ...]) -> Call:
        return binary(op, shape, HALF, HALF, PRODUCT)

    u = product(image(m))
    general = binary(op, image(m), y=quant(0.3, -7))
    powers = [(HALF, HALF, Quant(2.0**-9, z)) for z in (0, -1)]
    extreme = [(quant(2.0**-8, 4), quant(2.0**-8, 4), quant(2.0**-8, 0)), (quant(4, 4), quant(3, 4), quant(1300, 0))]
    return [
        *any_dim("tensor", [(sizes_of(s), product(s), good) for s, good in dims(m)]),
        *same_shape(op, HALF, PRODUCT, image(m)),
        *one_whole(op, HALF, PRODUCT, image(m)),
        *_mul_rescale(u),
        *nothing_computed(constant_operand(u), quant(1 / 64), 64.0),
        accepted("general_quantisation", general),
        placed("same_input_twice", with_itself(u)),
        placed("same_input_twice_behind_conv", with_itself(u), behind_conv),
        placed("behind_abs", u, behind_abs),
        placed(f"behind_conv_channels_{m}", product((1, m, 4, 6)), behind_conv),
        placed(f"behind_conv_channels_{other}", product((1, other, 4, m)), behind_conv),
        placed("constant_operand", constant_operand(u)),
        *contexts(u),
        *static_pairs_of_numbers(u, [(HALF, HALF, PRODUCT), *static_triples(0.05, 0.3), *powers, *extreme]),
        *rank_limit(limits, product, m),
    ]


def static_extreme_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.maximum.default and aten.minimum.default: one quantization for all three."""
    u = binary(op, FULL_IMAGE)
    equal = [(quant(0.05, zero), quant(0.05, zero), quant(0.05, zero)) for zero in (-128, 3, 127)]
    return [
        *one_whole(op, Q, Q),
        *one_differs(u),
        *(accepted(f"shape_{sizes_of(s)}", binary(op, s)) for s in SHAPES if len(s) <= deepest(limits)),
        placed("same_input_twice", with_itself(u)),
        placed("behind_abs", u, behind_abs),
        *(placed(f"behind_conv_channels_{c}", binary(op, (1, c, 4, 6)), behind_conv) for c in (8, 5, 1)),
        placed("constant_operand", constant_operand(u)),
        *contexts(u),
        *static_pairs_of_numbers(u, equal),
        *rank_limit(limits, lambda shape: binary(op, shape)),
    ]


# Dividends whose quotient by zero is infinite, not undefined.
NEVER_ZERO = Fill("list", values=(-128.0, -50.0, 20.0, 127.0, 4.0))


def divisors(
    shape: tuple[int, ...], codes: Sequence[float] = (), constant_: bool = True, dividend: tuple[int, ...] | None = None
) -> Call:
    """x / z, where z's codes are `codes`, else between 0.5 and 2.5 and of either sign; x has z's shape unless given."""
    spread = tuple(sign * code for code in range(25, 127, 7) for sign in (1, -1))
    z = constant("z", shape, weight_quant(0.02), Fill("list", values=tuple(codes) if codes else spread))
    value = z if constant_ else replace(z, constant=False)
    return call("aten.div.Tensor", shape if dividend is None else dividend, Ref("z"), y=quant(0.12, 3), more=(value,))


def by_number(number: float, shape: tuple[int, ...]) -> Call:
    """x / number, with an output range that fits the quotient."""
    scale = 0.05 if number == 0 else 0.06 / abs(number)
    return call("aten.div.Tensor", shape, number, y=quant(scale, -3))


def static_div_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.div.Tensor: by a number or a constant of the same shape, none of it zero."""
    m = limits.multiple("any_dim_multiple_of")
    plain, behind = image(m), (1, m, 4, 6)
    by_two = by_number(2.0, plain)
    any_dims = [(sizes_of(s), replace(divisors(s), y=quant(0.2, 3)), good) for s, good in dims(m)]
    several = (0.5, 3, 3.0, -4.0, 1.0, 100.0, 7)
    return [
        *_static_divisors(m, plain),
        *_zero_divisors(plain),
        *any_dim("constant", any_dims),
        *any_dim("number", [(sizes_of(s), by_number(2.0, s), good) for s, good in dims(m)]),
        *(accepted(f"by_{n}".replace("-", "minus_"), by_number(n, plain)) for n in several),
        placed("behind_abs", by_two, behind_abs),
        placed("behind_conv", by_number(2.0, behind), behind_conv),
        placed("constant_behind_conv", divisors(behind), behind_conv),
        *contexts(by_two),
        *_div_numbers(plain),
        *rank_limit(limits, lambda shape: by_number(2.0, shape), m),
    ]


def _static_divisors(m: int, plain: tuple[int, ...]) -> list[CaseDraft]:
    code, (_, _, rows, _) = "static_divisor", plain
    others = ((m,), (1, m, 1, 1), (1, 1, rows, m), (1,), (m, rows, m))
    itself = replace(by_number(2.0, plain), args=(X, X), y=quant(0.01, -128))
    return [
        limit(code, "constant_of_equal_shape", divisors(plain)),
        limit(code, "number", by_number(2.0, plain)),
        outside(code, "computed", divisors(plain, constant_=False)),
        *(outside(code, f"constant_{sizes_of(s)}", divisors(s, dividend=plain)) for s in others),
        outside(code, "by_itself", itself.with_x(fill=NEVER_ZERO)),
        silent(code, "unquantised_constant", _unquantized_divisor(plain)),
    ]


def _zero_divisors(plain: tuple[int, ...]) -> list[CaseDraft]:
    """Zero as a number or a code; the smallest divisors have the largest reciprocals there are."""
    code = "nonzero_divisor"
    zeros = {
        "number_0.0": by_number(0.0, plain),
        "number_0": by_number(0, plain),
        "constant_with_a_zero": divisors(plain, (25.0, 50.0, 0.0, 100.0)),
        "constant_all_zero": divisors(plain, (0.0,)),
    }
    smallest = replace(divisors(plain, (1.0, -1.0)), y=quant(3.0, 0))
    return [
        *(outside(code, name, u.with_x(fill=NEVER_ZERO)) for name, u in zeros.items()),
        limit(code, "constant_of_smallest_codes", smallest),
        inside(code, "number_0.001", by_number(0.001, plain)),
    ]


def _unquantized_divisor(plain: tuple[int, ...]) -> Call:
    z = constant("z", plain, None, Fill("list", values=(0.5, 1.5, -2.0)))
    return call("aten.div.Tensor", plain, Ref("z"), y=quant(0.12, 3), more=(z,))


def _div_numbers(plain: tuple[int, ...]) -> list[CaseDraft]:
    drafts = []
    for zero in (-128, 0, 127):
        for number in (2.0, 3.0, -0.7):
            u = by_number(number, plain)
            x = activation("x", plain, quant(0.05, zero), Fill("all_codes"))
            name = f"all_codes_by_{number}_z{zero}".replace("-", "minus_")
            drafts.append(valued(name, replace(u, values=(x,))))
    ramp = divisors(plain).with_x(fill=Fill("ramp"))
    even = replace(divisors(plain, (50.0,)), y=quant(0.06, 3)).with_x(fill=Fill("ramp"))
    return [*drafts, valued("ramp_by_constant", ramp), valued("ramp_by_one_value", even)]


# ------------------------------------------------------------------------------------ floats


LARGEST_RATIO = 256.0
JUST_BELOW = 1 - 2.0**-20
JUST_ABOVE = 1 + 2.0**-20


def ratios(binary: FloatBinary, limits: Limits) -> Iterator[CaseDraft]:
    """The larger input scale over the output scale: both ends of the range, on either operand."""
    least = limits.real("add_scale_ratio", 2.0**-10, 2.0**-20, 1.0)
    inside_ends = (("least", least), ("below_256", LARGEST_RATIO * JUST_BELOW))
    past_ends = (("below_least", least * JUST_BELOW), ("256", LARGEST_RATIO), ("above_256", LARGEST_RATIO * JUST_ABOVE))
    for name, ratio in inside_ends:
        yield limit("add_scale_ratio", name, _scaled(binary, ratio, ratio))
    for name, ratio in past_ends:
        yield outside("add_scale_ratio", name, _scaled(binary, ratio, ratio))
    yield limit("add_scale_ratio", "least_of_second_only", _scaled(binary, least / 8, least))
    yield limit("add_scale_ratio", "one_operand_tiny", _scaled(binary, 1.0, least / 8))
    yield outside("add_scale_ratio", "256_of_first_only", _scaled(binary, LARGEST_RATIO, 1.0))
    yield outside("add_scale_ratio", "256_of_second_only", _scaled(binary, 1.0, LARGEST_RATIO))


def _scaled(binary: FloatBinary, left: float, right: float) -> Call:
    """Input scales as multiples of an output scale of 1."""
    u = binary.at("static_int8", IMAGE)
    x, y = (replace(v, quant=Quant(f32(s), 0)) for v, s in zip(u.values, (left, right), strict=True))
    return replace(u, values=(x, y), y=quant(1.0))


def float_alpha_cases(binary: FloatBinary, precision: str, limits: Limits) -> list[CaseDraft]:
    """add and sub: alpha is 1, up to what counts as rounding, however it is spelled."""
    limits.fixed("alpha", 1)
    kept: tuple[tuple[str, dict[str, float]], ...]
    kept = (("left_out", {}), ("1", {"alpha": 1}), ("1.0", {"alpha": 1.0}), ("nearly_1", {"alpha": 1 + 1e-10}))
    past: tuple[float, ...] = (2, 0, -1, 0.5, 1 + 1e-7)
    past = past if precision == "fp32" else past[:2]
    drafts = float_binary(binary, precision, limits)
    drafts += [limit("alpha", name, binary.of(precision, IMAGE, IMAGE, **kwargs)) for name, kwargs in kept]
    for number in past:
        u = binary.of(precision, IMAGE, IMAGE, alpha=number)
        drafts.append(outside("alpha", str(number).replace("-", "minus_"), u))
    return [*drafts, *ratios(binary, limits)] if is_static(precision) else drafts


# ------------------------------------------------------------------------------------ integers


def integer_sum_cases(binary: IntegerBinary, precision: str, limits: Limits) -> list[CaseDraft]:
    """add and sub: alpha is 1, however it is spelled; the common scale must not be far above the output's."""
    limits.fixed("alpha", 1)
    u = binary.of(precision, IMAGE, IMAGE)
    drafts = integer_binary(binary, precision, limits)
    spellings = (("left_out", {}), ("1", {"alpha": 1}), *((("1.0", {"alpha": 1.0}),) if precision != INTEGERS else ()))
    drafts += [limit("alpha", name, binary.of(precision, IMAGE, IMAGE, **kwargs)) for name, kwargs in spellings]
    past: tuple[float, ...] = (2, 0, -1) if precision == INTEGERS else (2, 0.5, -1)
    for number in past:
        strange = binary.of(precision, IMAGE, IMAGE, alpha=number)
        drafts.append(outside("alpha", str(number).replace("-", "minus_"), strange))
    if precision != INTEGERS:
        # Two operands of up to 2**7 (2**15) steps of a code, each 2**19 (2**11) parts: 2**27 in all.
        drafts += ratio_limits(
            lambda ratio: integer_scaled(u, precision, ratio, ratio, 1.0), 13 if is_wide(precision) else 21
        )
    return drafts


def integer_product_cases(binary: IntegerBinary, precision: str, limits: Limits) -> list[CaseDraft]:
    """mul: any scales whose product is not far above the output's."""
    drafts = integer_binary(binary, precision, limits)
    if precision != INTEGERS:
        u = binary.of(precision, IMAGE, IMAGE)
        finer = 256 if is_wide(precision) else 1
        bits = -1 if is_wide(precision) else 15
        drafts += ratio_limits(lambda ratio: integer_scaled(u, precision, 1.0, ratio * finer, 1.0), bits)
    return drafts


def integer_extreme_cases(binary: IntegerBinary, precision: str, limits: Limits) -> list[CaseDraft]:
    """maximum and minimum: both operands on the smaller scale."""
    drafts = integer_binary(binary, precision, limits)
    if precision != INTEGERS:
        u = binary.of(precision, IMAGE, IMAGE)
        drafts += ratio_limits(
            lambda ratio: integer_scaled(u, precision, ratio, 1.0, ratio), 14 if is_wide(precision) else 22
        )
    return drafts


def _extreme(name: str, config: str) -> Family:
    return Family(
        plain=lambda limits: (binary(name, FULL_IMAGE), bare),
        static=partial(static_extreme_cases, name),
        floats=partial(float_binary, FloatBinary(name, config)),
        integers=partial(integer_extreme_cases, IntegerBinary(name, Q)),
    )


FAMILIES: Mapping[str, Family] = {
    "aten.add.Tensor": Family(
        plain=lambda limits: (binary("aten.add.Tensor", FULL_IMAGE, y=STATIC_SUM), bare),
        static=partial(static_sum_cases, "aten.add.Tensor"),
        floats=partial(float_alpha_cases, FloatBinary("aten.add.Tensor", "AddConfig", FLOAT_STATIC)),
        integers=partial(integer_sum_cases, IntegerBinary("aten.add.Tensor")),
    ),
    "aten.div.Tensor": Family(
        plain=_quotient,
        static=static_div_cases,
        floats=partial(
            float_binary, FloatBinary("aten.div.Tensor", "DivConfig", fill=POSITIVE_NUMBERS, integers=False)
        ),
    ),
    "aten.maximum.default": _extreme("aten.maximum.default", "MaximumConfig"),
    "aten.minimum.default": _extreme("aten.minimum.default", "MinimumConfig"),
    "aten.mul.Tensor": Family(
        plain=_product,
        static=static_mul_cases,
        floats=partial(float_binary, FloatBinary("aten.mul.Tensor", "MulConfig", FLOAT_STATIC)),
        integers=partial(integer_product_cases, IntegerBinary("aten.mul.Tensor")),
    ),
    "aten.sub.Tensor": Family(
        plain=lambda limits: (binary("aten.sub.Tensor", FULL_IMAGE, y=STATIC_SUM), bare),
        static=partial(static_sum_cases, "aten.sub.Tensor"),
        floats=partial(float_alpha_cases, FloatBinary("aten.sub.Tensor", "SubConfig", FLOAT_STATIC)),
        integers=partial(integer_sum_cases, IntegerBinary("aten.sub.Tensor")),
    ),
}
