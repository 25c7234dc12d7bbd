"""Operators that limit numbers to a range: relu, clamp, hardtanh."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.around import behind_abs, behind_conv, then_abs
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, inside, limit, outside, placed
from npu_assay.conformance.cases.families.elementwise.unary import (
    INTEGER_SHAPES,
    FloatUnary,
    IntegerUnary,
    float_spellings,
    float_unary,
    integer_unary,
)
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import RELU, Call, Q, X, activation, bare, call, constant, quant, sizes_of
from npu_assay.conformance.cases.permitted import INFINITY, Bounds, fitting, image, permitted_bounds, plain_bounds
from npu_assay.conformance.cases.pieces.contexts import behind_convolution, contexts, twice_in_a_row
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.options import option_spellings
from npu_assay.conformance.cases.pieces.placed import Placed
from npu_assay.conformance.cases.pieces.quantization import POSITIVE, UP_TO_6, ratio_limits, rescaled, unary_rescale
from npu_assay.conformance.cases.pieces.sizes import rank_limit
from npu_assay.conformance.cases.pieces.spelling import codes_quant, in_int8, is_wide
from npu_assay.conformance.cases.pieces.subject import FLOAT_STATIC, Subject
from npu_assay.conformance.cases.pieces.values import all_codes, fills, rescaling_pairs
from npu_assay.conformance.programs.graph import Quant, Ref

# ------------------------------------------------------------------------------------ static int8


def _clamped(op: str, unbounded: float | None) -> Callable[[Limits], Placed]:
    def place(limits: Limits) -> Placed:
        bounds = plain_bounds(permitted_bounds(limits, unbounded))
        shape = image(limits.multiple("alone_channels_multiple_of"))
        return call(op, shape, *bounds, y=UP_TO_6 if bounds == (0, 6) else fitting(*bounds)), bare

    return place


def _relu(limits: Limits) -> Placed:
    return call(RELU, image(limits.multiple("alone_channels_multiple_of")), y=UP_TO_6), bare


ALONE = "alone_channels_multiple_of"


def bounded(u: Call, ranges: str, m: int) -> list[CaseDraft]:
    """What relu and the one-sided clamps share: alone, their channel count must be a multiple of `m`.

    Alone there is no layout, so the channel is the last dimension; `ranges` names the bounds.
    """
    fits = ((1, 3, 4, m), (3, 9, m), (2, m), (m,), (1, 7, 4, m))
    less, more = m - 1, m + 1
    beyond = ((1, m, 4, less), (1, m, 4, more), (3, 9, less), (2, m // 2), (less,), (m, 1), (1, m, m, 1))
    return [
        *(limit(ALONE, f"{ranges}_alone_{sizes_of(s)}", u.with_x(shape=s)) for s in fits),
        inside(ALONE, f"{ranges}_alone_channels_{2 * m}", u.with_x(shape=(1, 3, 4, 2 * m))),
        *(outside(ALONE, f"{ranges}_alone_{sizes_of(s)}", u.with_x(shape=s)) for s in dict.fromkeys(beyond)),
        inside(ALONE, f"{ranges}_behind_abs_channels_{less}", u.with_x(shape=(1, 3, 4, less)), behind_abs),
        inside(ALONE, f"{ranges}_before_abs_channels_{less}", u.with_x(shape=(1, 3, 4, less)), bare, then_abs),
        inside(ALONE, f"{ranges}_behind_conv_channels_5", u.with_x(shape=(1, 5, 4, 6)), behind_conv),
    ]


def static_relu_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """Cases of relu: any shape, but see `bounded`."""
    m = limits.multiple(ALONE)
    u = call(RELU, image(m), y=UP_TO_6)
    pairs = rescaling_pairs(1.0, lambda zero: min(zero, 0))
    pairs = list(dict.fromkeys([*pairs, *((x, Quant(y.scale, -128)) for x, y in pairs)]))
    return [
        *bounded(u, "relu", m),
        *rank_limit(limits, lambda shape: u.with_x(shape=shape), m),
        *unary_rescale(u),
        *contexts(u),
        *behind_convolution(u),
        placed("twice_in_a_row", twice_in_a_row(replace(u, y=Q))),
        *all_codes(u, pairs, multiple=m),
        *fills(u),
    ]


# Without rescaling the one-sided ones are a maximum with zero or nothing; the two-sided ones always compute.
ONE_SIDED: Sequence[Bounds] = ((0, 6), (0, None), (0, INFINITY))
TWO_SIDED: Sequence[Bounds] = ((-1, 1), (0, 1))
FORBIDDEN: Sequence[Bounds] = (
    (-1, 1),
    (0, 1),
    (0, 6),
    (0, 6.5),
    (0, 5.999),
    (0, 2),
    (0.001, 6),
    (1, 6),
    (-1, 0.99),
    (-0.99, 1),
    (-1, 0),
    (-1, 6),
    (-2, 2),
    (-6, 6),
    (-0.5, 0.5),
)


def _bound_name(low: Any, high: Any) -> str:
    return f"{low}_to_{high}".replace("-", "minus_")


def _bounds(op: str, bounds: Bounds, shape: tuple[int, ...]) -> Call:
    return call(op, shape, *bounds, y=fitting(*bounds))


def permitted_bounds_drafts(op: str, limits: Limits, unbounded: float | None) -> list[CaseDraft]:
    """clamp and hardtanh: a list of permitted bounds. `unbounded` is how the operator spells an absent one."""
    permitted, m = permitted_bounds(limits, unbounded), limits.multiple(ALONE)
    refused = [bounds for bounds in FORBIDDEN if bounds not in permitted]
    spelled = [(float(low), float(high)) for low, high in permitted if low is not None and high is not None]

    def clamped(bounds: Bounds, shape: tuple[int, ...] | None = None) -> Call:
        return _bounds(op, bounds, image(m) if shape is None else shape)

    free = [bounds for bounds in TWO_SIDED if bounds in permitted]
    narrow = f"alone_channels_{m - 1}"
    return [
        *(limit("bounds", _bound_name(*b), clamped(b)) for b in permitted),
        *(limit("bounds", f"{_bound_name(*b)}_as_floats", clamped(b)) for b in spelled),
        *(outside("bounds", _bound_name(*b), clamped(b)) for b in refused),
        *(outside("bounds", "behind_conv", clamped(b), behind_conv) for b in refused[:1]),
        *(inside(ALONE, f"{_bound_name(*b)}_{narrow}", clamped(b, (1, 3, 4, m - 1))) for b in free),
        *(d for b in permitted if b in ONE_SIDED for d in bounded(clamped(b), _bound_name(*b), m)),
        *_bounds_numbers(clamped, permitted, m),
        *rank_limit(limits, lambda shape: clamped(plain_bounds(permitted), shape), m),
    ]


def _bounds_numbers(clamped: Callable[[Bounds], Call], permitted: Sequence[Bounds], m: int) -> list[CaseDraft]:
    """All codes at several quantizations: fitting the bounds, wider than they are, narrower."""
    drafts = []
    for bounds in permitted:
        outputs = (fitting(*bounds), quant(0.05, 3), quant(0.06, -128), quant(0.004, 0), quant(0.1, 100))
        pairs = [(x, y) for x in (quant(0.05, 3), quant(0.0625, -128)) for y in dict.fromkeys(outputs)]
        drafts += all_codes(clamped(bounds), pairs, label=f"_{_bound_name(*bounds)}", multiple=m)
    u = clamped(plain_bounds(tuple(permitted)))
    return [*drafts, *unary_rescale(u), *contexts(u), *behind_convolution(u), *fills(u)]


def static_clamp_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.clamp.default: bounds from a list; an absent bound is None."""
    op = "aten.clamp.default"
    permitted, shape = permitted_bounds(limits, None), image(limits.multiple(ALONE))
    spelled: Sequence[tuple[str, Call, Bounds]] = (
        ("upper_left_out", call(op, shape, 0, y=fitting(0, None)), (0, None)),
        ("by_name", call(op, shape, min=0, max=6, y=fitting(0, 6)), (0, 6)),
        ("minus_zero_to_6", call(op, shape, -0.0, 6, y=fitting(0, 6)), (0, 6)),
    )
    absent: Sequence[Bounds] = ((None, 6), (None, 1), (-1, None), (1, None), (0, None), (0, INFINITY))
    return [
        *permitted_bounds_drafts(op, limits, None),
        *_spelled(spelled, permitted),
        *(outside("bounds", _bound_name(*b), call(op, shape, *b, y=fitting(*b))) for b in absent if b not in permitted),
    ]


