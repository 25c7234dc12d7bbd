"""Operators on one tensor, element by element: abs, neg, leaky_relu, relu, clamp, hardtanh, sigmoid, tanh, prelu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from conformance.cases.baseline import IMAGE, POSITIVE, PROBABILITY, TANH, prelu
from conformance.cases.make import (
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
from conformance.cases.shared import (
    BELOW,
    all_codes,
    behind_convolution,
    contexts,
    fills,
    fixed_output,
    lut_inputs,
    rescale_limit,
    rescaling_pairs,
    reshaped,
    unary_rescale,
)
from conformance.graph import Fill, Graph, Quant, Ref, Step

SHAPES = ((1,), (7,), (3, 5), (2, 3, 7), (1, 3, 5, 7), (2, 1, 4, 3), (2, 3, 2, 3, 2), (1, 1, 1, 1), (1, 2, 1, 3, 1, 2))
INFINITY = float("inf")


def shapes(u: Use, choices: Sequence[tuple[int, ...]] = SHAPES) -> list[Draft]:
    """Ranks 1 to 6, one channel, one element, sizes that are multiples of nothing."""
    return [accepted(f"shape_{'x'.join(map(str, shape))}", model(reshaped(u, shape))) for shape in choices]


def unlimited(u: Use, follow: Callable[[int], int]) -> list[Draft]:
    """A row without constraints but on its scales: every shape, context and usual rescale is accepted."""
    return [
        *shapes(u),
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


def abs_cases() -> list[Draft]:
    """aten.abs.default: no constraints."""
    u = use("aten.abs.default", IMAGE)
    return [*unlimited(u, lambda zero: min(zero, 0)), *unary_rescale(u)]


def neg_cases() -> list[Draft]:
    """aten.neg.default: no constraints."""
    u = use("aten.neg.default", IMAGE)
    return [*unlimited(u, lambda zero: -1 - zero), *_neg_rescale(u)]


def _neg_rescale(u: Use) -> list[Draft]:
    """A difference, so limited like a sum: the input scale must be below 2**19 output scales."""
    y = quant(2.0**-19)
    past, kept = requantised(u, quant(1.0), y), requantised(u, quant(BELOW), y)
    return rescale_limit(("ratio_2_to_the_19", past), ("ratio_below_2_to_the_19", kept))


def leaky_relu_cases() -> list[Draft]:
    """aten.leaky_relu.default: no constraints; any slope, also none, negative, above one."""
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
        *unlimited(variants["0.1"], int),
        *unary_rescale(variants["0.1"]),
        *slope_cases,
        accepted("slope_by_name", model(named)),
        *codes,
    ]


# ------------------------------------------------------------------------------------ bounded


def bounded(u: Use, ranges: str) -> list[Draft]:
    """What relu and the one-sided clamps share: alone, their channel count must be a multiple of 8.

    Alone there is no layout, so the channel is the last dimension; `ranges` names the bounds.
    """
    code = "alone_channels_multiple_of"
    limits = ((1, 3, 4, 8), (3, 9, 8), (2, 8), (8,), (1, 7, 4, 8))
    past = ((1, 8, 4, 7), (1, 8, 4, 9), (3, 9, 7), (2, 4), (7,), (8, 1), (1, 8, 8, 1))
    return [
        *(limit(code, f"{ranges}_alone_{sizes_of(s)}", model(reshaped(u, s))) for s in limits),
        inside(code, f"{ranges}_alone_channels_16", model(reshaped(u, (1, 3, 4, 16)))),
        *(outside(code, f"{ranges}_alone_{sizes_of(s)}", model(reshaped(u, s))) for s in past),
        inside(code, f"{ranges}_behind_abs_channels_7", model(reshaped(u, (1, 3, 4, 7)), behind_abs)),
        inside(code, f"{ranges}_before_abs_channels_7", model(reshaped(u, (1, 3, 4, 7)), None, then_abs)),
        inside(code, f"{ranges}_behind_conv_channels_5", model(reshaped(u, (1, 5, 4, 6)), behind_conv)),
    ]


def relu_cases() -> list[Draft]:
    """aten.relu.default: any shape, but see `bounded`."""
    u = use("aten.relu.default", IMAGE, y=POSITIVE)
    pairs = rescaling_pairs(1.0, lambda zero: min(zero, 0))
    pairs = list(dict.fromkeys([*pairs, *((x, Quant(y.scale, -128)) for x, y in pairs)]))
    return [
        *bounded(u, "relu"),
        *unary_rescale(u),
        *contexts(u),
        *behind_convolution(u),
        placed("twice_in_a_row", twice_in_a_row(replace(u, y=Q))),
        *all_codes(u, pairs),
        *fills(u),
    ]


ONE_SIDED = ((0, 6), (0, None))
TWO_SIDED = ((-1, 1), (0, 1))
FORBIDDEN: Sequence[tuple[Any, Any]] = (
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


def _fitting(low: Any, high: Any) -> Quant:
    """An output quantisation whose range is the bounds."""
    top = 6.2 if high is None or high == INFINITY else float(high)
    bottom = -6.2 if low is None or low == -INFINITY else float(low)
    scale = (top - bottom) / 255
    return quant(scale, max(-128, min(127, round(-128 - bottom / scale))))


def _bounds(op: str, low: Any, high: Any, shape: tuple[int, ...] = IMAGE) -> Use:
    return use(op, shape, low, high, y=_fitting(low, high))


def bounds_cases(op: str, unbounded: float | None) -> list[Draft]:
    """clamp and hardtanh: a list of permitted bounds, of which the last has no upper one (`unbounded`)."""
    allowed = [(-1, 1), (0, 1), (0, 6), (0, unbounded)]
    permitted = [limit("bounds", _bound_name(*b), model(_bounds(op, *b))) for b in allowed]
    floats = [(float(low), float(high)) for low, high in allowed if high is not None]
    spelled = [limit("bounds", f"{_bound_name(*b)}_as_floats", model(_bounds(op, *b))) for b in floats]
    refused = [outside("bounds", _bound_name(*b), model(_bounds(op, *b))) for b in FORBIDDEN]
    two_sided = [
        inside(
            "alone_channels_multiple_of", f"{_bound_name(*b)}_alone_channels_7", model(_bounds(op, *b, (1, 3, 4, 7)))
        )
        for b in TWO_SIDED
    ]
    one_sided = [d for b in allowed[2:] for d in bounded(_bounds(op, *b), _bound_name(*b))]
    behind = outside("bounds", "behind_conv", model(_bounds(op, *FORBIDDEN[0]), behind_conv))
    return [*permitted, *spelled, *refused, behind, *two_sided, *one_sided, *_bounds_numbers(op, allowed)]


def _bounds_numbers(op: str, allowed: Sequence[tuple[Any, Any]]) -> list[Draft]:
    """All codes at several quantisations: fitting the bounds, wider than they are, narrower."""
    drafts = []
    for low, high in allowed:
        fit = _fitting(low, high)
        outputs = (fit, quant(0.05, 3), quant(0.06, -128), quant(0.004, 0), quant(0.1, 100))
        pairs = [(x, y) for x in (quant(0.05, 3), quant(0.0625, -128)) for y in outputs]
        drafts += all_codes(_bounds(op, low, high), pairs, label=f"_{_bound_name(low, high)}")
    u = _bounds(op, 0, 6)
    return [*drafts, *unary_rescale(u), *contexts(u), *behind_convolution(u), *fills(u)]


def clamp_cases() -> list[Draft]:
    """aten.clamp.default: bounds from a list; an absent bound is None."""
    op = "aten.clamp.default"
    lower_only = use(op, IMAGE, 0, y=_fitting(0, None))
    by_name = use(op, IMAGE, min=0, max=6, y=_fitting(0, 6))
    minus_zero = use(op, IMAGE, -0.0, 6, y=_fitting(0, 6))
    absent = ((None, 6), (None, 1), (-1, None), (1, None), (0, INFINITY))
    return [
        *bounds_cases(op, None),
        limit("bounds", "upper_left_out", model(lower_only)),
        limit("bounds", "by_name", model(by_name)),
        limit("bounds", "minus_zero_to_6", model(minus_zero)),
        *(outside("bounds", _bound_name(*b), model(_bounds(op, *b))) for b in absent),
    ]


def hardtanh_cases() -> list[Draft]:
    """aten.hardtanh.default: bounds from a list; the default is (-1, 1), relu6 is (0, 6)."""
    op = "aten.hardtanh.default"
    default = use(op, IMAGE, y=_fitting(-1, 1))
    lower_only = use(op, IMAGE, 0, y=_fitting(0, 1))
    by_name = use(op, IMAGE, min_val=0.0, max_val=6.0, y=_fitting(0, 6))
    return [
        *bounds_cases(op, INFINITY),
        limit("bounds", "default", model(default)),
        limit("bounds", "upper_left_out", model(lower_only)),
        limit("bounds", "by_name", model(by_name)),
        outside("bounds", "minus_inf_to_inf", model(use(op, IMAGE, -INFINITY, INFINITY))),
        outside("bounds", "minus_inf_to_6", model(use(op, IMAGE, -INFINITY, 6.0))),
    ]


# ------------------------------------------------------------------------------------ fixed output


def fixed_cases(op: str, x: Quant, y: Quant) -> list[Draft]:
    """sigmoid and tanh: tables of 256 entries with a fixed output quantisation."""
    u = use(op, IMAGE, x=x, y=y)
    return [
        *shapes(u),
        *contexts(u),
        *behind_convolution(u),
        placed("behind_abs", model(u, behind_abs)),
        *fixed_output(u, y),
        *all_codes(u, [(q, y) for q in lut_inputs()]),
        *fills(u),
    ]


def sigmoid_cases() -> list[Draft]:
    """aten.sigmoid.default: output quantised with (1/256, -128)."""
    return fixed_cases("aten.sigmoid.default", Q, PROBABILITY)


def tanh_cases() -> list[Draft]:
    """aten.tanh.default: output quantised with (1/128, 0)."""
    return fixed_cases("aten.tanh.default", UNIT, TANH)


# ------------------------------------------------------------------------------------ prelu


def prelu_cases() -> list[Draft]:
    """aten.prelu.default: rank 4, channels a multiple of 8, at most 4096 positions, constant slopes."""
    u = prelu(IMAGE)
    ranks = [outside("rank", f"rank_{len(s)}", model(prelu(s))) for s in ((8, 8), (1, 8, 8), (1, 8, 2, 2, 8))]
    return [
        *ranks,
        limit("rank", "rank_4", model(u)),
        *_prelu_channels(),
        *_prelu_positions(),
        *_prelu_slopes(),
        *unary_rescale(u),
        *_steep_rescale(u),
        *contexts(u),
        *all_codes(_wide(prelu((1, 8, 4, 8)), 0.004), rescaling_pairs()),
        *all_codes(_wide(prelu((1, 8, 4, 8)), 0.02), rescaling_pairs(2.5)[:4], label="_steep"),
        *fills(u),
        *(valued(f"slopes_{name}", model(_slopes(u, Fill(name)))) for name in ("min", "max", "zero", "ramp")),
    ]


def _steep_rescale(u: Use) -> list[Draft]:
    """Code times slope, up to 2**14, shifted left by 17 bits, leaves 32 bits."""
    x, y = quant(1.0), quant(2.0**-16)
    past, kept = (_wide(requantised(u, x, y), scale) for scale in (1.0, BELOW))
    return rescale_limit(("slope_ratio_2_to_the_16", past), ("slope_ratio_below_2_to_the_16", kept))


def _wide(u: Use, scale: float) -> Use:
    return replace(u, values=(u.values[0], replace(u.values[1], quant=weight_quant(scale))))


def _slopes(u: Use, fill: Fill) -> Use:
    return replace(u, values=(u.values[0], replace(u.values[1], fill=fill)))


def _prelu_channels() -> list[Draft]:
    """The channel is dimension 1, where torch's slopes go, with or without a convolution in front."""
    code = "channels_multiple_of"
    return [
        *(limit(code, f"behind_conv_{c}", model(prelu((1, c, 4, 7)), behind_conv)) for c in (8, 16)),
        *(outside(code, f"behind_conv_{c}", model(prelu((1, c, 4, 7)), behind_conv)) for c in (7, 9, 4, 1)),
        limit(code, "alone_8", model(prelu((1, 8, 3, 8)))),
        *(outside(code, f"alone_{c}", model(prelu((1, c, 3, c)))) for c in (7, 9, 1)),
        limit(code, "alone_last_dimension_7", model(prelu((1, 8, 3, 7)))),
        outside(code, "alone_second_dimension_7", model(prelu((1, 7, 3, 8)))),
    ]


