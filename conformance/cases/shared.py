"""Cases that many rows share: contexts, quantisation parameters, and telling numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    SUBJECT,
    Draft,
    Front,
    Q,
    Use,
    X,
    bare,
    behind_conv,
    f32,
    filled,
    inside,
    limit,
    model,
    outside,
    placed,
    quant,
    requantised,
    step,
    then_abs,
    then_abs_and_returned,
    then_two,
    valued,
)
from npu_assay.conformance.cases.permitted import deepest, inner_ranks, of_rank, wide
from npu_assay.conformance.graph import ChannelsLast, Fill, Graph, Quant, Ref, Step, Value, renamed

ZERO_POINTS = (-128, 0, 127)
# Every code once, neighbours far apart.
SCATTERED = Fill("list", values=tuple(float((37 * index) % 256 - 128) for index in range(256)))
FILLS: Sequence[tuple[str, Fill]] = (
    ("all_min", Fill("min")),
    ("all_max", Fill("max")),
    ("alternating", Fill("alternating")),
    ("ramp", Fill("ramp")),
)
RESCALED = (("halved", quant(0.025, 3)), ("doubled", quant(0.1, -20)), ("shifted", quant(0.05, -128)))
"""Quantisations of a result beside an operand's of scale 0.05 and zero point 3: finer, coarser, shifted."""


# ------------------------------------------------------------------------------------ contexts


def contexts(u: Use, front: Front = bare) -> list[Draft]:
    """Where the operator stands: consumers, a second use, neighbours that are not quantised."""
    return [*surroundings(u, front), *unquantised(u)]


def surroundings(u: Use, front: Front = bare) -> list[Draft]:
    """Contexts that leave the verdict alone."""
    return [
        placed("before_abs", model(u, front, then_abs)),
        placed("two_consumers", model(u, front, then_two)),
        placed("also_a_model_output", model(u, front, then_abs_and_returned)),
        placed("input_shared_with_abs", input_shared(u, front)),
        placed("used_twice", used_twice(u, front)),
        *more_contexts(u, front),
    ]


def input_shared(u: Use, front: Front = bare) -> Graph:
    """The operator's operand also goes into an abs of its own."""
    graph = model(u, front)
    operand = front(u)[2]
    other = Step("other", "aten.abs.default", (operand,), (), u.values[0].quant)
    return Graph(graph.values, (*graph.steps, other), (*graph.outputs, Ref("other")))


def used_twice(u: Use, front: Front = bare) -> Graph:
    """One module called on two inputs: constants are shared, `before` computes for the first only."""
    x = replace(u.values[0], name="x_again", fill=replace(u.values[0].fill, seed=99))
    return _with_again(u, front, (x,), u)


def _with_again(u: Use, front: Front, more: tuple[Value, ...], again: Use) -> Graph:
    """The model, and the operator once more on `x_again`; `more` are the values that the model lacks."""
    graph, operand = model(u, front), Ref("x_again")
    steps = graph.steps
    if front is not bare:
        steps = (*steps, Step("before_again", "aten.abs.default", (operand,), (), more[0].quant))
        operand = Ref("before_again")
    second = step(again, operand, "again")
    return Graph((*graph.values, *more), (*steps, second), (*graph.outputs, Ref("again")))


TWO_SCALES = "used_twice_at_two_scales"
FIXED = frozenset({"aten._softmax.default", "aten.sigmoid.default", "aten.tanh.default"})
"""Operators whose results have the quantisation that their range asks for, whatever the operand has."""


def used_apart(u: Use, front: Front = bare) -> Graph | None:
    """One module called on two inputs, of which the second has twice the scale; None where there is no one scale.

    Weights are shared; a bias in steps of the accumulator is another one for each use, a real one is shared as well.
    """
    x, y = u.values[0], u.y
    if x.constant or x.quant is None or y is None or isinstance(x.quant.scale, tuple):
        return None
    twice = replace(u, values=tuple(_again(v) for v in u.values), y=y if u.op in FIXED else _doubled(y))
    biases = {v.name: f"{v.name}_again" for v in u.values if _is_bias(v)}
    new = tuple(value for value in twice.values if value.name not in {v.name for v in u.values})
    return _with_again(u, front, new, replace(twice, args=renamed(twice.args, biases)))