def _spelled(uses: Sequence[tuple[str, Call, Bounds]], permitted: Sequence[Bounds]) -> list[CaseDraft]:
    """Uses whose bounds are spelled in another way."""
    return [(limit if bounds in permitted else outside)("bounds", name, u) for name, u, bounds in uses]


def static_hardtanh_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.hardtanh.default: bounds from a list; the default is (-1, 1), relu6 is (0, 6)."""
    op = "aten.hardtanh.default"
    permitted, shape = permitted_bounds(limits, INFINITY), image(limits.multiple(ALONE))
    spelled: Sequence[tuple[str, Call, Bounds]] = (
        ("default", call(op, shape, y=fitting(-1, 1)), (-1, 1)),
        ("upper_left_out", call(op, shape, 0, y=fitting(0, 1)), (0, 1)),
        ("by_name", call(op, shape, min_val=0.0, max_val=6.0, y=fitting(0, 6)), (0, 6)),
        ("minus_inf_to_inf", call(op, shape, -INFINITY, INFINITY), (-INFINITY, INFINITY)),
        ("minus_inf_to_6", call(op, shape, -INFINITY, 6.0), (-INFINITY, 6)),
    )
    one_sided = [] if (0, INFINITY) in permitted else [("0_to_inf", call(op, shape, 0, INFINITY), (0, INFINITY))]
    return [*permitted_bounds_drafts(op, limits, INFINITY), *_spelled([*spelled, *one_sided], permitted)]


# ------------------------------------------------------------------------------------ floats


def float_clamp_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.clamp.default: any bounds, one of them or both, also crossed."""
    unary = FloatUnary("aten.clamp.default", "ClampConfig", (-1.0, 2.0), supports=FLOAT_STATIC, integers=True)
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
    chosen = float_spellings(unary, precision, bounds)
    return [*float_unary(unary, precision, limits), *(accepted(f"bounds_{name}", u) for name, u in chosen)]