def _prelu_positions() -> list[Draft]:
    """Input size / channels: 4096 in, one more row or column out, batch included."""
    return [
        limit("positions", "behind_conv_64x64", model(prelu((1, 8, 64, 64)), behind_conv)),
        limit("positions", "behind_conv_1x4096", model(prelu((1, 8, 1, 4096)), behind_conv)),
        limit("positions", "behind_conv_4096x1", model(prelu((1, 8, 4096, 1)), behind_conv)),
        outside("positions", "behind_conv_64x65", model(prelu((1, 8, 64, 65)), behind_conv)),
        outside("positions", "behind_conv_65x64", model(prelu((1, 8, 65, 64)), behind_conv)),
        outside("positions", "behind_conv_1x4097", model(prelu((1, 8, 1, 4097)), behind_conv)),
        outside("positions", "behind_conv_4097x1", model(prelu((1, 8, 4097, 1)), behind_conv)),
        limit("positions", "alone_8x512x8", model(prelu((1, 8, 512, 8)))),
        outside("positions", "alone_8x513x8", model(prelu((1, 8, 513, 8)))),
        limit("positions", "alone_batch_2", model(prelu((2, 8, 256, 8)))),
        outside("positions", "alone_batch_2_one_more", model(prelu((2, 8, 257, 8)))),
    ]


def _prelu_slopes() -> list[Draft]:
    code = "static_weights"
    single = use("aten.prelu.default", IMAGE, Ref("alpha"), more=(constant("alpha", (1,), weight_quant(0.004)),))
    dynamic = use("aten.prelu.default", IMAGE, Ref("alpha"), more=(activation("alpha", (8,), quant(0.004, 0)),))
    shifted = use("aten.prelu.default", IMAGE, Ref("alpha"), more=(constant("alpha", (8,), quant(0.004, 1)),))
    return [
        limit(code, "one_slope_per_channel", model(prelu(IMAGE))),
        inside(code, "one_slope_for_all", model(single)),
        inside(code, "one_slope_for_all_behind_conv", model(single, behind_conv)),
        outside(code, "computed_slopes", model(dynamic)),
        outside(code, "slopes_zero_point_1", model(shifted)),
    ]
