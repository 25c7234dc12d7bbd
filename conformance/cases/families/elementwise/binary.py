"""Operators on two tensors, element by element: what all of them are asked in each precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, placed, valued
from npu_assay.conformance.cases.families.elementwise.unary import INTEGER_SHAPES
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, Q, X, activation, call, model, quant, seeded, sizes_of
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.neighbors import then_hardtanh, then_relu, with_activation
from npu_assay.conformance.cases.pieces.placed import FULL_IMAGE
from npu_assay.conformance.cases.pieces.quantization import OTHER
from npu_assay.conformance.cases.pieces.spelling import (
    IMAGE,
    INTEGERS,
    codes_quant,
    integers,
    is_static,
    is_wide,
    other_type,
    real,
    result,
    spelled,
)
from npu_assay.conformance.cases.pieces.subject import FLOAT, Config, Subject
from npu_assay.conformance.cases.pieces.values import SCATTERED, TELLING, named
from npu_assay.conformance.programs.graph import Fill, Quant, Ref, Value

# ------------------------------------------------------------------------------------ static int8


def binary(op: str, shape: tuple[int, ...], x: Quant = Q, z: Quant = Q, y: Quant = Q, **kwargs: Any) -> Call:
    """An operator on two inputs of one shape."""
    return call(op, shape, Ref("z"), x=x, y=y, more=(activation("z", shape, z),), **kwargs)


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


def pair(op: str, shape: tuple[int, ...], other: tuple[int, ...], x: Quant, y: Quant) -> Call:
    """An operator on two inputs of possibly different shapes."""
    return call(op, shape, Ref("z"), x=x, y=y, more=(activation("z", other, x),))


def same_shape(op: str, x: Quant, y: Quant, plain: tuple[int, ...] = FULL_IMAGE) -> list[CaseDraft]:
    """Broadcasting in every direction is out, whichever operand is the smaller one. `plain` is a permitted shape."""
    drafts = []
    for shape, other in UNEQUAL:
        drafts.append(outside("same_shape", sizes_of(shape, other), pair(op, shape, other, x, y)))
        drafts.append(outside("same_shape", sizes_of(other, shape), pair(op, other, shape, x, y)))
    return [
        *drafts,
        limit("same_shape", "equal_shapes", pair(op, plain, plain, x, y)),
        outside("same_shape", "with_a_float", call(op, plain, 0.25, x=x, y=y)),
        outside("same_shape", "with_an_int", call(op, plain, 2, x=x, y=y)),
        outside("same_shape", "behind_conv", pair(op, (1, 8, 4, 4), (1, 8, 1, 1), x, y), behind_conv),
    ]


WHOLE = (
    ((1, 3, 5, 7), (7,)),
    ((1, 8, 4, 4), (1, 8, 1, 1)),
    ((5, 3, 8), (1, 3, 1)),
    ((2, 3), (1,)),
    ((2, 3, 2, 3, 2), (2, 1, 2)),
)
"""Shapes of which the first is that of the result."""
NEITHER = (((8, 1), (1, 8)), ((2, 1, 4), (3, 1)), ((5, 1, 3), (1, 4, 3)), ((1, 8, 4, 1), (1, 1, 1, 4)))
"""Shapes of which neither is."""


def one_whole(op: str, x: Quant, y: Quant, plain: tuple[int, ...] = FULL_IMAGE) -> list[CaseDraft]:
    """One operand has the result's shape, whichever it is, and neither is a number. `plain` is a permitted shape."""
    code = "broadcast"
    numbers = () if "mum" in op else (("a_float", 0.25), ("an_int", 2))  # maximum and minimum take tensors alone
    both = [*((limit, *shapes) for shapes in WHOLE), *((outside, *shapes) for shapes in NEITHER)]
    return [
        limit(code, "equal_shapes", pair(op, plain, plain, x, y)),
        *(side(code, sizes_of(a, b), pair(op, a, b, x, y)) for side, a, b in both),
        *(side(code, sizes_of(b, a), pair(op, b, a, x, y)) for side, a, b in both),
        *(outside(code, f"with_{n}", call(op, plain, number, x=x, y=y)) for n, number in numbers),
        outside(code, "with_a_scalar", pair(op, plain, (), x, y)),
        limit(code, "channels_behind_conv", pair(op, (1, 8, 4, 6), (1, 8, 1, 1), x, y), behind_conv),
        outside(code, "behind_conv", pair(op, (1, 8, 4, 1), (1, 1, 1, 6), x, y), behind_conv),
    ]


