"""Operators that move values: cat, constant_pad_nd, permute_copy, slice_copy and the splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from conformance.cases.baseline import cat
from conformance.cases.make import (
    SUBJECT,
    Draft,
    Q,
    Use,
    X,
    accepted,
    activation,
    behind_abs,
    behind_conv,
    bias_quant,
    f32,
    inside,
    limit,
    model,
    outside,
    placed,
    pointwise,
    quant,
    silent,
    step,
    use,
)
from conformance.cases.shared import ZERO_POINTS, contexts, fills, movement, one_hots, same_qparams
from conformance.graph import Graph, Quant, Ref, Step, Value

PAD = "aten.constant_pad_nd.default"
PERMUTE = "aten.permute_copy.default"
SLICE = "aten.slice_copy.Tensor"
END = 2**63 - 1  # "to the end", as torch exports x[:, 2:]
Shape = tuple[int, ...]


def _name(value: object) -> str:
    text = "_".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text.replace("-", "minus_")


def _sizes(*shapes: Shape) -> str:
    return "_and_".join("x".join(map(str, shape)) for shape in shapes)


# ------------------------------------------------------------------------------------ cat


def cat_cases() -> list[Draft]:
    """aten.cat.default."""
    u = cat((2, 3, 8), (2, 5, 8), dim=1)
    return [
        *_cat_inputs(u),
        *_cat_channels(),
        *_cat_dims(),
        *_cat_qparams(u),
        *contexts(u),
        placed("three_inputs", model(cat((2, 1, 8), (2, 4, 8), (2, 2, 8), dim=1))),
        placed("five_inputs", model(cat(*[(3, 8)] * 5))),
        accepted("default_dim", _computed(replace(cat((8, 8), (3, 8)), args=((X, Ref("x1")),)))),
        *(
            d
            for n, v in (("", cat((2, 8), (2, 16))), ("_dim_1", u))
            for d in [*fills(v, label=n), *one_hots(v, label=n)]
        ),
    ]


def _computed(u: Use, count: int | None = None) -> Graph:
    """The first `count` inputs (all) are computed by an abs each, inside the partition."""
    names = [value.name for value in u.values][:count]
    steps = tuple(Step(f"abs_{n}", "aten.abs.default", (Ref(n),), (), u.y) for n in names)
    operands = tuple(Ref(f"abs_{v.name}") if v.name in names else Ref(v.name) for v in u.values)
    subject = Step(SUBJECT, u.op, (operands, *u.args[1:]), u.kwargs, u.y)
    return Graph(u.values, (*steps, subject), (Ref(SUBJECT),))


def _cat_inputs(u: Use) -> list[Draft]:
    """At least two different inputs."""
    single = replace(u, values=u.values[:1], args=((X,), 1))
    twice = replace(u, values=u.values[:1], args=((X, X), 1))
    return [
        limit("min_inputs", "two", model(u)),
        outside("min_inputs", "one", model(single)),
        outside("min_inputs", "one_behind_abs", model(single, behind_abs)),
        outside("min_inputs", "same_input_twice", model(twice)),
        outside("min_inputs", "same_input_twice_behind_abs", model(twice, behind_abs)),
    ]


def _cat_channels() -> list[Draft]:
    """Channels of every input and of the output; without a layout that is the last dimension."""
    code = "channels_multiple_of"
    fits = (((2, 8), (2, 8), -1), ((2, 8), (2, 16), -1), ((2, 3, 8), (2, 5, 8), 1), ((2, 3, 8), (2, 5, 8), -2))
    past = (
        ((2, 8), (2, 7), -1),
        ((2, 9), (2, 8), 1),
        ((2, 7), (2, 9), -1),
        ((2, 4), (2, 12), -1),
        ((2, 3, 7), (2, 5, 7), 1),
        ((2, 8, 1), (2, 16, 1), 1),
    )
    return [
        *(limit(code, f"{_sizes(a, b)}_dim_{_name(d)}", model(cat(a, b, dim=d))) for a, b, d in fits),
        *(outside(code, f"{_sizes(a, b)}_dim_{_name(d)}", model(cat(a, b, dim=d))) for a, b, d in past),
        limit(code, "channels_first_8_and_16", _behind_two_convs(8, 16, 1)),
        limit(code, "channels_first_8_and_8_rows", _behind_two_convs(8, 8, 2)),
        outside(code, "channels_first_8_and_7", _behind_two_convs(8, 7, 1)),
        outside(code, "channels_first_7_rows", _behind_two_convs(7, 7, 2)),
        outside(code, "7_and_7_of_equal_shape", model(cat((2, 7), (2, 7)))),
        outside(code, "4_and_4_of_equal_shape", model(cat((2, 4), (2, 4)))),
        outside(code, "channels_first_7_and_7", _behind_two_convs(7, 7, 1)),
    ]


def _behind_two_convs(first: int, other: int, dim: int) -> Graph:
    """Both inputs come from convolutions over the same 4x6 image, so the channel is dimension 1."""
    values, before = pointwise((1, 4, 4, 6), first, Q)
    more, second = pointwise((1, 4, 4, 6), other, Q)
    renamed = {"before_w": "second_w", "before_b": "second_b"}
    constants = tuple(replace(v, name=renamed[v.name]) for v in more[1:])
    args = tuple(Ref(renamed.get(a.name, a.name)) if isinstance(a, Ref) else a for a in second.args)
    subject = Step(SUBJECT, "aten.cat.default", ((Ref("before"), Ref("second")), dim), (), Q)
    steps = (before, replace(second, name="second", args=args), subject)
    return Graph((*values, *constants), steps, (Ref(SUBJECT),))


def _cat_dims() -> list[Draft]:
    """From outside the partition, some dimension before the axis must not be 1."""
    code = "dim_before_axis"
    fits = (
        ((2, 8), (2, 8), -1),
        ((2, 3, 8), (2, 5, 8), 1),
        ((1, 2, 8), (1, 2, 8), 2),
        ((1, 2, 1, 8), (1, 2, 1, 8), -1),
    )
    past = (
        ((1, 8), (1, 8), -1),
        ((1, 3, 8), (1, 5, 8), 1),
        ((1, 8, 4, 8), (1, 8, 4, 8), 1),
        ((1, 1, 8), (1, 1, 8), -1),
        ((2, 8), (3, 8), 0),
        ((4, 3, 8), (4, 3, 8), -3),
        ((8,), (8,), 0),
    )
    return [
        *(limit(code, f"{_sizes(a, b)}_dim_{_name(d)}", model(cat(a, b, dim=d))) for a, b, d in fits),
        *(outside(code, f"{_sizes(a, b)}_dim_{_name(d)}", model(cat(a, b, dim=d))) for a, b, d in past),
        *(inside(code, f"computed_{_sizes(a, b)}_dim_{_name(d)}", _computed(cat(a, b, dim=d))) for a, b, d in past),
        *(outside(code, f"one_computed_{_sizes(a, b)}", _computed(cat(a, b, dim=d), 1)) for a, b, d in past[:2]),
        inside(code, "channels_first_batch_1", _behind_two_convs(8, 8, 1)),
    ]


def _cat_qparams(u: Use) -> list[Draft]:
    """All inputs and the output have one quantisation."""
    code = "same_qparams"
    x, other = u.values
    assert isinstance(Q.scale, float)
    off = {
        "scale_one_float32_step_up": Quant(f32(Q.scale * (1 + 2**-23)), Q.zero_point),
        "scale_doubled": quant(2 * Q.scale, Q.zero_point),
        "zero_point_one_up": Quant(Q.scale, Q.zero_point + 1),
    }
    equal = [cat((2, 3, 8), (2, 5, 8), dim=1, q=quant(0.05, zero)) for zero in ZERO_POINTS]
    return [
        *(limit(code, f"all_zero_point_{zero}", model(e)) for zero, e in zip(ZERO_POINTS, equal, strict=True)),
        *(outside(code, f"first_input_{n}", model(_inputs(u, replace(x, quant=q), other))) for n, q in off.items()),
        *(outside(code, f"last_input_{n}", model(_inputs(u, x, replace(other, quant=q)))) for n, q in off.items()),
        *(outside(code, f"output_{n}", model(replace(u, y=q))) for n, q in off.items()),
    ]


def _inputs(u: Use, *values: Value) -> Use:
    return replace(u, values=values)


# ------------------------------------------------------------------------------------ pad


def pad(shape: Shape, sides: Shape, *rest: object) -> Use:
    """Sides as in torch: last dimension first, before and after."""
    return use(PAD, shape, sides, *rest)


def pad_cases() -> list[Draft]:
    """aten.constant_pad_nd.default: height and width only, nothing negative."""
    image = (1, 5, 6, 8)
    u = pad(image, (0, 0, 1, 2))
    return [
        *_pad_dims(image),
        *_pad_signs(image),
        *_pad_values(image),
        limit("max_rank", "rank_5", model(pad((1, 2, 3, 5, 8), (0, 0, 1, 2)))),
        outside("max_rank", "rank_6", model(pad((1, 1, 2, 3, 5, 8), (0, 0, 1, 2)))),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        accepted("channels_1", model(pad((1, 5, 6, 1), (0, 0, 1, 2)))),
        accepted("batch_3", model(pad((3, 5, 6, 7), (0, 0, 1, 2, 2, 0)))),
        *movement(pad(image, (0, 0, 1, 2, 3, 0))),
        *movement(pad((1, 8, 3, 5), (1, 2, 3, 0)), behind_conv, label="_behind_conv")[:8],
    ]


def _pad_dims(image: Shape) -> list[Draft]:
    """Alone the dimensions are batch, height, width, channel; behind a convolution batch, channel, height, width."""
    code = "channel_and_batch_padding"
    fits = ((0, 0, 1, 1), (0, 0, 1, 0), (0, 0, 0, 2), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 3), (0, 0, 1, 2, 3, 4))
    batch = ((0, 0, 0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 0, 0, 1), (0, 0, 1, 1, 1, 1, 1, 1))
    past = ((1, 1), (1, 0), (0, 1), (0, 8), (1, 0, 1, 1), (0, 1, 1, 1, 1, 1), *batch)
    first_fits = ((1, 1), (0, 2), (1, 0, 0, 0), (1, 1, 2, 0), (0, 0, 0, 3), (2, 1, 1, 2, 0, 0))
    first_past = ((0, 0, 0, 0, 8, 0), (0, 0, 0, 0, 0, 1), (1, 1, 1, 1, 1, 1), *batch[:2])
    behind = (1, 8, 4, 6)
    return [
        *(limit(code, f"alone_{_name(p)}", model(pad(image, p))) for p in fits),
        *(outside(code, f"alone_{_name(p)}", model(pad(image, p))) for p in past),
        *(limit(code, f"behind_conv_{_name(p)}", model(pad(behind, p), behind_conv)) for p in first_fits),
        *(outside(code, f"behind_conv_{_name(p)}", model(pad(behind, p), behind_conv)) for p in first_past),
        outside(code, "rank_3_channels", model(pad((2, 5, 8), (1, 1)))),
        limit(code, "rank_3_width", model(pad((2, 5, 8), (0, 0, 1, 1)))),
        silent(code, "rank_3_first", model(pad((2, 5, 8), (0, 0, 0, 0, 1, 1)))),
        silent(code, "rank_2_first", model(pad((5, 8), (0, 0, 1, 1)))),
    ]


def _pad_signs(image: Shape) -> list[Draft]:
    code = "non_negative_padding"
    past = ((0, 0, -1, 0), (0, 0, 0, -1), (0, 0, 0, 0, -2, 0), (0, 0, 0, 0, 0, -1), (0, 0, -1, 2), (0, 0, 1, 1, 1, -1))
    return [
        limit(code, "0_on_one_side", model(pad(image, (0, 0, 0, 1)))),
        *(outside(code, _name(p), model(pad(image, p))) for p in past),
        outside(code, "behind_conv_minus_1", model(pad((1, 8, 4, 6), (-1, 0)), behind_conv)),
    ]


def _pad_values(image: Shape) -> list[Draft]:
    """Any fill value; it is quantised like the input, and saturates."""
    values = (0, 0.0, 1.5, -2.0, 0.024, 0.025, 0.026, 100.0, -100.0, 3)
    sides = (0, 0, 1, 2, 2, 1)
    narrow = [replace(pad(image, sides, 1.0), values=(activation("x", image, q),), y=q) for q in _zeroed()]
    return [
        *(accepted(f"value_{_name(v)}", model(pad(image, sides, v))) for v in values),
        accepted("value_by_name", model(use(PAD, image, sides, value=-1.0))),
        *(accepted(f"value_1_zero_point_{_name(z)}", model(u)) for z, u in zip(ZERO_POINTS, narrow, strict=True)),
        accepted("value_behind_conv", model(pad((1, 8, 4, 6), (1, 2, 0, 1), 1.5), behind_conv)),
    ]


def _zeroed() -> list[Quant]:
    return [quant(0.05, zero) for zero in ZERO_POINTS]


# ------------------------------------------------------------------------------------ permute


def permute(shape: Shape, order: Shape) -> Use:
    """permute_copy."""
    return use(PERMUTE, shape, order)


# Orders that only move dimensions of size 1 past the others.
INVARIANT: Sequence[tuple[Shape, Shape]] = (
    ((1, 8), (1, 0)),
    ((8, 1), (1, 0)),
    ((7, 1), (-1, 0)),
    ((1, 1, 8), (0, 2, 1)),
    ((1, 1, 8, 8), (0, 2, 1, 3)),
    ((8, 8, 8, 1), (3, 0, 1, 2)),
    ((3, 1, 5, 1), (1, 0, 3, 2)),
    ((2, 3, 5), (0, 1, 2)),
    ((1, 3, 5, 7), (0, 1, 2, 3)),
    ((1, 1, 1, 1), (3, 2, 1, 0)),
    ((1, 5, 1, 1), (0, 2, 3, 1)),
)
LAST_TO_SECOND: Sequence[tuple[Shape, bool]] = (  # (0, 3, 1, 2): channels % 8, height * width % 8, batch 1
    ((1, 8, 8, 8), True),
    ((1, 4, 2, 8), True),
    ((1, 2, 4, 16), True),
    ((1, 8, 3, 8), True),
    ((1, 4, 1, 8), False),
    ((1, 3, 3, 8), False),
    ((1, 4, 2, 7), False),
    ((1, 4, 2, 9), False),
    ((2, 4, 2, 8), False),
)
SECOND_TO_LAST: Sequence[tuple[Shape, bool]] = (  # (0, 2, 3, 1): channels % 8, width % 8, batch 1
    ((1, 8, 8, 8), True),
    ((1, 8, 3, 8), True),
    ((1, 16, 5, 8), True),
    ((1, 8, 1, 8), True),
    ((1, 8, 8, 4), False),
    ((1, 8, 8, 7), False),
    ((1, 4, 8, 8), False),
    ((1, 9, 8, 8), False),
    ((2, 8, 8, 8), False),
)
NEVER: Sequence[tuple[Shape, Shape]] = (
    ((8, 8), (1, 0)),
    ((8, 16), (-1, -2)),
    ((1, 8, 8), (0, 2, 1)),
    ((8, 8, 8), (2, 1, 0)),
    ((1, 8, 8, 8), (0, 1, 3, 2)),
    ((1, 8, 8, 8), (0, 2, 1, 3)),
    ((1, 8, 8, 8), (0, 3, 2, 1)),
    ((8, 8, 8, 8), (3, 0, 1, 2)),
    ((1, 8, 8, 8), (3, 2, 1, 0)),
)


def permute_cases() -> list[Draft]:
    """aten.permute_copy.default: the transpositions the NPU can do; alone, without a layout."""
    code = "transposition"
    u = permute((1, 8, 3, 8), (0, 2, 3, 1))
    known = [(s, (0, 3, 1, 2), good) for s, good in LAST_TO_SECOND]
    known += [(s, (0, 2, 3, 1), good) for s, good in SECOND_TO_LAST]
    return [
        *(limit(code, f"{_sizes(s)}_by_{_name(p)}", model(permute(s, p))) for s, p in INVARIANT),
        *(
            (limit if good else outside)(code, f"{_sizes(s)}_by_{_name(p)}", model(permute(s, p)))
            for s, p, good in known
        ),
        *(outside(code, f"{_sizes(s)}_by_{_name(p)}", model(permute(s, p))) for s, p in NEVER),
        limit(code, "negative_dims", model(permute((1, 8, 8, 8), (0, -2, -1, 1)))),
        *_permute_layouts(code),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        *movement(u),
        *movement(permute((1, 4, 2, 8), (0, 3, 1, 2)), label="_back"),
    ]


def _order(shape: Shape, order: Shape) -> str:
    return f"{_sizes(shape)}_by_{_name(order)}"


def _permute_layouts(code: str) -> list[Draft]:
    """Between a convolution and the layout-free rest of the model, orders merge with the layout's own."""
    first_to_last = ((1, 8, 8, 8), (1, 8, 3, 3), (1, 5, 3, 7))
    to_conv = ((1, 5, 7, 3), (1, 8, 8, 8))
    return [
        *(limit(code, f"behind_conv_{_sizes(s)}", model(permute(s, (0, 2, 3, 1)), behind_conv)) for s in first_to_last),
        *(limit(code, f"before_conv_{_sizes(s)}", _before_conv(permute(s, (0, 3, 1, 2)), s[3])) for s in to_conv),
        outside(code, "behind_conv_5x3x7_by_0_3_2_1", model(permute((1, 5, 3, 7), (0, 3, 2, 1)), behind_conv)),
        outside(code, "behind_conv_8x3x7_by_0_1_3_2", model(permute((1, 8, 3, 7), (0, 1, 3, 2)), behind_conv)),
        limit(code, "behind_conv_identity", model(permute((1, 8, 3, 7), (0, 1, 2, 3)), behind_conv)),
    ]


