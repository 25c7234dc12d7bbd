"""Operators on one tensor, element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Draft,
    Use,
    accepted,
    limit,
    model,
    outside,
    placed,
    quant,
    sizes_of,
    valued,
)
from npu_assay.conformance.cases.shared import SCATTERED, ZERO_POINTS, named
from npu_assay.conformance.cases.typed.common import FLOAT, FLOAT_STATIC, Family, Subject, everywhere, option_spellings
from npu_assay.conformance.cases.typed.spelling import IMAGE, is_static, real, use, with_x
from npu_assay.conformance.programs.graph import Fill, Quant, Ref, Step

SHAPES = ((), (7,), (2, 3, 2, 3, 2), (3, 65))
INFINITY = float("inf")
POSITIVE = Fill("list", values=(0.25, 1.0, 3.5, 2.0**-10, 0.1, 7.75, 100.0, 1.5, 0.6875, 12.0))
# Halves, thirds, neighbours of whole numbers, small and large numbers of both signs, zeros of both signs.
TELLING = (0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1 / 3, -1 / 3, 0.9995, -0.9995, 1.0005, 3.0, -3.0, 6.0, -6.0)
SMALL = (2.0**-14, -(2.0**-14), 2.0**-10, 1e-3, -1e-3, 0.015625, -0.03125)
LARGE = (60.0, -60.0, 255.0, -255.0, 1000.0, -1000.0)


@dataclass(frozen=True)
class Unary:
    """An operator on one tensor. args: what stands behind `x`; fill: numbers that it is defined for.

    numbers: further values to look at, in fp32 and fp16.
    """

    op: str
    config: str
    args: tuple[Any, ...] = ()
    supports: tuple[str, ...] = FLOAT
    fill: Fill | None = None
    numbers: tuple[float, ...] = (*TELLING, *SMALL)
    large: tuple[float, ...] = LARGE
    integers: bool = False

    def at(self, precision: str, shape: tuple[int, ...]) -> Use:
        """The operator on an `x` of this shape."""
        return use(self.op, real("x", shape, precision, self.fill), precision, *self.args)

    @property
    def subject(self) -> Subject:
        """What all rows are made from."""
        return Subject(self.config, self.at, self.supports, integers=self.integers)


def cases(unary: Unary, precision: str, limits: Limits) -> list[Draft]:
    """What every operator on one tensor has."""
    u = unary.subject.use(precision)
    drafts = everywhere(unary.subject, precision, limits)
    if is_static(precision):
        return [*drafts, *all_codes(u)]
    if precision == "fp32":
        drafts += shapes(unary, precision)
    if precision == "fp32" and unary.fill is None:
        drafts.append(twice_in_a_row(u))
    return [*drafts, *values(unary, u)]


def shapes(unary: Unary, precision: str) -> list[Draft]:
    """Ranks 0 to 5, sizes that are multiples of nothing."""
    return [accepted(f"shape_{sizes_of(shape) or 'scalar'}", model(unary.at(precision, shape))) for shape in SHAPES]


def values(unary: Unary, u: Use) -> list[Draft]:
    """Numbers that tell implementations apart."""
    listed = {"telling": unary.numbers, "large": unary.large}
    return [
        valued(name, model(with_x(u, shape=(1, 2, 3, 8), fill=Fill("list", values=numbers))))
        for name, numbers in listed.items()
        if numbers
    ]


def twice_in_a_row(u: Use) -> Draft:
    """The operator on its own output."""
    graph = model(u)
    again = Step("again", u.op, (Ref("subject"), *u.args[1:]), u.kwargs, u.y)
    return placed("twice_in_a_row", type(graph)(graph.values, (*graph.steps, again), (Ref("again"),)))


def all_codes(u: Use, label: str = "") -> list[Draft]:
    """Every one of the 256 codes, for input and output quantisations that tell roundings apart."""
    drafts = []
    for x, y in pairs():
        codes = with_x(u, shape=(1, 8, 4, 8), fill=SCATTERED, quant=x)
        drafts.append(
            valued(f"all_codes{label}_{named(x)}_to_{named(y)}", model(Use(u.op, codes.values, u.args, y, u.kwargs)))
        )
    return drafts


def pairs() -> list[tuple[Quant, Quant]]:
    """Equal parameters, zero points at the ends, ties, saturation, extreme scales."""
    equal = [(quant(0.05, zero), quant(0.05, zero)) for zero in ZERO_POINTS]
    ends = [(quant(0.05, 0), quant(0.06, zero)) for zero in (-128, 127)]
    ties = [(quant(0.0625, zero), quant(0.125, moved)) for zero, moved in ((0, 0), (-5, 4), (0, 3))]
    return [*equal, *ends, *ties, (quant(0.05, 3), quant(0.01, 0)), (quant(2.0**-10, 7), quant(3.0, -7))]


# ------------------------------------------------------------------------------------ rows

_POSITIVE = (1.0, 0.5, 0.25, 2.0, 3.0, 10.0, 100.0, 0.999, 1.001, 2.0**-10, 2.0**-14, 1000.0)
PLAIN: Mapping[str, Unary] = {
    row.op: row
    for row in (
        Unary("aten.abs.default", "AbsConfig", integers=True),
        Unary("aten.ceil.default", "CeilConfig"),
        Unary("aten.exp.default", "ExpConfig", large=(8.0, 10.0, -10.0, -16.0, -80.0)),
        Unary("aten.floor.default", "FloorConfig"),
        Unary("aten.hardswish.default", "HardswishConfig", large=(60.0, -60.0, 200.0, -200.0)),
        Unary("aten.log.default", "LogConfig", fill=POSITIVE, numbers=_POSITIVE, large=(1e4, 6e4)),
        Unary("aten.neg.default", "NegConfig", integers=True),
        Unary("aten.rsqrt.default", "ReciprocalSquareRootConfig", fill=POSITIVE, numbers=_POSITIVE, large=(1e4, 6e4)),
        Unary("aten.sigmoid.default", "SigmoidConfig", large=(8.0, -8.0, 20.0, -20.0)),
        Unary("aten.sqrt.default", "SquareRootConfig", fill=POSITIVE, numbers=(*_POSITIVE, 0.0), large=(1e4, 6e4)),
        Unary("aten.tanh.default", "TanhConfig", large=(8.0, -8.0, 20.0, -20.0)),
    )
}


# ------------------------------------------------------------------------------------ arguments


def spelled(unary: Unary, precision: str, spellings: Sequence[tuple[str, tuple[Any, ...]]]) -> list[tuple[str, Use]]:
    """The operator with other arguments behind `x`."""
    x = real("x", IMAGE, precision, unary.fill)
    return [(name, use(unary.op, x, precision, *args)) for name, args in spellings]


def leaky_relu_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.leaky_relu.default: any slope, also none, negative, above one."""
    unary = Unary("aten.leaky_relu.default", "LeakyReLUConfig", (0.1,))
    slopes = (("default", ()), ("0", (0.0,)), ("1", (1,)), ("minus_0.5", (-0.5,)), ("1.5", (1.5,)))
    chosen = spelled(unary, precision, slopes)
    return [*cases(unary, precision, limits), *(accepted(f"slope_{name}", model(u)) for name, u in chosen)]