def one_differs(u: Call) -> list[CaseDraft]:
    """Both operands and the result have one quantization."""
    code, (x, other) = "same_qparams", u.values
    equal = [u.with_each(quant=q) for q in (quant(0.03, -128), quant(0.03, 0), quant(0.03, 127))]
    assert isinstance(Q.scale, float)
    off = {"scale_doubled": quant(2 * Q.scale, Q.zero_point), "zero_point_one_up": Quant(Q.scale, Q.zero_point + 1)}
    return [
        *(limit(code, f"all_{named(e.quant('x'))}", replace(e, y=e.quant("x"))) for e in equal),
        *(outside(code, f"first_{n}", replace(u, values=(replace(x, quant=q), other))) for n, q in off.items()),
        *(outside(code, f"second_{n}", replace(u, values=(x, replace(other, quant=q)))) for n, q in off.items()),
        *(outside(code, f"output_{n}", replace(u, y=q)) for n, q in off.items()),
    ]


def with_itself(u: Call) -> Call:
    """Both operands are the same value."""
    return replace(u, values=u.values[:1], args=(X, X))


def static_pairs_of_numbers(u: Call, triples: Sequence[tuple[Quant, Quant, Quant]]) -> list[CaseDraft]:
    """Ramps against each other, extremes against extremes, for several quantizations."""
    drafts = []
    shape = u.x.shape
    fills = {"ramp_and_random": (Fill("ramp"), Fill(seed=7)), "extremes": (Fill("alternating"), ENDS)}
    for x, z, y in triples:
        for name, (first, second) in fills.items():
            values = (activation("x", shape, x, first), activation("z", shape, z, second))
            variant = f"{name}_{named(x)}_{named(z)}_to_{named(y)}"
            drafts.append(valued(variant, replace(u, values=values, y=y)))
    return drafts


ENDS = Fill("list", values=(-128.0, -128.0, 127.0, 127.0, 0.0))


def static_triples(x: float, y: float) -> list[tuple[Quant, Quant, Quant]]:
    """Zero points at the ends, unequal scales, ties (powers of two), saturation, extreme scales."""
    return [
        *((quant(x, zero), quant(0.7 * x, zero), quant(y, -128 if zero else 0)) for zero in (-128, 0, 127)),
        (quant(x, 3), quant(x / 50, -9), quant(y, 2)),
        (quant(x / 50, 3), quant(x, -9), quant(y, 2)),
        (quant(x, 0), quant(x, 0), quant(y / 8, 0)),
        (quant(x, -100), quant(x, 100), quant(8 * y, 0)),
    ]


def constant_operand(u: Call) -> Call:
    """The second operand is a constant of the same shape."""
    return replace(u, values=(u.x, replace(u.values[1], constant=True)))


def quantized(u: Call, x: Quant, z: Quant, y: Quant) -> Call:
    first, second = u.values
    return replace(u, values=(replace(first, quant=x), replace(second, quant=z)), y=y)


def nothing_computed(u: Call, z: Quant, neutral: float, either: bool = True) -> list[CaseDraft]:
    """Alone with a constant that changes nothing; a single other element makes it compute.

    either: whether it changes nothing on both sides, and not as the second operand alone.
    """
    code, (first, second) = "not_alone", u.values
    side = outside if either else limit
    idle = replace(u, values=(first, replace(second, quant=z, fill=Fill("list", values=(neutral,)))), y=first.quant)
    one_other = Fill("list", values=(*(neutral,) * (prod(first.shape) - 1), neutral + 2))
    busy = replace(idle, values=(first, replace(idle.values[1], fill=one_other)))
    return [
        outside(code, "neutral_constant", idle),
        side(code, "neutral_constant_first", replace(idle, args=(idle.args[1], idle.args[0], *idle.args[2:]))),
        limit(code, "neutral_constant_behind_abs", idle, behind_abs),
        limit(code, "one_other_element", busy),
    ]


def any_dim(make: str, drafts: Sequence[tuple[str, Call, bool]]) -> list[CaseDraft]:
    """Some output dimension is a multiple of 8, or all are 1."""
    code = "any_dim_multiple_of"
    return [(limit if good else outside)(code, f"{make}_{name}", u) for name, u, good in drafts]


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


