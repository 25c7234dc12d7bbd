"""aten.cat.default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from npu_assay.conformance.cases.around import behind_abs, pointwise
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, inside, limit, outside, placed, valued
from npu_assay.conformance.cases.families.layout.layout import Layout, layout
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT, Call, Q, X, activation, bare, f32, label, quant, sizes_of
from npu_assay.conformance.cases.permitted import Shape
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.placed import Placed
from npu_assay.conformance.cases.pieces.quantization import float_same_qparams
from npu_assay.conformance.cases.pieces.sizes import rank_limit
from npu_assay.conformance.cases.pieces.spelling import IMAGE, INTEGERS, codes_quant, is_static, real, result
from npu_assay.conformance.cases.pieces.subject import FLOAT_STATIC, Config, Subject
from npu_assay.conformance.cases.pieces.values import ZERO_POINTS, fills, float_layout_values, one_hots
from npu_assay.conformance.programs.graph import Graph, Quant, Ref, Step, Value

# ------------------------------------------------------------------------------------ static int8


def cat(*shapes: tuple[int, ...], dim: int = -1, q: Quant = Q) -> Call:
    """Concatenation of inputs x, x1, x2, ... of these shapes."""
    first, *others = shapes
    more = tuple(activation(f"x{index}", shape, q) for index, shape in enumerate(others, 1))
    values = (activation("x", first, q), *more)
    return Call("aten.cat.default", values, (tuple(Ref(v.name) for v in values), dim), q)


def _plain_cat(limits: Limits) -> Placed:
    m = limits.multiple("channels_multiple_of")
    return cat((2, 3, m), (2, 5, m), dim=1), bare


def static_cat_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.cat.default: two inputs or more, channels, a dimension before the axis, equal parameters."""
    limits.fixed("min_inputs", 2)
    m = limits.multiple("channels_multiple_of")
    u = cat((2, 3, m), (2, 5, m), dim=1)
    return [
        *_cat_inputs(u),
        *_cat_channels(m),
        *_cat_dims(m),
        *_cat_qparams(u),
        *contexts(u),
        placed("three_inputs", cat((2, 1, m), (2, 4, m), (2, 2, m), dim=1)),
        placed("five_inputs", cat(*[(3, m)] * 5)),
        accepted("default_dim", _computed(replace(cat((m, m), (3, m)), args=((X, Ref("x1")),)))),
        *(
            d
            for n, v in (("", cat((2, m), (2, 2 * m))), ("_dim_1", u))
            for d in [*fills(v, label=n), *one_hots(v, label=n)]
        ),
        *rank_limit(limits, lambda shape: cat(shape, shape), m),
    ]


def _computed(u: Call, count: int | None = None) -> Graph:
    """The first `count` inputs (all) are computed by an abs each, inside the partition."""
    names = [value.name for value in u.values][:count]
    steps = tuple(Step(f"abs_{n}", "aten.abs.default", (Ref(n),), (), u.y) for n in names)
    operands = tuple(Ref(f"abs_{v.name}") if v.name in names else Ref(v.name) for v in u.values)
    subject = Step(SUBJECT, u.op, (operands, *u.args[1:]), u.kwargs, u.y)
    return Graph(u.values, (*steps, subject), (Ref(SUBJECT),))


def _cat_inputs(u: Call) -> list[CaseDraft]:
    """At least two different inputs."""
    single = replace(u, values=u.values[:1], args=((X,), 1))
    twice = replace(u, values=u.values[:1], args=((X, X), 1))
    return [
        limit("min_inputs", "two", u),
        outside("min_inputs", "one", single),
        outside("min_inputs", "one_behind_abs", single, behind_abs),
        outside("min_inputs", "same_input_twice", twice),
        outside("min_inputs", "same_input_twice_behind_abs", twice, behind_abs),
    ]