def _before_conv(u: Use, channels: int) -> Graph:
    """The result goes into a 1x1 convolution over `channels` channels."""
    assert u.y is not None
    graph = model(u)
    values, convolution = pointwise((1, channels, 1, 1), 8, Q)
    args = (Ref(SUBJECT), *convolution.args[1:])
    after = replace(convolution, name="after", args=args)
    constants = (values[1], replace(values[2], quant=_bias_for(u.y, values[1].quant)))
    return Graph((*graph.values, *constants), (*graph.steps, after), (Ref("after"),))


def _bias_for(x: Quant, w: Quant | None) -> Quant:
    assert w is not None
    return bias_quant(x, w)


# ------------------------------------------------------------------------------------ slice


def slice_(shape: Shape, *rest: object) -> Use:
    """slice_copy(x, dim, start, end, step)."""
    return use(SLICE, shape, *rest)


def slice_cases() -> list[Draft]:
    """aten.slice_copy.Tensor."""
    u = slice_((1, 5, 8), 2, 1, 6)
    return [
        *_slice_steps(),
        *_slice_ranges(),
        *_slice_sizes(),
        *_slice_dims(),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        *movement(u),
        *movement(slice_((1, 16, 3, 5), 1, 3, 9), behind_conv, label="_channels_first")[:8],
    ]