# ------------------------------------------------------------------------------------ both

FULL = (1, 8, 4, 8)
TRIPLES = (
    (quant(0.05), quant(0.05), quant(0.1)),
    (quant(0.05, -128), quant(0.05, 127), quant(0.1, 0)),
    (quant(0.0625, 3), quant(0.03125, -4), quant(0.125, 5)),
    (quant(0.05, 9), quant(0.07, -20), quant(0.013, -128)),
    (quant(0.05, 1), quant(0.0007, 2), quant(0.06, 127)),
    (quant(3.0), quant(2.0, -3), quant(4.0, 1)),
)
"""Equal scales, zero points at the ends, ties, saturation, scales far apart."""


def codes(u: Call, precision: str) -> Iterator[CaseDraft]:
    """Every code against codes far from it, for quantizations that tell roundings apart."""
    for triple in TRIPLES:
        first, second, after = (codes_quant(precision, q) for q in triple)
        x = replace(u.x, quant=first, fill=seeded("x") if is_wide(precision) else SCATTERED)
        other = replace(u.values[1], quant=second, fill=seeded("other"))
        a, b, y = map(named, triple)
        yield valued(f"codes_{a}_{b}_to_{y}", replace(u, values=(x, other), y=None if u.y is None else after))
    for name in ("min", "max", "alternating"):
        yield valued(f"both_{name}", u.with_each(fill=Fill(name)))


# ------------------------------------------------------------------------------------ floats


@dataclass(frozen=True)
class FloatBinary:
    """An operator on two tensors; fill: numbers of the second one that it is defined for."""

    op: str
    config: str
    supports: tuple[str, ...] = FLOAT
    fill: Fill | None = None
    integers: bool = True

    def at(self, precision: str, shape: tuple[int, ...]) -> Call:
        """The operator on two tensors of this shape."""
        return self.of(precision, shape, shape)

    def of(self, precision: str, left: tuple[int, ...], right: tuple[int, ...], **kwargs: object) -> Call:
        """The operator on tensors of these shapes."""
        values = (real("x", left, precision), real("y", right, precision, self.fill))
        return Call(self.op, values, (X, Y), result(precision), tuple(kwargs.items()))

    @property
    def subject(self) -> Subject:
        """What all rows are made from."""
        return Subject(self.at, config=Config(self.config, self.supports), whole=self.integers)


def float_binary(binary: FloatBinary, precision: str, limits: Limits) -> list[CaseDraft]:
    """What every operator on two tensors has."""
    return [
        *everywhere(binary.subject, precision, limits),
        *operands(binary, precision),
        *(mixed_types(binary) if precision == "fp32" else ()),
        *(then_activation(binary, precision) if precision != "fp16" else ()),
        *(
            codes(binary.at(precision, FULL), precision)
            if is_static(precision)
            else float_pairs_of_numbers(binary, precision)
        ),
    ]


BROADCAST = (((3, 1), (1, 4)), ((1, 3, 1, 5), (2, 1, 4, 1)), ((4, 5), (1, 3, 4, 5)))
FLOAT_BROADCAST = ((IMAGE, (1, 3, 1, 1)), (IMAGE, (5,)), (IMAGE, ()), *BROADCAST)


def operands(binary: FloatBinary, precision: str) -> Iterator[CaseDraft]:
    """Shapes that differ, one tensor for both, a constant, a number."""
    u = binary.at(precision, IMAGE)
    x, y = u.values
    yield accepted("same_tensor_twice", replace(u, values=(_nonzero(binary, x),), args=(X, X)))
    yield accepted("constant_operand", replace(u, values=(x, replace(y, constant=True))))
    for left, right in FLOAT_BROADCAST if precision != "fp16" else FLOAT_BROADCAST[:2]:
        graph = model(binary.of(precision, left, right))
        yield accepted(f"broadcast_{sizes_of(left)}_and_{sizes_of(right) or 'scalar'}", graph)
    if precision == "fp32" and "maximum" not in binary.op and "minimum" not in binary.op:
        yield accepted("float_number", replace(u, values=(x,), args=(X, 2.5)))
        yield accepted("whole_number", replace(u, values=(x,), args=(X, 2)))
    if precision == "fp32":
        batch = tuple(replace(value, dynamic=(0,)) for value in u.values)
        yield accepted("open_axis_0_of_one_operand", replace(u, values=(batch[0], replace(y, shape=(1, *IMAGE[1:])))))


