"""Operators on one tensor, element by element: abs, neg, leaky_relu, relu, clamp, hardtanh, sigmoid, tanh, prelu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isqrt
from typing import Any

from npu_assay.conformance.cases import fusion
from npu_assay.conformance.cases.baseline import IMAGE, POSITIVE, PROBABILITY, TANH, prelu
from npu_assay.conformance.cases.limits import Limits, past
from npu_assay.conformance.cases.make import (
    UNIT,
    Draft,
    Q,
    Use,
    accepted,
    activation,
    behind_abs,
    behind_conv,
    constant,
    inside,
    limit,
    model,
    outside,
    placed,
    quant,
    requantised,
    sizes_of,
    then_abs,
    use,
    valued,
    weight_quant,
)
from npu_assay.conformance.cases.permitted import (
    INFINITY,
    Bounds,
    deepest,
    divisor,
    fitting,
    fixed_quant,
    image,
    most_positions,
    permitted_bounds,
    plain_bounds,
    wide,
)
from npu_assay.conformance.cases.shared import (
    BELOW,
    all_codes,
    behind_convolution,
    contexts,
    fills,
    fixed_output,
    lut_inputs,
    rank_limit,
    rescale_limit,
    rescaling_pairs,
    reshaped,
    unary_rescale,
)
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step, Value

SHAPES = ((1,), (7,), (3, 5), (2, 3, 7), (1, 3, 5, 7), (2, 1, 4, 3), (2, 3, 2, 3, 2), (1, 1, 1, 1), (1, 2, 1, 3, 1, 2))


def shapes(u: Use, limits: Limits) -> list[Draft]:
    """Ranks 1 to 6, one channel, one element, sizes that are multiples of nothing; then the largest rank."""
    choices = [shape for shape in SHAPES if len(shape) <= deepest(limits)]
    return [
        *(accepted(f"shape_{sizes_of(shape)}", model(reshaped(u, shape))) for shape in choices),
        *rank_limit(limits, lambda shape: reshaped(u, shape)),
    ]


def unlimited(u: Use, limits: Limits, follow: Callable[[int], int]) -> list[Draft]:
    """A row with limits on scales and rank only: every other shape, context and usual rescale is accepted."""
    return [
        *shapes(u, limits),
        *contexts(u),
        *behind_convolution(u),
        placed("behind_abs", model(u, behind_abs)),
        placed("twice_in_a_row", twice_in_a_row(u)),
        *all_codes(u, rescaling_pairs(1.0, follow)),
        *fills(u),
    ]


def twice_in_a_row(u: Use) -> Graph:
    """The operator on its own output, as one module called twice would be."""
    graph = model(u)
    again = Step("again", u.op, (Ref("subject"), *u.args[1:]), u.kwargs, u.y)
    return Graph(graph.values, (*graph.steps, again), (Ref("again"),))


def abs_cases(limits: Limits) -> list[Draft]:
    """aten.abs.default: scales and rank."""
    u = use("aten.abs.default", IMAGE)
    return [*unlimited(u, limits, lambda zero: min(zero, 0)), *unary_rescale(u)]


def neg_cases(limits: Limits) -> list[Draft]:
    """aten.neg.default: scales and rank."""
    u = use("aten.neg.default", IMAGE)
    return [*unlimited(u, limits, lambda zero: -1 - zero), *_neg_rescale(u)]


def _neg_rescale(u: Use) -> list[Draft]:
    """A difference, so limited like a sum: the input scale must be below 2**19 output scales."""
    y = quant(2.0**-19)
    past, kept = requantised(u, quant(1.0), y), requantised(u, quant(BELOW), y)
    return rescale_limit(("ratio_2_to_the_19", past), ("ratio_below_2_to_the_19", kept))


def leaky_relu_cases(limits: Limits) -> list[Draft]:
    """aten.leaky_relu.default: scales and rank; any slope, also none, negative, above one."""
    slopes = (("default", ()), ("0.1", (0.1,)), ("0", (0.0,)), ("1", (1,)), ("minus_0.5", (-0.5,)), ("1.5", (1.5,)))
    variants = {name: use("aten.leaky_relu.default", IMAGE, *rest) for name, rest in slopes}
    named = use("aten.leaky_relu.default", IMAGE, negative_slope=0.25)
    slope_cases = [accepted(f"slope_{name}", model(u)) for name, u in variants.items()]
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
        accepted("slope_by_name", model(named)),
        *codes,
    ]


# ------------------------------------------------------------------------------------ bounded


ALONE = "alone_channels_multiple_of"


def bounded(u: Use, ranges: str, m: int) -> list[Draft]:
    """What relu and the one-sided clamps share: alone, their channel count must be a multiple of `m`.

    Alone there is no layout, so the channel is the last dimension; `ranges` names the bounds.
    """
    fits = ((1, 3, 4, m), (3, 9, m), (2, m), (m,), (1, 7, 4, m))
    less, more = m - 1, m + 1
    beyond = ((1, m, 4, less), (1, m, 4, more), (3, 9, less), (2, m // 2), (less,), (m, 1), (1, m, m, 1))
    return [
        *(limit(ALONE, f"{ranges}_alone_{sizes_of(s)}", model(reshaped(u, s))) for s in fits),
        inside(ALONE, f"{ranges}_alone_channels_{2 * m}", model(reshaped(u, (1, 3, 4, 2 * m)))),
        *(outside(ALONE, f"{ranges}_alone_{sizes_of(s)}", model(reshaped(u, s))) for s in dict.fromkeys(beyond)),
        inside(ALONE, f"{ranges}_behind_abs_channels_{less}", model(reshaped(u, (1, 3, 4, less)), behind_abs)),
        inside(ALONE, f"{ranges}_before_abs_channels_{less}", model(reshaped(u, (1, 3, 4, less)), None, then_abs)),
        inside(ALONE, f"{ranges}_behind_conv_channels_5", model(reshaped(u, (1, 5, 4, 6)), behind_conv)),
    ]


def relu_cases(limits: Limits) -> list[Draft]:
    """aten.relu.default: any shape, but see `bounded`."""
    m = limits.multiple(ALONE)
    u = use("aten.relu.default", image(m), y=POSITIVE)
    pairs = rescaling_pairs(1.0, lambda zero: min(zero, 0))
    pairs = list(dict.fromkeys([*pairs, *((x, Quant(y.scale, -128)) for x, y in pairs)]))
    return [
        *bounded(u, "relu", m),
        *rank_limit(limits, lambda shape: reshaped(u, shape), m),
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


def _bounds(op: str, bounds: Bounds, shape: tuple[int, ...]) -> Use:
    return use(op, shape, *bounds, y=fitting(*bounds))


def bounds_cases(op: str, limits: Limits, unbounded: float | None) -> list[Draft]:
    """clamp and hardtanh: a list of permitted bounds. `unbounded` is how the operator spells an absent one."""
    permitted, m = permitted_bounds(limits, unbounded), limits.multiple(ALONE)
    refused = [bounds for bounds in FORBIDDEN if bounds not in permitted]
    spelled = [(float(low), float(high)) for low, high in permitted if low is not None and high is not None]

    def clamped(bounds: Bounds, shape: tuple[int, ...] | None = None) -> Use:
        return _bounds(op, bounds, image(m) if shape is None else shape)

    free = [bounds for bounds in TWO_SIDED if bounds in permitted]
    narrow = f"alone_channels_{m - 1}"
    return [
        *(limit("bounds", _bound_name(*b), model(clamped(b))) for b in permitted),
        *(limit("bounds", f"{_bound_name(*b)}_as_floats", model(clamped(b))) for b in spelled),
        *(outside("bounds", _bound_name(*b), model(clamped(b))) for b in refused),
        *(outside("bounds", "behind_conv", model(clamped(b), behind_conv)) for b in refused[:1]),
        *(inside(ALONE, f"{_bound_name(*b)}_{narrow}", model(clamped(b, (1, 3, 4, m - 1)))) for b in free),
        *(d for b in permitted if b in ONE_SIDED for d in bounded(clamped(b), _bound_name(*b), m)),
        *_bounds_numbers(clamped, permitted, m),
        *rank_limit(limits, lambda shape: clamped(plain_bounds(permitted), shape), m),
    ]


def _bounds_numbers(clamped: Callable[[Bounds], Use], permitted: Sequence[Bounds], m: int) -> list[Draft]:
    """All codes at several quantisations: fitting the bounds, wider than they are, narrower."""
    drafts = []
    for bounds in permitted:
        outputs = (fitting(*bounds), quant(0.05, 3), quant(0.06, -128), quant(0.004, 0), quant(0.1, 100))
        pairs = [(x, y) for x in (quant(0.05, 3), quant(0.0625, -128)) for y in dict.fromkeys(outputs)]
        drafts += all_codes(clamped(bounds), pairs, label=f"_{_bound_name(*bounds)}", multiple=m)
    u = clamped(plain_bounds(tuple(permitted)))
    return [*drafts, *unary_rescale(u), *contexts(u), *behind_convolution(u), *fills(u)]


def clamp_cases(limits: Limits) -> list[Draft]:
    """aten.clamp.default: bounds from a list; an absent bound is None."""
    op = "aten.clamp.default"
    permitted, shape = permitted_bounds(limits, None), image(limits.multiple(ALONE))
    spelled: Sequence[tuple[str, Use, Bounds]] = (
        ("upper_left_out", use(op, shape, 0, y=fitting(0, None)), (0, None)),
        ("by_name", use(op, shape, min=0, max=6, y=fitting(0, 6)), (0, 6)),
        ("minus_zero_to_6", use(op, shape, -0.0, 6, y=fitting(0, 6)), (0, 6)),
    )
    absent: Sequence[Bounds] = ((None, 6), (None, 1), (-1, None), (1, None), (0, None), (0, INFINITY))
    return [
        *bounds_cases(op, limits, None),
        *_spelled(spelled, permitted),
        *(
            outside("bounds", _bound_name(*b), model(use(op, shape, *b, y=fitting(*b))))
            for b in absent
            if b not in permitted
        ),
    ]


def _spelled(uses: Sequence[tuple[str, Use, Bounds]], permitted: Sequence[Bounds]) -> list[Draft]:
    """Uses whose bounds are spelled in another way."""
    return [(limit if bounds in permitted else outside)("bounds", name, model(u)) for name, u, bounds in uses]


def hardtanh_cases(limits: Limits) -> list[Draft]:
    """aten.hardtanh.default: bounds from a list; the default is (-1, 1), relu6 is (0, 6)."""
    op = "aten.hardtanh.default"
    permitted, shape = permitted_bounds(limits, INFINITY), image(limits.multiple(ALONE))
    spelled: Sequence[tuple[str, Use, Bounds]] = (
        ("default", use(op, shape, y=fitting(-1, 1)), (-1, 1)),
        ("upper_left_out", use(op, shape, 0, y=fitting(0, 1)), (0, 1)),
        ("by_name", use(op, shape, min_val=0.0, max_val=6.0, y=fitting(0, 6)), (0, 6)),
        ("minus_inf_to_inf", use(op, shape, -INFINITY, INFINITY), (-INFINITY, INFINITY)),
        ("minus_inf_to_6", use(op, shape, -INFINITY, 6.0), (-INFINITY, 6)),
    )
    one_sided = [] if (0, INFINITY) in permitted else [("0_to_inf", use(op, shape, 0, INFINITY), (0, INFINITY))]
    return [*bounds_cases(op, limits, INFINITY), *_spelled([*spelled, *one_sided], permitted)]


# ------------------------------------------------------------------------------------ fixed output


def fixed_cases(op: str, limits: Limits, x: Quant, y: Quant) -> list[Draft]:
    """sigmoid and tanh: tables of 256 entries with a fixed output quantisation."""
    u = use(op, IMAGE, x=x, y=y)
    return [
        *shapes(u, limits),
        *contexts(u),
        *behind_convolution(u),
        placed("behind_abs", model(u, behind_abs)),
        *fixed_output(u, y),
        *fusion.activations(u),
        *all_codes(u, [(q, y) for q in lut_inputs()]),
        *fills(u),
    ]


def sigmoid_cases(limits: Limits) -> list[Draft]:
    """aten.sigmoid.default: output quantised with (1/256, -128)."""
    return fixed_cases("aten.sigmoid.default", limits, Q, fixed_quant(limits, PROBABILITY))


def tanh_cases(limits: Limits) -> list[Draft]:
    """aten.tanh.default: output quantised with (1/128, 0)."""
    return fixed_cases("aten.tanh.default", limits, UNIT, fixed_quant(limits, TANH))


# ------------------------------------------------------------------------------------ prelu


def prelu_cases(limits: Limits) -> list[Draft]:
    """aten.prelu.default: rank 4, channels a multiple of 8, at most 4096 positions, constant slopes."""
    limits.fixed("rank", 4)
    m = limits.multiple("channels_multiple_of")
    shape, every = image(m), prelu(wide(m))
    u = prelu(shape)
    ranks = [outside("rank", f"rank_{len(s)}", model(prelu(s))) for s in ((m, m), (1, m, 8), (1, m, 2, 2, 8))]
    return [
        *ranks,
        limit("rank", "rank_4", model(u)),
        *_prelu_channels(m),
        *_prelu_positions(limits, m),
        *_prelu_slopes(shape),
        *unary_rescale(u),
        *_steep_rescale(u),
        *contexts(u),
        *all_codes(_wide(every, 0.004), rescaling_pairs(), multiple=m),
        *all_codes(_wide(every, 0.02), rescaling_pairs(2.5)[:4], label="_steep", multiple=m),
        *fills(u),
        *(valued(f"slopes_{name}", model(_slopes(u, Fill(name)))) for name in ("min", "max", "zero", "ramp")),
    ]


def _steep_rescale(u: Use) -> list[Draft]:
    """Code times slope, up to 2**14, shifted left by 17 bits, leaves 32 bits."""
    x, y = quant(1.0), quant(2.0**-16)
    beyond, kept = (_wide(requantised(u, x, y), scale) for scale in (1.0, BELOW))
    return rescale_limit(("slope_ratio_2_to_the_16", beyond), ("slope_ratio_below_2_to_the_16", kept))


def _wide(u: Use, scale: float) -> Use:
    return replace(u, values=(u.values[0], replace(u.values[1], quant=weight_quant(scale))))


def _slopes(u: Use, fill: Fill) -> Use:
    return replace(u, values=(u.values[0], replace(u.values[1], fill=fill)))


def _prelu_channels(m: int) -> list[Draft]:
    """The channel is dimension 1, where torch's slopes go, with or without a convolution in front."""
    code, less = "channels_multiple_of", m - 1
    behind, alone = past(m, less, m + 1, m // 2, 1), past(m, less, m + 1, 1)
    return [
        *(limit(code, f"behind_conv_{c}", model(prelu((1, c, 4, 7)), behind_conv)) for c in (m, 2 * m)),
        *(outside(code, f"behind_conv_{c}", model(prelu((1, c, 4, 7)), behind_conv)) for c in behind),
        limit(code, f"alone_{m}", model(prelu((1, m, 3, m)))),
        *(outside(code, f"alone_{c}", model(prelu((1, c, 3, c)))) for c in alone),
        limit(code, f"alone_last_dimension_{less}", model(prelu((1, m, 3, less)))),
        outside(code, f"alone_second_dimension_{less}", model(prelu((1, less, 3, m)))),
    ]


def _prelu_positions(limits: Limits, m: int) -> list[Draft]:
    """Input size / channels: 4096 in, one more row or column out, batch included."""
    most = most_positions(limits, m)
    side = divisor(most, isqrt(most))
    other, column = most // side, divisor(most, 8)
    half = divisor(most // 2, 8)
    rows, pairs, code = most // column, most // 2 // half, "positions"

    def behind(height: int, width: int) -> Graph:
        return model(prelu((1, m, height, width)), behind_conv)

    def alone(batch: int, height: int, width: int) -> Graph:
        return model(prelu((batch, m, height, width)))

    fits = dict.fromkeys(((side, other), (1, most), (most, 1)))
    beyond = dict.fromkeys(((side, other + 1), (other + 1, side), (1, most + 1), (most + 1, 1)))
    return [
        *(limit(code, f"behind_conv_{h}x{w}", behind(h, w)) for h, w in fits),
        *(outside(code, f"behind_conv_{h}x{w}", behind(h, w)) for h, w in beyond),
        limit(code, f"alone_{m}x{rows}x{column}", alone(1, rows, column)),
        outside(code, f"alone_{m}x{rows + 1}x{column}", alone(1, rows + 1, column)),
        limit(code, "alone_batch_2", alone(2, pairs, half)),
        outside(code, "alone_batch_2_one_more", alone(2, pairs + 1, half)),
    ]


def _prelu_slopes(shape: tuple[int, ...]) -> list[Draft]:
    code, m = "static_weights", shape[1]

    def with_slopes(slopes: Value) -> Use:
        return use("aten.prelu.default", shape, Ref("alpha"), more=(slopes,))

    single = with_slopes(constant("alpha", (1,), weight_quant(0.004)))
    return [
        limit(code, "one_slope_per_channel", model(prelu(shape))),
        inside(code, "one_slope_for_all", model(single)),
        inside(code, "one_slope_for_all_behind_conv", model(single, behind_conv)),
        outside(code, "computed_slopes", model(with_slopes(activation("alpha", (m,), quant(0.004, 0))))),
        outside(code, "slopes_zero_point_1", model(with_slopes(constant("alpha", (m,), quant(0.004, 1))))),
    ]