def elu_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.elu.default: any alpha, no other scales (selu and celu have them)."""
    limits.fixed("elu_scales", 1)
    unary = Unary("aten.elu.default", "EluConfig")
    alphas = (("1", (1,)), ("0.5", (0.5,)), ("2", (2.0,)), ("minus_0.5", (-0.5,)))
    kept = (("left_out", ()), ("given", (0.75, 1, 1)), ("given_as_floats", (0.75, 1.0, 1.0)))
    past = (
        ("scale_2", (1.0, 2.0)),
        ("input_scale_half", (1.0, 1.0, 0.5)),
        ("selu", (1.6732632423543772, 1.0507009873554805)),
        ("celu_alpha_2", (2.0, 1.0, 0.5)),
    )
    return [
        *cases(unary, precision, limits),
        *(accepted(f"alpha_{name}", model(u)) for name, u in spelled(unary, precision, alphas)),
        *(limit("elu_scales", name, model(u)) for name, u in spelled(unary, precision, kept)),
        *(outside("elu_scales", name, model(u)) for name, u in spelled(unary, precision, past)),
    ]


def gelu_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.gelu.default: the exact form only."""
    unary = Unary("aten.gelu.default", "GeluConfig", large=(6.0, -6.0, 30.0, -30.0))
    x = real("x", IMAGE, precision)
    return [
        *cases(unary, precision, limits),
        limit("approximate", "left_out", model(use(unary.op, x, precision))),
        limit("approximate", "none", model(use(unary.op, x, precision, approximate="none"))),
        outside("approximate", "tanh", model(use(unary.op, x, precision, approximate="tanh"))),
    ]


