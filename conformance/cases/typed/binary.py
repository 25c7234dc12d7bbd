"""Operators on two tensors, element by element: add, sub, mul, div, maximum, minimum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Draft,
    Use,
    X,
    accepted,
    f32,
    limit,
    model,
    outside,
    placed,
    quant,
    seeded,
    sizes_of,
    valued,
)
from npu_assay.conformance.cases.shared import SCATTERED, named
from npu_assay.conformance.cases.typed.common import FLOAT, FLOAT_STATIC, Family, Subject, everywhere
from npu_assay.conformance.cases.typed.contexts import then_hardtanh, then_relu, with_activation
from npu_assay.conformance.cases.typed.elementwise import POSITIVE, TELLING
from npu_assay.conformance.cases.typed.spelling import IMAGE, is_static, real, result
from npu_assay.conformance.programs.graph import Fill, Quant, Ref, Value

Y = Ref("y")
LARGEST_RATIO = 256.0
JUST_BELOW, JUST_ABOVE = 1 - 2.0**-20, 1 + 2.0**-20


@dataclass(frozen=True)
class Binary:
    """An operator on two tensors; fill: numbers of the second one that it is defined for."""

    op: str
    config: str
    supports: tuple[str, ...] = FLOAT
    fill: Fill | None = None
    integers: bool = True

    def at(self, precision: str, shape: tuple[int, ...]) -> Use:
        """The operator on two tensors of this shape."""
        return self.of(precision, shape, shape)

    def of(self, precision: str, left: tuple[int, ...], right: tuple[int, ...], **kwargs: object) -> Use:
        """The operator on tensors of these shapes."""
        values = (real("x", left, precision), real("y", right, precision, self.fill))
        return Use(self.op, values, (X, Y), result(precision), tuple(kwargs.items()))

    @property
    def subject(self) -> Subject:
        """What all rows are made from."""
        return Subject(self.config, self.at, self.supports, integers=self.integers)


def cases(binary: Binary, precision: str, limits: Limits) -> list[Draft]:
    """What every operator on two tensors has."""
    return [
        *everywhere(binary.subject, precision, limits),
        *operands(binary, precision),
        *(mixed_types(binary) if precision == "fp32" else ()),
        *(activated(binary, precision) if precision != "fp16" else ()),
        *(codes(binary) if is_static(precision) else values(binary, precision)),
    ]


# ------------------------------------------------------------------------------------ operands

BROADCAST = (
    (IMAGE, (1, 3, 1, 1)),
    (IMAGE, (5,)),
    (IMAGE, ()),
    ((3, 1), (1, 4)),
    ((1, 3, 1, 5), (2, 1, 4, 1)),
    ((4, 5), (1, 3, 4, 5)),
)


def operands(binary: Binary, precision: str) -> Iterator[Draft]:
    """Shapes that differ, one tensor for both, a constant, a number."""
    u = binary.at(precision, IMAGE)
    x, y = u.values
    yield accepted("same_tensor_twice", model(replace(u, values=(_nonzero(binary, x),), args=(X, X))))
    yield accepted("constant_operand", model(replace(u, values=(x, replace(y, constant=True)))))
    for left, right in BROADCAST if precision != "fp16" else BROADCAST[:2]:
        graph = model(binary.of(precision, left, right))
        yield accepted(f"broadcast_{sizes_of(left)}_and_{sizes_of(right) or 'scalar'}", graph)
    if precision == "fp32" and "maximum" not in binary.op and "minimum" not in binary.op:
        yield accepted("float_number", model(replace(u, values=(x,), args=(X, 2.5))))
        yield accepted("whole_number", model(replace(u, values=(x,), args=(X, 2))))
    if precision == "fp32":
        batch = tuple(replace(value, dynamic=(0,)) for value in u.values)
        yield accepted(
            "open_axis_0_of_one_operand", model(replace(u, values=(batch[0], replace(y, shape=(1, *IMAGE[1:])))))
        )


def _nonzero(binary: Binary, x: Value) -> Value:
    return x if binary.fill is None else replace(x, fill=binary.fill)


def mixed_types(binary: Binary) -> Iterator[Draft]:
    """One operand of another type."""
    u = binary.at("fp32", IMAGE)
    x, y = u.values
    for name, values in (("x", (replace(x, dtype="float16"), y)), ("y", (x, replace(y, dtype="float16")))):
        yield outside("dtype", f"only_{name}_float16", model(replace(u, values=values)))


def activated(binary: Binary, precision: str) -> Iterator[Draft]:
    """With an activation behind it that can be fused."""
    u = binary.at(precision, IMAGE)
    yield placed("then_relu", with_activation(u, then_relu))
    yield placed("then_hardtanh", with_activation(u, then_hardtanh))


# ------------------------------------------------------------------------------------ numbers


def values(binary: Binary, precision: str) -> Iterator[Draft]:
    """Numbers that tell implementations apart."""
    u = binary.at(precision, (1, 2, 3, 8))
    x, y = u.values
    telling = Fill("list", values=TELLING)
    turned = Fill("list", values=tuple(reversed(TELLING))) if binary.fill is None else binary.fill
    yield valued("telling", model(replace(u, values=(replace(x, fill=telling), replace(y, fill=turned)))))


def codes(binary: Binary) -> Iterator[Draft]:
    """Every code against codes far from it, for quantisations that tell roundings apart."""
    u = binary.at("static_int8", (1, 8, 4, 8))
    for a, b, y in triples():
        x = replace(u.values[0], quant=a, fill=SCATTERED)
        other = replace(u.values[1], quant=b, fill=seeded("other"))
        graph = model(replace(u, values=(x, other), y=y))
        yield valued(f"codes_{named(a)}_{named(b)}_to_{named(y)}", graph)
    for name in ("min", "max", "alternating"):
        filled = tuple(replace(value, fill=Fill(name)) for value in u.values)
        yield valued(f"both_{name}", model(replace(u, values=filled)))


def triples() -> list[tuple[Quant, Quant, Quant]]:
    """Equal scales, zero points at the ends, ties, saturation, scales far apart."""
    q = quant(0.05)
    return [
        (q, q, quant(0.1)),
        (quant(0.05, -128), quant(0.05, 127), quant(0.1, 0)),
        (quant(0.0625, 3), quant(0.03125, -4), quant(0.125, 5)),
        (quant(0.05, 9), quant(0.07, -20), quant(0.013, -128)),
        (quant(0.05, 1), quant(0.0007, 2), quant(0.06, 127)),
        (quant(3.0), quant(2.0, -3), quant(4.0, 1)),
    ]


def ratios(binary: Binary, limits: Limits) -> Iterator[Draft]:
    """The larger input scale over the output scale: both ends of the range, on either operand."""
    least = limits.real("add_scale_ratio", 2.0**-10, 2.0**-20, 1.0)
    inside_ends = (("least", least), ("below_256", LARGEST_RATIO * JUST_BELOW))
    past_ends = (("below_least", least * JUST_BELOW), ("256", LARGEST_RATIO), ("above_256", LARGEST_RATIO * JUST_ABOVE))
    for name, ratio in inside_ends:
        yield limit("add_scale_ratio", name, model(_scaled(binary, ratio, ratio)))
    for name, ratio in past_ends:
        yield outside("add_scale_ratio", name, model(_scaled(binary, ratio, ratio)))
    yield limit("add_scale_ratio", "least_of_second_only", model(_scaled(binary, least / 8, least)))
    yield limit("add_scale_ratio", "one_operand_tiny", model(_scaled(binary, 1.0, least / 8)))
    yield outside("add_scale_ratio", "256_of_first_only", model(_scaled(binary, LARGEST_RATIO, 1.0)))
    yield outside("add_scale_ratio", "256_of_second_only", model(_scaled(binary, 1.0, LARGEST_RATIO)))


def _scaled(binary: Binary, left: float, right: float) -> Use:
    """Input scales as multiples of an output scale of 1."""
    u = binary.at("static_int8", IMAGE)
    x, y = (replace(v, quant=Quant(f32(s), 0)) for v, s in zip(u.values, (left, right), strict=True))
    return replace(u, values=(x, y), y=quant(1.0))


# ------------------------------------------------------------------------------------ rows


def alpha_cases(binary: Binary, precision: str, limits: Limits) -> list[Draft]:
    """add and sub: alpha is 1, up to what counts as rounding, however it is spelled."""
    limits.fixed("alpha", 1)
    kept: tuple[tuple[str, dict[str, float]], ...]
    kept = (("left_out", {}), ("1", {"alpha": 1}), ("1.0", {"alpha": 1.0}), ("nearly_1", {"alpha": 1 + 1e-10}))
    past: tuple[float, ...] = (2, 0, -1, 0.5, 1 + 1e-7)
    past = past if precision == "fp32" else past[:2]
    drafts = cases(binary, precision, limits)
    drafts += [limit("alpha", name, model(binary.of(precision, IMAGE, IMAGE, **kwargs))) for name, kwargs in kept]
    for number in past:
        u = binary.of(precision, IMAGE, IMAGE, alpha=number)
        drafts.append(outside("alpha", str(number).replace("-", "minus_"), model(u)))
    return [*drafts, *ratios(binary, limits)] if is_static(precision) else drafts


FAMILIES: Mapping[str, Family] = {
    "aten.add.Tensor": partial(alpha_cases, Binary("aten.add.Tensor", "AddConfig", FLOAT_STATIC)),
    "aten.sub.Tensor": partial(alpha_cases, Binary("aten.sub.Tensor", "SubConfig", FLOAT_STATIC)),
    "aten.mul.Tensor": partial(cases, Binary("aten.mul.Tensor", "MulConfig", FLOAT_STATIC)),
    "aten.div.Tensor": partial(cases, Binary("aten.div.Tensor", "DivConfig", fill=POSITIVE, integers=False)),
    "aten.maximum.default": partial(cases, Binary("aten.maximum.default", "MaximumConfig")),
    "aten.minimum.default": partial(cases, Binary("aten.minimum.default", "MinimumConfig")),
}
