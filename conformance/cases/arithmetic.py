"""Operators on two tensors: add, mul, div."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from conformance.cases.baseline import HALF, IMAGE, binary
from conformance.cases.make import (
    Draft,
    Q,
    Use,
    X,
    accepted,
    activation,
    behind_abs,
    behind_conv,
    constant,
    filled,
    inside,
    limit,
    model,
    outside,
    placed,
    quant,
    silent,
    sizes_of,
    use,
    valued,
    weight_quant,
)
from conformance.cases.shared import BELOW, contexts, named, rescale_limit
from conformance.graph import Fill, Quant, Ref

SUM = quant(0.1, 5)
PRODUCT = quant(0.002, 1)
UNEQUAL = (
    ((1, 3, 5, 7), (7,)),
    ((1, 8, 4, 4), (1, 8, 1, 1)),
    ((1, 8, 4, 4), (1, 1, 4, 4)),
    ((1, 8, 4, 4), (1, 8, 4, 1)),
    ((1, 8, 4, 4), (8, 4, 4)),
    ((5, 3, 8), (1, 3, 1)),
    ((8, 1), (1, 8)),
    ((2, 8), (1,)),
)


def pair(op: str, shape: tuple[int, ...], other: tuple[int, ...], x: Quant, y: Quant) -> Use:
    """An operator on two inputs of possibly different shapes."""
    return use(op, shape, Ref("z"), x=x, y=y, more=(activation("z", other, x),))


def same_shape(op: str, x: Quant, y: Quant) -> list[Draft]:
    """Broadcasting in every direction is out, whichever operand is the smaller one."""
    drafts = []
    for shape, other in UNEQUAL:
        drafts.append(outside("same_shape", sizes_of(shape, other), model(pair(op, shape, other, x, y))))
        drafts.append(outside("same_shape", sizes_of(other, shape), model(pair(op, other, shape, x, y))))
    return [
        *drafts,
        limit("same_shape", "equal_shapes", model(pair(op, IMAGE, IMAGE, x, y))),
        outside("same_shape", "with_a_float", model(use(op, IMAGE, 0.25, x=x, y=y))),
        outside("same_shape", "with_an_int", model(use(op, IMAGE, 2, x=x, y=y))),
        outside("same_shape", "behind_conv", model(pair(op, (1, 8, 4, 4), (1, 8, 1, 1), x, y), behind_conv)),
    ]


def with_itself(u: Use) -> Use:
    """Both operands are the same value."""
    return replace(u, values=u.values[:1], args=(X, X))


def numbers(u: Use, triples: Sequence[tuple[Quant, Quant, Quant]]) -> list[Draft]:
    """Ramps against each other, extremes against extremes, for several quantisations."""
    drafts = []
    shape = (1, 8, 8, 8)
    fills = {"ramp_and_random": (Fill("ramp"), Fill(seed=7)), "extremes": (Fill("alternating"), ENDS)}
    for x, z, y in triples:
        for name, (first, second) in fills.items():
            values = (activation("x", shape, x, first), activation("z", shape, z, second))
            variant = f"{name}_{named(x)}_{named(z)}_to_{named(y)}"
            drafts.append(valued(variant, model(replace(u, values=values, y=y))))
    return drafts


ENDS = Fill("list", values=(-128.0, -128.0, 127.0, 127.0, 0.0))


def _triples(x: float, y: float) -> list[tuple[Quant, Quant, Quant]]:
    """Zero points at the ends, unequal scales, ties (powers of two), saturation, extreme scales."""
    return [
        *((quant(x, zero), quant(0.7 * x, zero), quant(y, -128 if zero else 0)) for zero in (-128, 0, 127)),
        (quant(x, 3), quant(x / 50, -9), quant(y, 2)),
        (quant(x / 50, 3), quant(x, -9), quant(y, 2)),
        (quant(x, 0), quant(x, 0), quant(y / 8, 0)),
        (quant(x, -100), quant(x, 100), quant(8 * y, 0)),
    ]


def add_cases() -> list[Draft]:
    """aten.add.Tensor: alpha = 1, equal shapes."""
    op = "aten.add.Tensor"
    u = binary(op, IMAGE, y=SUM)
    alphas = ((2, "2"), (0, "0"), (-1, "minus_1"), (0.5, "0.5"), (1.5, "1.5"))
    powers = [(Quant(2.0**-5, 0), Quant(2.0**-5, 0), Quant(2.0**-4, z)) for z in (0, -1)]
    extreme = [(quant(2.0**-10, 4), quant(2.0**-10, 4), quant(2.0**-9, 0)), (quant(4, 4), quant(3, 4), quant(8, 0))]
    return [
        limit("alpha", "default", model(u)),
        limit("alpha", "1", model(replace(u, kwargs=(("alpha", 1),)))),
        limit("alpha", "1.0", model(replace(u, kwargs=(("alpha", 1.0),)))),
        *(outside("alpha", text, model(replace(u, kwargs=(("alpha", value),)))) for value, text in alphas),
        *same_shape(op, Q, SUM),
        *_add_rescale(u),
        *nothing_computed(constant_operand(u), quant(1.0, 3), 3.0),
        *(accepted(f"shape_{sizes_of(s)}", model(binary(op, s, y=SUM))) for s in SHAPES),
        placed("same_input_twice", model(with_itself(u))),
        placed("same_input_twice_behind_conv", model(with_itself(u), behind_conv)),
        placed("behind_abs", model(u, behind_abs)),
        *(placed(f"behind_conv_channels_{c}", model(binary(op, (1, c, 4, 6), y=SUM), behind_conv)) for c in (8, 5, 1)),
        placed("constant_operand", model(constant_operand(u))),
        *contexts(u),
        *numbers(u, [*_triples(0.05, 0.1), *powers, *extreme]),
    ]


SHAPES = ((1,), (7,), (6, 82), (1, 4, 7), (1, 3, 5, 7), (2, 1, 4, 3), (2, 3, 2, 3, 2), (1, 1, 1, 1))


def constant_operand(u: Use) -> Use:
    """The second operand is a constant of the same shape."""
    return replace(u, values=(u.values[0], replace(u.values[1], constant=True)))


def _add_rescale(u: Use) -> list[Draft]:
    """The larger input scale, either operand's, must be below 2**19 output scales."""
    y = quant(2.0**-19)
    below, power, small = quant(BELOW), quant(1.0), quant(2.0**-19)
    return [
        limit("rescale", "below_2_to_the_19", model(_quantised(u, below, small, y))),
        limit("rescale", "second_below_2_to_the_19", model(_quantised(u, small, below, y))),
        outside("rescale", "2_to_the_19", model(_quantised(u, power, small, y))),
        outside("rescale", "second_2_to_the_19", model(_quantised(u, small, power, y))),
    ]