def _slice_steps() -> list[Draft]:
    return [
        limit("step", "default", model(slice_((5, 8), 1, 1, 6))),
        limit("step", "1", model(slice_((5, 8), 1, 1, 6, 1))),
        limit("step", "1_by_name", model(use(SLICE, (5, 8), 1, start=1, end=6, step=1))),
        *(outside("step", f"{n}", model(slice_((5, 8), 1, 0, 7, n))) for n in (2, 3, 7)),
        outside("step", "2_to_the_end", model(slice_((5, 8), 1, 0, END, 2))),
    ]


def _slice_ranges() -> list[Draft]:
    """Negative positions count from the end in torch; the NPU does not do that. Past the end is clipped."""
    code = "non_negative_range"
    past = ((-5, 7), (-8, 5), (0, -1), (1, -2), (-3, -1), (-3, END))
    fits = ((0, 1), (0, 7), (7, 8), (3, 8), (3, 9), (3, END))
    return [
        *(limit(code, f"{_name(a)}_to_{_end(b)}", model(slice_((5, 8), 1, a, b))) for a, b in fits),
        *(outside(code, f"{_name(a)}_to_{_end(b)}", model(slice_((5, 8), 1, a, b))) for a, b in past),
        silent(code, "start_none", model(slice_((5, 8), 1, None, 5))),
        silent(code, "end_none", model(slice_((5, 8), 1, 3, None))),
        silent(code, "end_left_out", model(slice_((5, 8), 1, 3))),
    ]


