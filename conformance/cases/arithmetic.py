"""Operators on two tensors: add, mul, div."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from npu_assay.conformance.cases.baseline import HALF, IMAGE, binary
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
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
from npu_assay.conformance.cases.permitted import deepest, image
from npu_assay.conformance.cases.shared import BELOW, contexts, named, rank_limit, rescale_limit
from npu_assay.conformance.programs.graph import Fill, Quant, Ref

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


def same_shape(op: str, x: Quant, y: Quant, plain: tuple[int, ...] = IMAGE) -> list[Draft]:
    """Broadcasting in every direction is out, whichever operand is the smaller one. `plain` is a permitted shape."""
    drafts = []
    for shape, other in UNEQUAL:
        drafts.append(outside("same_shape", sizes_of(shape, other), model(pair(op, shape, other, x, y))))
        drafts.append(outside("same_shape", sizes_of(other, shape), model(pair(op, other, shape, x, y))))
    return [
        *drafts,
        limit("same_shape", "equal_shapes", model(pair(op, plain, plain, x, y))),
        outside("same_shape", "with_a_float", model(use(op, plain, 0.25, x=x, y=y))),
        outside("same_shape", "with_an_int", model(use(op, plain, 2, x=x, y=y))),
        outside("same_shape", "behind_conv", model(pair(op, (1, 8, 4, 4), (1, 8, 1, 1), x, y), behind_conv)),
    ]


def with_itself(u: Use) -> Use:
    """Both operands are the same value."""
    return replace(u, values=u.values[:1], args=(X, X))


def numbers(u: Use, triples: Sequence[tuple[Quant, Quant, Quant]]) -> list[Draft]:
    """Ramps against each other, extremes against extremes, for several quantisations."""
    drafts = []
    shape = u.values[0].shape
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


def add_cases(limits: Limits) -> list[Draft]:
    """aten.add.Tensor: alpha = 1, equal shapes."""
    limits.fixed("alpha", 1)
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
        *(accepted(f"shape_{sizes_of(s)}", model(binary(op, s, y=SUM))) for s in SHAPES if len(s) <= deepest(limits)),
        placed("same_input_twice", model(with_itself(u))),
        placed("same_input_twice_behind_conv", model(with_itself(u), behind_conv)),
        placed("behind_abs", model(u, behind_abs)),
        *(placed(f"behind_conv_channels_{c}", model(binary(op, (1, c, 4, 6), y=SUM), behind_conv)) for c in (8, 5, 1)),
        placed("constant_operand", model(constant_operand(u))),
        *contexts(u),
        *numbers(u, [*_triples(0.05, 0.1), *powers, *extreme]),
        *rank_limit(limits, lambda shape: binary(op, shape, y=SUM)),
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
    one_other = Fill("list", values=(*(neutral,) * (prod(first.shape) - 1), neutral + 2))
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


def dims(m: int) -> list[tuple[tuple[int, ...], bool]]:
    """Shapes in which some dimension is a multiple of `m`, or all are 1; then shapes in which none is."""
    half, less, more = m // 2, m - 1, m + 1
    fits = (
        *((3, m), (m, 3), (m,), (2 * m, 5), (3, 5, 3 * m), (1, m, 3, 5), (m, 1, 3, 5), (1, 3, m, 5), (1, 3, 5, m)),
        *((1, 1), (1,), (1, 1, 1, 1)),
    )
    three, four = (half, half, half), (1, 2, half, half)
    beyond = ((2, half), (3, less), (less, more), three, (half,), (2, 1), four, (1, less, more, half))
    refused = [s for s in dict.fromkeys(beyond) if max(s) > 1 and all(size % m for size in s)]
    return [*((s, True) for s in dict.fromkeys(fits)), *((s, False) for s in refused)]


def mul_cases(limits: Limits) -> list[Draft]:
    """aten.mul.Tensor: equal shapes, some dimension a multiple of 8 (or all 1)."""
    op, m = "aten.mul.Tensor", limits.multiple("any_dim_multiple_of")
    other = 3 if m == 5 else 5

    def product(shape: tuple[int, ...]) -> Use:
        return binary(op, shape, HALF, HALF, PRODUCT)

    u = product(image(m))
    general = binary(op, image(m), y=quant(0.3, -7))
    powers = [(HALF, HALF, Quant(2.0**-9, z)) for z in (0, -1)]
    extreme = [(quant(2.0**-8, 4), quant(2.0**-8, 4), quant(2.0**-8, 0)), (quant(4, 4), quant(3, 4), quant(1300, 0))]
    return [
        *any_dim("tensor", [(sizes_of(s), product(s), good) for s, good in dims(m)]),
        *same_shape(op, HALF, PRODUCT, image(m)),
        *_mul_rescale(u),
        *nothing_computed(constant_operand(u), quant(1 / 64), 64.0),
        accepted("general_quantisation", model(general)),
        placed("same_input_twice", model(with_itself(u))),
        placed("same_input_twice_behind_conv", model(with_itself(u), behind_conv)),
        placed("behind_abs", model(u, behind_abs)),
        placed(f"behind_conv_channels_{m}", model(product((1, m, 4, 6)), behind_conv)),
        placed(f"behind_conv_channels_{other}", model(product((1, other, 4, m)), behind_conv)),
        placed("constant_operand", model(constant_operand(u))),
        *contexts(u),
        *numbers(u, [(HALF, HALF, PRODUCT), *_triples(0.05, 0.3), *powers, *extreme]),
        *rank_limit(limits, product, m),
    ]


# ------------------------------------------------------------------------------------ div


# Dividends whose quotient by zero is infinite, not undefined.
NEVER_ZERO = Fill("list", values=(-128.0, -50.0, 20.0, 127.0, 4.0))


def divisors(
    shape: tuple[int, ...],
    codes: Sequence[float] = (),
    constant_: bool = True,
    dividend: tuple[int, ...] | None = None,
) -> Use:
    """x / z, where z's codes are `codes`, else between 0.5 and 2.5 and of either sign; x has z's shape unless given."""
    spread = tuple(sign * code for code in range(25, 127, 7) for sign in (1, -1))
    z = constant("z", shape, weight_quant(0.02), Fill("list", values=tuple(codes) if codes else spread))
    value = z if constant_ else replace(z, constant=False)
    return use("aten.div.Tensor", shape if dividend is None else dividend, Ref("z"), y=quant(0.12, 3), more=(value,))


def by_number(number: float, shape: tuple[int, ...]) -> Use:
    """x / number, with an output range that fits the quotient."""
    scale = 0.05 if number == 0 else 0.06 / abs(number)
    return use("aten.div.Tensor", shape, number, y=quant(scale, -3))


def div_cases(limits: Limits) -> list[Draft]:
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
        *(accepted(f"by_{n}".replace("-", "minus_"), model(by_number(n, plain))) for n in several),
        placed("behind_abs", model(by_two, behind_abs)),
        placed("behind_conv", model(by_number(2.0, behind), behind_conv)),
        placed("constant_behind_conv", model(divisors(behind), behind_conv)),
        *contexts(by_two),
        *_div_numbers(plain),
        *rank_limit(limits, lambda shape: by_number(2.0, shape), m),
    ]


def _static_divisors(m: int, plain: tuple[int, ...]) -> list[Draft]:
    code, (_, _, rows, _) = "static_divisor", plain
    others = ((m,), (1, m, 1, 1), (1, 1, rows, m), (1,), (m, rows, m))
    itself = replace(by_number(2.0, plain), args=(X, X), y=quant(0.01, -128))
    return [
        limit(code, "constant_of_equal_shape", model(divisors(plain))),
        limit(code, "number", model(by_number(2.0, plain))),
        outside(code, "computed", model(divisors(plain, constant_=False))),
        *(outside(code, f"constant_{sizes_of(s)}", model(divisors(s, dividend=plain))) for s in others),
        outside(code, "by_itself", model(filled(itself, NEVER_ZERO))),
        silent(code, "unquantised_constant", model(_unquantised_divisor(plain))),
    ]


def _zero_divisors(plain: tuple[int, ...]) -> list[Draft]:
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
        *(outside(code, name, model(filled(u, NEVER_ZERO))) for name, u in zeros.items()),
        limit(code, "constant_of_smallest_codes", model(smallest)),
        inside(code, "number_0.001", model(by_number(0.001, plain))),
    ]


def _unquantised_divisor(plain: tuple[int, ...]) -> Use:
    z = constant("z", plain, None, Fill("list", values=(0.5, 1.5, -2.0)))
    return use("aten.div.Tensor", plain, Ref("z"), y=quant(0.12, 3), more=(z,))


def _div_numbers(plain: tuple[int, ...]) -> list[Draft]:
    drafts = []
    for zero in (-128, 0, 127):
        for number in (2.0, 3.0, -0.7):
            u = by_number(number, plain)
            x = activation("x", plain, quant(0.05, zero), Fill("all_codes"))
            name = f"all_codes_by_{number}_z{zero}".replace("-", "minus_")
            drafts.append(valued(name, model(replace(u, values=(x,)))))
    ramp = filled(divisors(plain), Fill("ramp"))
    even = filled(replace(divisors(plain, (50.0,)), y=quant(0.06, 3)), Fill("ramp"))
    return [*drafts, valued("ramp_by_constant", model(ramp)), valued("ramp_by_one_value", model(even))]