def _quantised(u: Use, x: Quant, z: Quant, y: Quant) -> Use:
    first, second = u.values
    return replace(u, values=(replace(first, quant=x), replace(second, quant=z)), y=y)


def nothing_computed(u: Use, z: Quant, neutral: float) -> list[Draft]:
    """Alone with a constant that changes nothing; a single other element makes it compute."""
    code, (first, second) = "not_alone", u.values
    idle = replace(u, values=(first, replace(second, quant=z, fill=Fill("list", values=(neutral,)))), y=first.quant)
    one_other = Fill("list", values=(*(neutral,) * 511, neutral + 2))
    busy = replace(idle, values=(first, replace(idle.values[1], fill=one_other)))
    return [
        outside(code, "neutral_constant", model(idle)),
        limit(code, "neutral_constant_behind_abs", model(idle, behind_abs)),
        limit(code, "one_other_element", model(busy)),
    ]


# ------------------------------------------------------------------------------------ mul


def _mul_rescale(u: Use) -> list[Draft]:
    """Products up to 2**14, shifted left by 17 bits, leave 32 bits."""
    y = quant(2.0**-16)
    past, kept = (_quantised(u, quant(1.0), quant(scale), y) for scale in (1.0, BELOW))
    return rescale_limit(("ratio_2_to_the_16", past), ("ratio_below_2_to_the_16", kept))