def _end(end: int) -> str:
    return "end" if end == END else _name(end)


def _slice_sizes() -> list[Draft]:
    code = "sliced_dim_multiple_of"
    fits = ((2, 8), (2, 16), (8,), (3, 1, 24))
    past = ((2, 7), (2, 9), (2, 4), (9,), (8, 12), (8, 8, 7))
    return [
        *(limit(code, _sizes(s), model(slice_(s, len(s) - 1, 0, 3))) for s in fits),
        *(outside(code, _sizes(s), model(slice_(s, len(s) - 1, 0, 3))) for s in past),
        outside(code, "channels_first_9", model(slice_((1, 9, 4, 6), 1, 0, 3), behind_conv)),
        limit(code, "channels_first_8", model(slice_((1, 8, 4, 6), 1, 0, 3), behind_conv)),
    ]


def _slice_dims() -> list[Draft]:
    """The dimension changes places with the last one, which the NPU can do only past dimensions of size 1."""
    code = "transposition"
    fits: Sequence[tuple[Shape, int]] = (
        ((2, 8), 1),
        ((2, 8), -1),
        ((8, 1), 0),
        ((8, 1), -2),
        ((1, 8, 1), 1),
        ((3, 8, 1), 1),
        ((8, 1, 1), 0),
        ((1, 3, 5, 8), -1),
        ((1, 3, 8, 1), 2),
    )
    past: Sequence[tuple[Shape, int]] = (
        ((8, 8), 0),
        ((8, 3), -2),
        ((1, 8, 8), 1),
        ((8, 3, 1), 0),
        ((1, 8, 8, 8), 1),
        ((1, 8, 8, 8), 2),
        ((1, 8, 3, 5), -3),
    )
    return [
        *(limit(code, f"{_sizes(s)}_dim_{_name(d)}", model(slice_(s, d, 1, 5))) for s, d in fits),
        *(outside(code, f"{_sizes(s)}_dim_{_name(d)}", model(slice_(s, d, 1, 5))) for s, d in past),
        *(limit(code, f"channels_first_dim_{_name(d)}", _sliced_behind_conv(d)) for d in (1, -3)),
        *(outside(code, f"channels_first_dim_{_name(d)}", _sliced_behind_conv(d)) for d in (2, 3, -1, -2)),
    ]