def _again(value: Value) -> Value:
    """The first input and an integer bias at twice the scale; everything else as it is."""
    if value.name != X.name and not _is_bias(value):
        return value
    fill = value.fill if value.constant else replace(value.fill, seed=99)
    return replace(value, name=f"{value.name}_again", quant=_doubled(value.quant), fill=fill)


def _is_bias(value: Value) -> bool:
    return value.constant and value.quant is not None and value.quant.dtype == "int32"


def _doubled(quant: Quant | None) -> Quant | None:
    if quant is None:
        return None
    scale = tuple(2 * s for s in quant.scale) if isinstance(quant.scale, tuple) else 2 * quant.scale
    return replace(quant, scale=scale)


OTHER = quant(0.1, 5)


def constant_shared(u: Use, front: Front = bare) -> Graph | None:
    """A constant is also added to an input of its own; None where none is of floats, or of int8 with one scale."""
    known = (v for v in u.values if v.constant and v.shape and v.dtype.startswith("float"))
    shared = next((v for v in known if v.quant is None or (v.quant.dtype == "int8" and v.quant.axis is None)), None)
    if shared is None:
        return None
    graph, quantised = model(u, front), shared.quant is not None
    x = Value("other_x", shared.shape, Q if quantised else None, Fill(seed=7), dtype=shared.dtype)
    total = Step("other", "aten.add.Tensor", (Ref(x.name), Ref(shared.name)), (), OTHER if quantised else None)
    return Graph((*graph.values, x), (*graph.steps, total), (*graph.outputs, Ref("other")))


VIEWED = frozenset({"aten.as_strided_copy.default", "aten.view_copy.default"})
"""Operators that torch does not compute of images in the other layout, or that read them as they lie."""


def channels_last(u: Use, front: Front = bare) -> Graph | None:
    """The model's images in the other layout; None where `x` is none, or another size of it is open."""
    return None if u.op in VIEWED else in_the_other_layout(model(u, front), u.values[0])


def in_the_other_layout(graph: Graph, x: Value) -> Graph | None:
    """The graph with channels that lie next to each other in its operand; None where that is no image."""
    if len(x.shape) != 4 or x.constant or x.dynamic:
        return None
    images = (ChannelsLast(**vars(v)) if v.name == x.name else v for v in graph.values)
    return replace(graph, values=tuple(images))


def more_contexts(u: Use, front: Front = bare) -> list[Draft]:
    """Where programs of real models stand that plain ones do not."""
    found = {
        TWO_SCALES: used_apart(u, front),
        "constant_shared_with_add": constant_shared(u, front),
        "channels_last": channels_last(u, front),
    }
    return [placed(name, graph) for name, graph in found.items() if graph is not None]


def unquantised(u: Use) -> list[Draft]:
    """The operator does not stand between dequantize and quantize: never delegated."""
    floats = tuple(replace(value, quant=None) for value in u.values)
    variants = (("float_model", model(replace(u, values=floats, y=None))), *float_neighbours(u))
    kept = limit("quantized", "quantised_on_both_sides", model(u, None, then_abs))
    return [kept, *(outside("quantized", variant, graph) for variant, graph in variants)]


def float_neighbours(u: Use) -> tuple[tuple[str, Graph], ...]:
    """A quantised operator with a float input or a float output, alone and next to an abs."""
    float_input = replace(u, values=(replace(u.values[0], quant=None), *u.values[1:]))
    float_output, returned = replace(u, y=None), model(u).outputs
    between = Step("between", "aten.abs.default", (X,), (), None)
    after = Step("after", "aten.abs.default", (Ref(SUBJECT),), (), u.y)
    return (
        ("float_input", model(float_input)),
        ("float_output", model(float_output)),
        ("behind_unquantised_abs", Graph(u.values, (between, step(u, Ref("between"))), returned)),
        ("before_unquantised_abs", Graph(u.values, (step(float_output), after), (Ref("after"), *returned[1:]))),
    )