def _nonzero(binary: FloatBinary, x: Value) -> Value:
    return x if binary.fill is None else replace(x, fill=binary.fill)


def mixed_types(binary: FloatBinary) -> Iterator[CaseDraft]:
    """One operand of another type."""
    u = binary.at("fp32", IMAGE)
    x, y = u.values
    for name, values in (("x", (replace(x, dtype="float16"), y)), ("y", (x, replace(y, dtype="float16")))):
        yield outside("dtype", f"only_{name}_float16", replace(u, values=values))


def then_activation(binary: FloatBinary, precision: str) -> Iterator[CaseDraft]:
    """With an activation after it that can be fused."""
    u = binary.at(precision, IMAGE)
    yield placed("then_relu", with_activation(u, then_relu))
    yield placed("then_hardtanh", with_activation(u, then_hardtanh))


def float_pairs_of_numbers(binary: FloatBinary, precision: str) -> Iterator[CaseDraft]:
    """Numbers that tell implementations apart."""
    u = binary.at(precision, (1, 2, 3, 8))
    x, y = u.values
    telling = Fill("list", values=TELLING)
    turned = Fill("list", values=tuple(reversed(TELLING))) if binary.fill is None else binary.fill
    yield valued("telling", replace(u, values=(replace(x, fill=telling), replace(y, fill=turned))))


# ------------------------------------------------------------------------------------ integers


Y = Ref("y")
INTEGER_SUM = quant(0.08, 1)
INTEGER_BROADCAST = ((IMAGE, (1, 3, 1, 1)), (IMAGE, (5,)), (IMAGE, (3, 4, 5)), *BROADCAST)


@dataclass(frozen=True)
class IntegerBinary:
    """An operator on two tensors; y: its result's quantization; plain: its result is a truth."""

    op: str
    y: Quant | None = INTEGER_SUM
    plain: bool = False

    def of(self, precision: str, left: tuple[int, ...], right: tuple[int, ...], **kwargs: object) -> Call:
        """The operator on tensors of these shapes."""
        if precision == INTEGERS:
            values = (integers("x", left), integers("y", right, low=-4, high=4))
            return Call(self.op, values, (X, Y), None, tuple(kwargs.items()))
        u = Call(self.op, (activation("x", left), activation("y", right, OTHER)), (X, Y), self.y, tuple(kwargs.items()))
        return spelled(u, precision)

    @property
    def subject(self) -> Subject:
        """What all rows are made from."""
        return Subject(
            lambda precision, shape: self.of(precision, shape, shape),
            shapes=INTEGER_SHAPES,
            elementwise=True,
            reals=not self.plain,
        )


def integer_binary(binary: IntegerBinary, precision: str, limits: Limits) -> list[CaseDraft]:
    """What every operator on two tensors has."""
    u = binary.of(precision, IMAGE, IMAGE)
    x, y = u.values
    drafts = everywhere(binary.subject, precision, limits)
    drafts += [
        accepted("same_tensor_twice", replace(u, values=(x,), args=(X, X))),
        accepted("constant_operand", replace(u, values=(x, replace(y, constant=True)))),
        *(
            accepted(f"broadcast_{sizes_of(left)}_and_{sizes_of(right)}", binary.of(precision, left, right))
            for left, right in INTEGER_BROADCAST
        ),
    ]
    if precision == INTEGERS:
        return drafts
    if "mixed_dtype" in limits:
        if binary.plain:
            drafts.append(limit("mixed_dtype", "all_the_same", u))
        strange = replace(y, quant=other_type(precision), fill=seeded("y"))
        drafts.append(outside("mixed_dtype", "second_operand", replace(u, values=(x, strange))))
    return [*drafts, *codes(binary.of(precision, FULL, FULL), precision)]


def integer_scaled(u: Call, precision: str, left: float, right: float, after: float) -> Call:
    """The call with these scales, and zero points 0."""
    x, y = (
        replace(value, quant=codes_quant(precision, quant(scale)))
        for value, scale in zip(u.values, (left, right), strict=True)
    )
    return replace(u, values=(x, y), y=codes_quant(precision, quant(after)))