def any_dim(make: str, drafts: Sequence[tuple[str, Use, bool]]) -> list[Draft]:
    """Some output dimension is a multiple of 8, or all are 1."""
    code = "any_dim_multiple_of"
    return [(limit if good else outside)(code, f"{make}_{name}", model(u)) for name, u, good in drafts]


DIMS: Sequence[tuple[tuple[int, ...], bool]] = (
    ((3, 8), True),
    ((8, 3), True),
    ((8,), True),
    ((16, 5), True),
    ((3, 5, 24), True),
    ((1, 8, 3, 5), True),
    ((8, 1, 3, 5), True),
    ((1, 3, 8, 5), True),
    ((1, 3, 5, 8), True),
    ((1, 1), True),
    ((1,), True),
    ((1, 1, 1, 1), True),
    ((2, 4), False),
    ((3, 7), False),
    ((7, 9), False),
    ((4, 4, 4), False),
    ((4,), False),
    ((2, 1), False),
    ((1, 2, 4, 4), False),
    ((1, 7, 9, 4), False),
)


def mul_cases() -> list[Draft]:
    """aten.mul.Tensor: equal shapes, some dimension a multiple of 8 (or all 1)."""
    op = "aten.mul.Tensor"
    u = binary(op, IMAGE, HALF, HALF, PRODUCT)
    general = binary(op, IMAGE, y=quant(0.3, -7))
    powers = [(HALF, HALF, Quant(2.0**-9, z)) for z in (0, -1)]
    extreme = [(quant(2.0**-8, 4), quant(2.0**-8, 4), quant(2.0**-8, 0)), (quant(4, 4), quant(3, 4), quant(1300, 0))]
    return [
        *any_dim("tensor", [(sizes_of(s), binary(op, s, HALF, HALF, PRODUCT), good) for s, good in DIMS]),
        *same_shape(op, HALF, PRODUCT),
        *_mul_rescale(u),
        *nothing_computed(constant_operand(u), quant(1 / 64), 64.0),
        accepted("general_quantisation", model(general)),
        placed("same_input_twice", model(with_itself(u))),
        placed("same_input_twice_behind_conv", model(with_itself(u), behind_conv)),
        placed("behind_abs", model(u, behind_abs)),
        placed("behind_conv_channels_8", model(binary(op, (1, 8, 4, 6), HALF, HALF, PRODUCT), behind_conv)),
        placed("behind_conv_channels_5", model(binary(op, (1, 5, 4, 8), HALF, HALF, PRODUCT), behind_conv)),
        placed("constant_operand", model(constant_operand(u))),
        *contexts(u),
        *numbers(u, [(HALF, HALF, PRODUCT), *_triples(0.05, 0.3), *powers, *extreme]),
    ]


# ------------------------------------------------------------------------------------ div


# Dividends whose quotient by zero is infinite, not undefined.
NEVER_ZERO = Fill("list", values=(-128.0, -50.0, 20.0, 127.0, 4.0))


def divisors(shape: tuple[int, ...], codes: Sequence[float] = (), constant_: bool = True) -> Use:
    """x / z, where z's codes are `codes`, else between 0.5 and 2.5 and of either sign."""
    spread = tuple(sign * code for code in range(25, 127, 7) for sign in (1, -1))
    z = constant("z", shape, weight_quant(0.02), Fill("list", values=tuple(codes) if codes else spread))
    value = z if constant_ else replace(z, constant=False)
    return use("aten.div.Tensor", IMAGE, Ref("z"), y=quant(0.12, 3), more=(value,))


def by_number(number: float, shape: tuple[int, ...] = IMAGE) -> Use:
    """x / number, with an output range that fits the quotient."""
    scale = 0.05 if number == 0 else 0.06 / abs(number)
    return use("aten.div.Tensor", shape, number, y=quant(scale, -3))