def _cat_channels(m: int) -> list[CaseDraft]:
    """Channels of every input and of the output; without a layout that is the last dimension."""
    code, half, less, more = "channels_multiple_of", m // 2, m - 1, m + 1
    fits = (((2, m), (2, m), -1), ((2, m), (2, 2 * m), -1), ((2, 3, m), (2, 5, m), 1), ((2, 3, m), (2, 5, m), -2))
    beyond = (
        ((2, m), (2, less), -1),
        ((2, more), (2, m), 1),
        ((2, less), (2, more), -1),
        ((2, half), (2, m + half), -1),
        ((2, 3, less), (2, 5, less), 1),
        ((2, m, 1), (2, 2 * m, 1), 1),
    )
    return [
        *(limit(code, f"{sizes_of(a, b)}_dim_{label(d)}", cat(a, b, dim=d)) for a, b, d in fits),
        *(outside(code, f"{sizes_of(a, b)}_dim_{label(d)}", cat(a, b, dim=d)) for a, b, d in dict.fromkeys(beyond)),
        limit(code, f"channels_first_{m}_and_{2 * m}", _behind_two_convs(m, 2 * m, 1)),
        limit(code, f"channels_first_{m}_and_{m}_rows", _behind_two_convs(m, m, 2)),
        outside(code, f"channels_first_{m}_and_{less}", _behind_two_convs(m, less, 1)),
        outside(code, f"channels_first_{less}_rows", _behind_two_convs(less, less, 2)),
        *(outside(code, f"{c}_and_{c}_of_equal_shape", cat((2, c), (2, c))) for c in dict.fromkeys((less, half))),
        outside(code, f"channels_first_{less}_and_{less}", _behind_two_convs(less, less, 1)),
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


def _cat_dims(m: int) -> list[CaseDraft]:
    """From outside the partition, some dimension before the axis must not be 1."""
    code = "dim_before_axis"
    fits = (
        ((2, m), (2, m), -1),
        ((2, 3, m), (2, 5, m), 1),
        ((1, 2, m), (1, 2, m), 2),
        ((1, 2, 1, m), (1, 2, 1, m), -1),
    )
    past = (
        ((1, m), (1, m), -1),
        ((1, 3, m), (1, 5, m), 1),
        ((1, m, 4, m), (1, m, 4, m), 1),
        ((1, 1, m), (1, 1, m), -1),
        ((2, m), (3, m), 0),
        ((4, 3, m), (4, 3, m), -3),
        ((m,), (m,), 0),
    )
    return [
        *(limit(code, f"{sizes_of(a, b)}_dim_{label(d)}", cat(a, b, dim=d)) for a, b, d in fits),
        *(outside(code, f"{sizes_of(a, b)}_dim_{label(d)}", cat(a, b, dim=d)) for a, b, d in past),
        *(inside(code, f"computed_{sizes_of(a, b)}_dim_{label(d)}", _computed(cat(a, b, dim=d))) for a, b, d in past),
        *(outside(code, f"one_computed_{sizes_of(a, b)}", _computed(cat(a, b, dim=d), 1)) for a, b, d in past[:2]),
        inside(code, "channels_first_batch_1", _behind_two_convs(m, m, 1)),
    ]


def _cat_qparams(u: Call) -> list[CaseDraft]:
    """All inputs and the output have one quantization."""
    code = "same_qparams"
    x, other = u.values
    assert isinstance(Q.scale, float)
    off = {
        "scale_one_float32_step_up": Quant(f32(Q.scale * (1 + 2**-23)), Q.zero_point),
        "scale_doubled": quant(2 * Q.scale, Q.zero_point),
        "zero_point_one_up": Quant(Q.scale, Q.zero_point + 1),
    }
    equal = [cat(x.shape, other.shape, dim=1, q=quant(0.05, zero)) for zero in ZERO_POINTS]
    return [
        *(limit(code, f"all_zero_point_{zero}", e) for zero, e in zip(ZERO_POINTS, equal, strict=True)),
        *(outside(code, f"first_input_{n}", _inputs(u, replace(x, quant=q), other)) for n, q in off.items()),
        *(outside(code, f"last_input_{n}", _inputs(u, x, replace(other, quant=q))) for n, q in off.items()),
        *(outside(code, f"output_{n}", replace(u, y=q)) for n, q in off.items()),
    ]


def _inputs(u: Call, *values: Value) -> Call:
    return replace(u, values=values)


# ------------------------------------------------------------------------------------ floats


CAT = "aten.cat.default"


def float_cat_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.cat.default: two different inputs or more, any axis."""
    least = limits.number("min_inputs", 2, 2, 4)
    subject = Subject(_pair, config=Config("CatConfig", FLOAT_STATIC), whole=True)
    u = subject.call(precision)
    drafts = everywhere(subject, precision, limits)
    for count in (least, least + 1, 5, 6, 11):
        drafts.append(limit("min_inputs", f"{count}_inputs", _float_cat(precision, [IMAGE] * count, 1)))
    x, y = u.values
    few, refs = _float_cat(precision, [IMAGE] * (least - 1), 1), tuple(Ref(_name(i)) for i in range(least - 1))
    drafts += [
        inside("min_inputs", "one_of_three_again", replace(u, args=((X, Ref("x1"), X), 1))),
        outside("min_inputs", f"{least - 1}_inputs", few),
        outside("min_inputs", "same_input_twice", replace(few, args=((*refs, refs[0]), 1))),
        outside("nonempty", "one_empty_input", _float_cat(precision, [IMAGE, (1, 0, 4, 5)], 1)),
        accepted("constant_input", replace(u, values=(x, replace(y, constant=True)))),
    ]
    for axis in (0, 2, 3, -1, -3):
        drafts.append(accepted(f"axis_{label(axis)}", _float_cat(precision, [IMAGE, IMAGE], axis)))
    drafts.append(accepted("sizes_differ", _float_cat(precision, [(2, 1, 3), (2, 4, 3), (2, 2, 3)], 1)))
    drafts.append(accepted("axis_left_out", replace(u, args=((X, Ref("x1")),))))
    drafts += float_layout_values(u)
    return [*drafts, *float_same_qparams(u), *_one_differs(u)] if is_static(precision) else drafts


def _one_differs(u: Call) -> Iterator[CaseDraft]:
    """Only one of the inputs has other parameters."""
    x, y = u.values
    yield outside("same_qparams", "second_input", replace(u, values=(x, replace(y, quant=quant(0.05, 2)))))
    yield outside("same_qparams", "first_input", replace(u, values=(replace(x, quant=quant(0.04, 3)), y)))


def _name(index: int) -> str:
    return f"x{index}" if index else "x"


def _pair(precision: str, shape: tuple[int, ...]) -> Call:
    return _float_cat(precision, [shape, shape], -1)


def _float_cat(precision: str, shapes: list[tuple[int, ...]], axis: int) -> Call:
    values: tuple[Value, ...] = tuple(real(_name(i), shape, precision) for i, shape in enumerate(shapes))
    return Call(CAT, values, (tuple(Ref(value.name) for value in values), axis), result(precision))


# ------------------------------------------------------------------------------------ integers


def _integer_cat(shape: Shape) -> Call:
    axis = len(shape) - 1
    return Call("aten.cat.default", (activation("x", shape), activation("x1", shape)), ((X, Ref("x1")), axis), Q)


def integer_cat_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.cat.default: any axis, any number of tensors, each rescaled to the output's parameters."""
    row = Layout(_integer_cat)
    subject = row.subject
    drafts = layout(row, precision, limits)
    x, other = subject.call(precision).values
    pair = (X, Ref("x1"))
    u = subject.call(precision)
    for axis in (0, 1, 2, -1, -3):
        drafts.append(accepted(f"axis_{label(axis)}", replace(u, args=(pair, axis))))
    drafts.append(accepted("axis_left_out", replace(u, args=(pair,))))
    drafts.append(accepted("same_tensor_twice", replace(u, values=(x,), args=((X, X), 1))))
    drafts.append(accepted("three", replace(u, args=((X, Ref("x1"), X), 1))))
    drafts.append(accepted("sizes_differ", replace(u, values=(x, replace(other, shape=(1, 2, 4, 5))), args=(pair, 1))))
    drafts.append(accepted("constant", replace(u, values=(x, replace(other, constant=True)), args=(pair, 1))))
    if precision != INTEGERS:
        for name, q in (("coarser", quant(0.1, 3)), ("finer", quant(0.02, -9)), ("shifted", quant(0.05, 40))):
            mixed = replace(other, quant=codes_quant(precision, q))
            drafts.append(valued(f"second_{name}", replace(u, values=(x, mixed), args=(pair, 1))))
    return drafts


FAMILIES: Mapping[str, Family] = {
    CAT: Family(plain=_plain_cat, static=static_cat_cases, floats=float_cat_cases, integers=integer_cat_cases)
}