def _sliced_behind_conv(dim: int) -> Graph:
    return model(slice_((1, 16, 8, 8), dim, 1, 5), behind_conv)


# ------------------------------------------------------------------------------------ splits


def split_use(op: str, shape: Shape, sizes: Shape, dim: int | None) -> Use:
    """A split into chunks of these sizes; `split.Tensor` takes the size of all but the last."""
    size = sizes[0] if op == "aten.split.Tensor" else sizes
    return use(op, shape, size, *(() if dim is None else (dim,)), outputs=len(sizes))


def split_cases(op: str) -> list[Draft]:
    """aten.split.Tensor, aten.split.default, aten.split_with_sizes.default: one slice per chunk."""
    even = op == "aten.split.Tensor"
    chunks = ((4, 4), (3, 3, 2), (7, 1), (1,) * 8) if even else ((4, 4), (3, 5), (1, 7), (2, 3, 3))
    u = split_use(op, (1, 5, 8), chunks[1], 2)
    return [
        *_split_sizes(op),
        *_split_dims(op),
        *(accepted(f"chunks_{_name(c)}", model(split_use(op, (2, 3, 8), c, -1))) for c in chunks),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        placed("one_chunk_used", replace(model(u), outputs=(Ref(SUBJECT, 1),))),
        placed("behind_conv_channels", model(split_use(op, (1, 8, 4, 6), (4, 4), 1), behind_conv)),
        placed("chunks_into_add", _chunks_into_add(op)),
        *movement(u),
    ]