def pow_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.pow.Tensor_Scalar: squares, the exponent a whole number or a float."""
    limits.fixed("exponent", 2)
    unary = Unary("aten.pow.Tensor_Scalar", "PowConfig", (2,), large=(60.0, -60.0, 200.0))
    kept, past = spelled(unary, precision, [("2", (2,)), ("2.0", (2.0,))]), (3, 1, 2.5, 3.0)
    positive = replace(unary, fill=Fill("list", values=(0.25, 1.0, 3.5, 0.1, 7.75, 1.5, 0.6875)))
    others = spelled(positive, precision, [(str(number), (number,)) for number in past])
    return [
        *cases(unary, precision, limits),
        *(limit("exponent", name, model(u)) for name, u in kept),
        *(outside("exponent", name, model(u)) for name, u in others),
    ]


def clamp_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.clamp.default: any bounds, one of them or both, also crossed."""
    unary = Unary("aten.clamp.default", "ClampConfig", (-1.0, 2.0), supports=FLOAT_STATIC, integers=True)
    bounds = (
        ("min_only", (-0.5,)),
        ("max_only", (None, 0.75)),
        ("whole_numbers", (-1, 1)),
        ("equal", (1.0, 1.0)),
        ("far_apart", (-1e4, 1e4)),
        ("up_to_infinity", (0.0, INFINITY)),
        ("off_the_grid", (-1.23, 1.23)),
        ("crossed", (1.0, -1.0)),
    )
    chosen = spelled(unary, precision, bounds)
    return [*cases(unary, precision, limits), *(accepted(f"bounds_{name}", model(u)) for name, u in chosen)]


def hardtanh_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.hardtanh.default: any bounds, also none."""
    unary = Unary("aten.hardtanh.default", "HardtanhConfig", (-1.0, 1.0), supports=FLOAT_STATIC)
    bounds = (("default", ()), ("relu6", (0.0, 6.0)), ("whole_numbers", (-2, 3)), ("off_the_grid", (-1.23, 1.23)))
    chosen = spelled(unary, precision, bounds)
    return [*cases(unary, precision, limits), *(accepted(f"bounds_{name}", model(u)) for name, u in chosen)]


def relu_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.relu.default, and every spelling of the options."""
    unary = Unary("aten.relu.default", "ReLUConfig", supports=FLOAT_STATIC, integers=True)
    return [*cases(unary, precision, limits), *option_spellings(unary.subject, precision)]


FAMILIES: Mapping[str, Family] = {name: partial(cases, row) for name, row in PLAIN.items()} | {
    "aten.clamp.default": clamp_cases,
    "aten.elu.default": elu_cases,
    "aten.gelu.default": gelu_cases,
    "aten.hardtanh.default": hardtanh_cases,
    "aten.leaky_relu.default": leaky_relu_cases,
    "aten.pow.Tensor_Scalar": pow_cases,
    "aten.relu.default": relu_cases,
}