def div_cases() -> list[Draft]:
    """aten.div.Tensor: by a number or a constant of the same shape, none of it zero."""
    tensor = divisors(IMAGE)
    with_zero = (25.0, 50.0, 0.0, 100.0)
    any_dims = [(sizes_of(s), replace(_shaped(divisors(s), s), y=quant(0.2, 3)), good) for s, good in DIMS]
    return [
        limit("static_divisor", "constant_of_equal_shape", model(tensor)),
        limit("static_divisor", "number", model(by_number(2.0))),
        outside("static_divisor", "computed", model(divisors(IMAGE, constant_=False))),
        *(
            outside("static_divisor", f"constant_{sizes_of(s)}", model(divisors(s)))
            for s in ((8,), (1, 8, 1, 1), (1, 1, 8, 8), (1,), (8, 8, 8))
        ),
        outside("static_divisor", "by_itself", model(filled(_by_itself(), NEVER_ZERO))),
        silent("static_divisor", "unquantised_constant", model(_unquantised_divisor())),
        outside("nonzero_divisor", "number_0.0", model(filled(by_number(0.0), NEVER_ZERO))),
        outside("nonzero_divisor", "number_0", model(filled(by_number(0), NEVER_ZERO))),
        outside("nonzero_divisor", "constant_with_a_zero", model(filled(divisors(IMAGE, with_zero), NEVER_ZERO))),
        outside("nonzero_divisor", "constant_all_zero", model(filled(divisors(IMAGE, (0.0,)), NEVER_ZERO))),
        limit("nonzero_divisor", "constant_of_smallest_codes", model(_small_divisors())),
        inside("nonzero_divisor", "number_0.001", model(by_number(0.001))),
        *any_dim("constant", any_dims),
        *any_dim("number", [(sizes_of(s), by_number(2.0, s), good) for s, good in DIMS]),
        *(accepted(f"by_{n}".replace("-", "minus_"), model(by_number(n))) for n in (0.5, 3, 3.0, -4.0, 1.0, 100.0, 7)),
        placed("behind_abs", model(by_number(2.0), behind_abs)),
        placed("behind_conv", model(by_number(2.0, (1, 8, 4, 6)), behind_conv)),
        placed("constant_behind_conv", model(_shaped(divisors((1, 8, 4, 6)), (1, 8, 4, 6)), behind_conv)),
        *contexts(by_number(2.0)),
        *_div_numbers(),
    ]


def _by_itself() -> Use:
    return replace(by_number(2.0), args=(X, X), y=quant(0.01, -128))


def _shaped(u: Use, shape: tuple[int, ...]) -> Use:
    return replace(u, values=(replace(u.values[0], shape=shape), *u.values[1:]))


def _small_divisors() -> Use:
    """Divisors of one code above and below zero: the largest reciprocals there are."""
    return replace(divisors(IMAGE, (1.0, -1.0)), y=quant(3.0, 0))


def _unquantised_divisor() -> Use:
    z = constant("z", IMAGE, None, Fill("list", values=(0.5, 1.5, -2.0)))
    return use("aten.div.Tensor", IMAGE, Ref("z"), y=quant(0.12, 3), more=(z,))


def _div_numbers() -> list[Draft]:
    drafts = []
    for zero in (-128, 0, 127):
        for number in (2.0, 3.0, -0.7):
            u = by_number(number)
            x = activation("x", IMAGE, quant(0.05, zero), Fill("all_codes"))
            name = f"all_codes_by_{number}_z{zero}".replace("-", "minus_")
            drafts.append(valued(name, model(replace(u, values=(x,)))))
    ramp = replace(divisors(IMAGE), values=(activation("x", IMAGE, Q, Fill("ramp")), divisors(IMAGE).values[1]))
    even = filled(replace(divisors(IMAGE, (50.0,)), y=quant(0.06, 3)), Fill("ramp"))
    return [*drafts, valued("ramp_by_constant", model(ramp)), valued("ramp_by_one_value", model(even))]