def _chunks_into_add(op: str) -> Graph:
    u = split_use(op, (2, 3, 8), (4, 4), 2)
    total = Step("sum", "aten.add.Tensor", (Ref(SUBJECT, 0), Ref(SUBJECT, 1)), (), quant(0.1, 3))
    return Graph(u.values, (step(u), total), (Ref("sum"),))


def _split_sizes(op: str) -> list[Draft]:
    code = "sliced_dim_multiple_of"
    fits: Sequence[tuple[Shape, Shape]] = (((2, 8), (4, 4)), ((2, 16), (8, 8)), ((2, 8), (5, 3)), ((2, 24), (12, 12)))
    past: Sequence[tuple[Shape, Shape]] = (((2, 7), (4, 3)), ((2, 9), (5, 4)), ((2, 4), (2, 2)), ((2, 12), (6, 6)))
    return [
        *(limit(code, f"{_sizes(s)}_into_{_name(c)}", model(split_use(op, s, c, 1))) for s, c in fits),
        *(outside(code, f"{_sizes(s)}_into_{_name(c)}", model(split_use(op, s, c, 1))) for s, c in past),
        outside(code, "channels_first_9", model(split_use(op, (1, 9, 4, 6), (5, 4), 1), behind_conv)),
    ]


def _split_dims(op: str) -> list[Draft]:
    code = "transposition"
    fits: Sequence[tuple[Shape, int | None]] = (((8,), None), ((8, 1), None), ((8, 1), 0), ((3, 8, 1), 1), ((2, 8), -1))
    past: Sequence[tuple[Shape, int | None]] = (((8, 8), None), ((8, 3), 0), ((1, 8, 8), -2), ((1, 8, 8, 8), 1))
    return [
        *(limit(code, f"{_sizes(s)}_dim_{_dim(d)}", model(split_use(op, s, (4, 4), d))) for s, d in fits),
        *(outside(code, f"{_sizes(s)}_dim_{_dim(d)}", model(split_use(op, s, (4, 4), d))) for s, d in past),
        *(
            outside(code, f"channels_first_dim_{_dim(d)}", model(split_use(op, (1, 16, 8, 8), (4, 4), d), behind_conv))
            for d in (2, -1)
        ),
    ]


def _dim(dim: int | None) -> str:
    return "default" if dim is None else _name(dim)