def sizes(u: Use, front: Front = bare) -> list[Draft]:
    """Sizes are at least 1: an empty tensor is never delegated."""
    x = u.values[0]
    lead = x.shape[0]
    values = tuple(v if v.constant or v.shape[0] != lead else replace(v, shape=(0, *v.shape[1:])) for v in u.values)
    known = limit("static_shape", "known_sizes", model(u, front))
    if u.op == "aten.upsample_nearest2d.vec":  # torch cannot tell the shape of an empty one (see coverage)
        return [known]
    return [known, outside("static_shape", "no_elements", model(replace(u, values=values), front))]


def behind_convolution(u: Use, channels: Iterable[int] = (8, 5, 1), size: tuple[int, ...] = (4, 6)) -> list[Draft]:
    """Elementwise behind a convolution, where values are channels-first: any channel count."""
    return [
        placed(f"behind_conv_channels_{count}", model(reshaped(u, (1, count, *size)), behind_conv))
        for count in channels
    ]


def reshaped(u: Use, shape: tuple[int, ...]) -> Use:
    """The same use with another shape of `x`."""
    return replace(u, values=(replace(u.values[0], shape=shape), *u.values[1:]))


def rank_limit(
    limits: Limits, with_shape: Callable[[tuple[int, ...]], Use], last: int = 8, front: Front = bare
) -> list[Draft]:
    """Ranks up to the row's `max_rank`; `last` is the last dimension's size."""
    most = deepest(limits)
    past = [outside("max_rank", f"rank_{n}", model(with_shape(of_rank(n, last)), front)) for n in (most + 1, most + 2)]
    inner = [inside("max_rank", f"rank_{n}", model(with_shape(of_rank(n, last)), front)) for n in inner_ranks(most)]
    return [limit("max_rank", f"rank_{most}", model(with_shape(of_rank(most, last)), front)), *past, *inner]


# ------------------------------------------------------------------------------------ same parameters


def same_qparams(u: Use, front: Front = bare) -> list[Draft]:
    """Equal parameters at several zero points, then scale and zero point off by a little."""
    x = u.values[0].quant or Q
    assert isinstance(x.scale, float)
    equal = [
        limit("same_qparams", f"both_zero_point_{zero}", model(requantised(u, q, q), front))
        for zero in ZERO_POINTS
        for q in [quant(0.03, zero)]
    ]
    others = (
        ("scale_one_float32_step_up", Quant(f32(x.scale * (1 + 2**-23)), x.zero_point)),
        ("scale_doubled", quant(2 * x.scale, x.zero_point)),
        ("zero_point_one_up", Quant(x.scale, x.zero_point + 1)),
        ("scale_and_zero_point", quant(1.5 * x.scale, x.zero_point - 7)),
    )
    return equal + [outside("same_qparams", variant, model(replace(u, y=y), front)) for variant, y in others]


def fixed_output(u: Use, y: Quant, front: Front = bare) -> list[Draft]:
    """An output whose quantisation the operator fixes to `y`."""
    assert isinstance(y.scale, float)
    others = (
        ("scale_doubled", Quant(2 * y.scale, y.zero_point)),
        ("scale_halved", Quant(y.scale / 2, y.zero_point)),
        ("scale_one_percent_up", quant(1.01 * y.scale, y.zero_point)),
        ("zero_point_one_up", Quant(y.scale, y.zero_point + (1 if y.zero_point < 127 else -1))),
        ("scale_of_1_over_255", quant(1 / 255, y.zero_point)),
    )
    kept = limit("output_qparams", "as_fixed", model(replace(u, y=y), front))
    past = [(variant, o) for variant, o in others if o != y]
    return [kept, *(outside("output_qparams", variant, model(replace(u, y=o), front)) for variant, o in past)]


# ------------------------------------------------------------------------------------ rescale

BELOW = 1 - 2.0**-20  # just below a power of two


def rescale_limit(past: tuple[str, Use], kept: tuple[str, Use]) -> list[Draft]:
    """A scale ratio at which the largest accumulator just fits 32 bits, and the next power of two."""
    return [outside("rescale", past[0], model(past[1])), limit("rescale", kept[0], model(kept[1]))]