def float_hardtanh_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.hardtanh.default: any bounds, also none."""
    unary = FloatUnary("aten.hardtanh.default", "HardtanhConfig", (-1.0, 1.0), supports=FLOAT_STATIC)
    bounds = (("default", ()), ("relu6", (0.0, 6.0)), ("whole_numbers", (-2, 3)), ("off_the_grid", (-1.23, 1.23)))
    chosen = float_spellings(unary, precision, bounds)
    return [*float_unary(unary, precision, limits), *(accepted(f"bounds_{name}", u) for name, u in chosen)]


def float_relu_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """Cases of relu, and every spelling of the options."""
    unary = FloatUnary(RELU, "ReLUConfig", supports=FLOAT_STATIC, integers=True)
    return [*float_unary(unary, precision, limits), *option_spellings(unary.subject, precision)]


# ------------------------------------------------------------------------------------ integers


def integer_clamp_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.clamp.default: one bound or both."""
    bounds = (
        ("both", (-1, 2)),
        ("min_only", (-0.5,)),
        ("max_only", (None, 0.75)),
        ("equal", (1.0, 1.0)),
        ("far_apart", (-1e4, 1e4)),
        ("up_to_infinity", (0.0, INFINITY)),
        ("off_the_grid", (-1.23, 1.23)),
    )
    unary = IntegerUnary("aten.clamp.default", (-1.0, 2.0), more=bounds)
    u = unary.subject.call(precision)
    drafts = integer_unary(unary, precision, limits)
    drafts += [limit("bounds", name, replace(u, args=(X, *args))) for name, args in bounds[1:3]]
    return drafts


def integer_clamp_tensor_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.clamp.Tensor: the bounds are tensors, computed or constant."""
    low, high = constant("low", (1,), quant(0.03125, -7)), constant("high", (1,), quant(0.03125, -7))

    def at(shape: tuple[int, ...]) -> Call:
        values = (activation("x", shape), low, high)
        return Call("aten.clamp.Tensor", values, (X, Ref("low"), Ref("high")), Q)

    subject = Subject(in_int8(at), shapes=INTEGER_SHAPES, elementwise=True)
    u = subject.call(precision)
    x, small, large = u.values
    only_low = replace(u, values=(x, small), args=(X, Ref("low")))
    only_high = replace(u, values=(x, large), args=(X, None, Ref("high")))
    per_channel = replace(u, values=(x, replace(small, shape=(3, 1, 1), constant=False), large))

    def _apart(ratio: float) -> Call:
        x, *bounds = (replace(v, quant=codes_quant(precision, quant(1.0))) for v in u.values)
        large_x = replace(x, quant=codes_quant(precision, quant(ratio)))
        return replace(u, values=(large_x, *bounds), y=codes_quant(precision, quant(ratio)))

    return [
        *everywhere(subject, precision, limits),
        limit("bounds", "low", only_low),
        limit("bounds", "high", only_high),
        accepted("low_per_channel", per_channel),
        *rescaled(subject, precision),
        *ratio_limits(_apart, 14 if is_wide(precision) else 22),
    ]


HARDTANH = (("default", ()), ("relu6", (0.0, 6.0)), ("whole_numbers", (-2, 3)), ("off_the_grid", (-1.23, 1.23)))
FAMILIES: Mapping[str, Family] = {
    "aten.clamp.default": Family(
        plain=_clamped("aten.clamp.default", None),
        static=static_clamp_cases,
        floats=float_clamp_cases,
        integers=integer_clamp_cases,
    ),
    "aten.clamp.Tensor": Family(integers=integer_clamp_tensor_cases),
    "aten.hardtanh.default": Family(
        plain=_clamped("aten.hardtanh.default", INFINITY),
        static=static_hardtanh_cases,
        floats=float_hardtanh_cases,
        integers=partial(integer_unary, IntegerUnary("aten.hardtanh.default", (-1.0, 1.0), more=HARDTANH)),
    ),
    RELU: Family(
        plain=_relu,
        static=static_relu_cases,
        floats=float_relu_cases,
        integers=partial(integer_unary, IntegerUnary(RELU, y=POSITIVE)),
    ),
}