def unary_rescale(u: Use) -> list[Draft]:
    """Codes up to 128 from the zero point, shifted left by 24 bits, leave 32 bits; by 23 they do not."""
    y = quant(2.0**-23)
    past, kept = requantised(u, quant(1.0), y), requantised(u, quant(BELOW), y)
    return rescale_limit(("ratio_2_to_the_23", past), ("ratio_below_2_to_the_23", kept))


# ------------------------------------------------------------------------------------ numbers


def all_codes(
    u: Use, pairs: Iterable[tuple[Quant, Quant]], front: Front = bare, label: str = "", multiple: int = 8
) -> list[Draft]:
    """Every one of the 256 codes, for pairs of input and output quantisation; channels in multiples of `multiple`."""
    every = filled(reshaped(u, wide(multiple)), SCATTERED)
    return [
        valued(f"all_codes{label}_{named(x)}_to_{named(y)}", model(requantised(every, x, y), front)) for x, y in pairs
    ]


def named(q: Quant) -> str:
    """A quantisation in a case id: `s0.05z3`."""
    assert isinstance(q.scale, float)
    return f"s{q.scale:.4g}z{q.zero_point}"


def rescaling_pairs(gain: float = 1.0, follow: Callable[[int], int] = int) -> list[tuple[Quant, Quant]]:
    """Quantisations that try a rescale: zero points at the ends, ties, saturation, extreme scales.

    `gain` is the operator's largest |output| / |input|, and `follow` the output zero point that
    fits an input zero point; together they make "fits" mean what it says.
    """
    fits = [(quant(0.05, zero), quant(0.06 * gain, follow(zero))) for zero in ZERO_POINTS]
    ends = [(quant(0.05, zero), quant(0.11 * gain, 0)) for zero in (-128, 127)]
    moved = [(quant(0.05, 0), quant(0.11 * gain, zero)) for zero in (-128, -90, 90)]
    ties = [(quant(0.0625, z), quant(ratio * 0.0625 * gain, follow(z))) for z in (0, -5) for ratio in (2, 4)]
    saturates = [(quant(0.05, 3), quant(0.01 * gain, 0)), (quant(0.05, -100), quant(0.02 * gain, -60))]
    extreme = [(quant(2.0**-10, 7), quant(2.0**-10 * gain, follow(7))), (quant(4.0, 7), quant(5.0 * gain, follow(7)))]
    return [*fits, *ends, *moved, *ties, *saturates, *extreme]


def lut_inputs(scales: Sequence[float] = (2.0**-9, 0.02, 0.0625, 0.5)) -> list[Quant]:
    """Input quantisations for operators that are tables of 256 entries."""
    return [quant(scale, zero) for scale in scales for zero in ZERO_POINTS]


def fills(u: Use, front: Front = bare, label: str = "") -> list[Draft]:
    """Uniform extremes, alternating extremes, and a ramp, which shows exchanged axes."""
    return [valued(f"{name}{label}", model(filled(u, fill), front)) for name, fill in FILLS]


def one_hots(u: Use, front: Front = bare, label: str = "", spots: int = 4) -> list[Draft]:
    """A single nonzero element at the corners and in between: shows wrong axes and padding."""
    count = 1
    for size in u.values[0].shape:
        count *= size
    indices = sorted({round(spot * (count - 1) / max(1, spots - 1)) for spot in range(spots)})
    return [valued(f"one_hot_at_{i}{label}", model(filled(u, Fill("one_hot", index=i)), front)) for i in indices]


def zero_points(u: Use, front: Front = bare, label: str = "") -> list[Draft]:
    """Input and output share their parameters; zero points at both ends and in the middle."""
    return [
        valued(f"zero_point_{zero}{label}", model(requantised(u, q, q), front))
        for zero in ZERO_POINTS
        for q in [quant(0.05, zero)]
    ]


def movement(u: Use, front: Front = bare, label: str = "") -> list[Draft]:
    """Numbers for an operator that moves or pools values without rescaling them."""
    return [*fills(u, front, label), *one_hots(u, front, label), *zero_points(u, front, label)]


def reordered(u: Use, first: Value) -> Use:
    """The same use with another `x`: shape, quantisation and numbers."""
    return replace(u, values=(replace(first, name="x"), *u.values[1:]))
