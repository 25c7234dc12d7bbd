"""Operators that move numbers: copies with a dim order, cat, pad, permute, slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Draft,
    Q,
    Use,
    X,
    accepted,
    f32,
    filled,
    inside,
    label,
    limit,
    model,
    outside,
    quant,
    sizes_of,
    valued,
)
from npu_assay.conformance.cases.shared import ZERO_POINTS, one_hots
from npu_assay.conformance.cases.typed.common import FLOAT_STATIC, Family, Subject, everywhere
from npu_assay.conformance.cases.typed.spelling import IMAGE, is_static, opened, real, result, use
from npu_assay.conformance.programs.graph import Fill, Quant, Ref, Value

TO_COPY = "dim_order_ops._to_dim_order_copy.default"
PAD = "aten.constant_pad_nd.default"
PERMUTE = "aten.permute_copy.default"
SLICE = "aten.slice_copy.Tensor"
CAT = "aten.cat.default"
RAMP = Fill("ramp")


def same_qparams(u: Use) -> Iterator[Draft]:
    """Equal parameters at several zero points, then scale and zero point off by a little."""
    for zero in ZERO_POINTS:
        q = quant(0.03, zero)
        yield limit("same_qparams", f"zero_point_{zero}", model(_requantised(u, q, q)))
    others = (
        ("scale_one_float32_step_up", Quant(f32(0.05 * (1 + 2**-22)), 3)),
        ("scale_doubled", quant(0.1, 3)),
        ("zero_point_one_up", quant(0.05, 4)),
    )
    for name, y in others:
        yield outside("same_qparams", name, model(_requantised(u, Q, y)))


def _requantised(u: Use, x: Quant, y: Quant) -> Use:
    return replace(u, values=tuple(v if v.constant else replace(v, quant=x) for v in u.values), y=y)


def moved(u: Use) -> Iterator[Draft]:
    """A ramp and single numbers: exchanged axes show."""
    yield valued("ramp", model(filled(u, RAMP)))
    yield from one_hots(u, spots=3)


# ------------------------------------------------------------------------------------ copies


def to_copy_cases(precision: str, limits: Limits) -> list[Draft]:
    """_to_dim_order_copy: another dim order, but no other type."""
    own, other = ("float16", "float32") if precision == "fp16" else ("float32", "float16")
    subject = Subject("ToDimOrderCopyConfig", _copy, FLOAT_STATIC, integers=True)
    u = subject.use(precision)
    drafts = everywhere(subject, precision, limits)
    drafts += [
        *moved(_copy(precision, IMAGE, (0, 2, 3, 1))),
        accepted("channels_last", model(_copy(precision, IMAGE, (0, 2, 3, 1)))),
        accepted("channels_last_one_channel", model(_copy(precision, (1, 1, 4, 5), (0, 2, 3, 1)))),
        limit("no_conversion", "dtype_left_out", model(u)),
        limit("no_conversion", own, model(replace(u, kwargs=(("dtype", own), *u.kwargs)))),
        *(
            outside("no_conversion", dtype, model(_to(u, dtype)))
            for dtype in ((other,) if is_static(precision) else (other, "float64"))
        ),
    ]
    return [*drafts, *same_qparams(u)] if is_static(precision) else drafts


def _copy(precision: str, shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> Use:
    x = real("x", shape, precision)
    return use(TO_COPY, x, precision, dim_order=tuple(range(len(shape))) if order is None else order)


def _to(u: Use, dtype: str) -> Use:
    """A conversion: its result stays a plain number."""
    return replace(u, kwargs=(("dtype", dtype), *u.kwargs), y=None)


# ------------------------------------------------------------------------------------ cat


def cat_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.cat.default: two different inputs or more, any axis."""
    least = limits.number("min_inputs", 2, 2, 4)
    subject = Subject("CatConfig", _pair, FLOAT_STATIC, integers=True)
    u = subject.use(precision)
    drafts = everywhere(subject, precision, limits)
    for count in (least, least + 1, 5, 6, 11):
        drafts.append(limit("min_inputs", f"{count}_inputs", model(_cat(precision, [IMAGE] * count, 1))))
    x, y = u.values
    few, refs = _cat(precision, [IMAGE] * (least - 1), 1), tuple(Ref(_name(i)) for i in range(least - 1))
    drafts += [
        inside("min_inputs", "one_of_three_again", model(replace(u, args=((X, Ref("x1"), X), 1)))),
        outside("min_inputs", f"{least - 1}_inputs", model(few)),
        outside("min_inputs", "same_input_twice", model(replace(few, args=((*refs, refs[0]), 1)))),
        outside("nonempty", "one_empty_input", model(_cat(precision, [IMAGE, (1, 0, 4, 5)], 1))),
        accepted("constant_input", model(replace(u, values=(x, replace(y, constant=True))))),
    ]
    for axis in (0, 2, 3, -1, -3):
        drafts.append(accepted(f"axis_{label(axis)}", model(_cat(precision, [IMAGE, IMAGE], axis))))
    drafts.append(accepted("sizes_differ", model(_cat(precision, [(2, 1, 3), (2, 4, 3), (2, 2, 3)], 1))))
    drafts.append(accepted("axis_left_out", model(replace(u, args=((X, Ref("x1")),)))))
    drafts += moved(u)
    return [*drafts, *same_qparams(u), *_one_differs(u)] if is_static(precision) else drafts


def _one_differs(u: Use) -> Iterator[Draft]:
    """Only one of the inputs has other parameters."""
    x, y = u.values
    yield outside("same_qparams", "second_input", model(replace(u, values=(x, replace(y, quant=quant(0.05, 2))))))
    yield outside("same_qparams", "first_input", model(replace(u, values=(replace(x, quant=quant(0.04, 3)), y))))


def _name(index: int) -> str:
    return f"x{index}" if index else "x"


def _pair(precision: str, shape: tuple[int, ...]) -> Use:
    return _cat(precision, [shape, shape], -1)


def _cat(precision: str, shapes: list[tuple[int, ...]], axis: int) -> Use:
    values: tuple[Value, ...] = tuple(real(_name(i), shape, precision) for i, shape in enumerate(shapes))
    return Use(CAT, values, (tuple(Ref(value.name) for value in values), axis), result(precision))


# ------------------------------------------------------------------------------------ pad


def pad_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.constant_pad_nd.default: any axis, any number, but nothing cut off."""
    subject = Subject("ConstantPadConfig", _padded)
    drafts = everywhere(subject, precision, limits)
    kept = ((0, 0), (1, 0), (0, 2), (1, 1, 2, 0), (0, 0, 3, 1), (0, 0, 0, 0, 1, 2), (1, 2, 0, 1, 1, 0, 2, 1))
    for pads in kept:
        drafts.append(limit("non_negative_padding", label(pads), model(_pad(precision, pads))))
    for pads in ((-1, 0), (0, -1), (2, -1), (0, 0, -1, 0), (1, 1, 0, -2), (0, 0, 0, 0, 0, -1)):
        drafts.append(outside("non_negative_padding", label(pads), model(_pad(precision, pads))))
    for name, value in (("left_out", ()), ("0", (0,)), ("minus_2.5", (-2.5,)), ("1", (1,)), ("1000", (1e3,))):
        drafts.append(accepted(f"value_{name}", model(_pad(precision, (1, 2, 2, 1), *value))))
    return [*drafts, *moved(_pad(precision, (1, 2, 2, 1)))]


def _padded(precision: str, shape: tuple[int, ...]) -> Use:
    return use(PAD, real("x", shape, precision), precision, (1, 2), 0.5)


def _pad(precision: str, pads: tuple[int, ...], *value: float) -> Use:
    return use(PAD, real("x", IMAGE, precision), precision, pads, *value)


# ------------------------------------------------------------------------------------ permute


ORDERS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3, 4, 5), (0, 2, 3, 1)),
    ((2, 3, 4, 5), (0, 3, 1, 2)),
    ((2, 3, 4, 5), (0, 1, 2, 3)),
    ((2, 3, 4, 5), (1, 0, 2, 3)),
    ((2, 3, 4, 5), (0, 1, 3, 2)),
    ((2, 3, 4, 5), (-1, 0, -2, 1)),
    ((3, 5), (1, 0)),
    ((2, 3, 4), (2, 0, 1)),
    ((7,), (0,)),
)


def permute_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.permute_copy.default: every order."""
    subject = Subject("PermuteConfig", _reversed, FLOAT_STATIC, integers=True)
    drafts = everywhere(subject, precision, limits)
    for shape, order in ORDERS if precision != "fp16" else ORDERS[:3]:
        u = _permuted(precision, shape, order)
        drafts.append(accepted(f"shape_{sizes_of(shape)}_order_{label(order)}", model(filled(u, RAMP))))
    u = subject.use(precision)
    return [*drafts, *moved(u), *(same_qparams(u) if is_static(precision) else ())]


def _reversed(precision: str, shape: tuple[int, ...]) -> Use:
    return _permuted(precision, shape, tuple(reversed(range(len(shape)))))


def _permuted(precision: str, shape: tuple[int, ...], order: tuple[int, ...]) -> Use:
    return use(PERMUTE, real("x", shape, precision), precision, order)


# ------------------------------------------------------------------------------------ slice


def slice_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.slice_copy.Tensor: neighbours only, sizes known, nothing empty."""
    limits.fixed("step", 1)
    subject = Subject("SliceCopyConfig", _from_one, FLOAT_STATIC, single=(1, 1, 1, 2), open=(), integers=True)
    drafts = everywhere(subject, precision, limits)
    ranges: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("axis_left_out", ()),
        ("whole_axis", (1, 0, 3)),
        ("first", (1, 0, 1)),
        ("last", (2, 3, 4)),
        ("none_to_2", (3, None, 2)),
        ("2_to_none", (3, 2, None)),
        ("negative_start", (3, -2, None)),
        ("negative_end", (3, 1, -1)),
        ("end_beyond", (2, 1, 9223372036854775807)),
        ("negative_axis", (-2, 1, 3)),
        ("batch", (0, 0, 1)),
    )
    for name, arguments in ranges if precision != "fp16" else ranges[3:6]:
        drafts.append(accepted(name, model(_sliced(precision, *arguments))))
    for number in (2, 3):
        drafts.append(outside("step", str(number), model(_sliced(precision, 3, 0, 5, number))))
    u = subject.use(precision)
    drafts += [
        limit("step", "left_out", model(_sliced(precision, 3, 1, 4))),
        limit("step", "1", model(_sliced(precision, 3, 1, 4, 1))),
        outside("nonempty", "empty_range", model(_sliced(precision, 3, 2, 2))),
        limit("static_shape", "known_sizes", model(u)),
        *(
            outside("static_shape", f"open_axis_{label(axes)}", model(opened(u, axes)))
            for axes in ((0,), (1,), (2,), (3,), (0, 1, 2, 3))
        ),
        *moved(u),
    ]
    return [*drafts, *same_qparams(u)] if is_static(precision) else drafts


def _from_one(precision: str, shape: tuple[int, ...]) -> Use:
    """All but the first along the last axis; where that has one element, all of it."""
    return use(SLICE, real("x", shape, precision), precision, -1, min(1, shape[-1] - 1), shape[-1])


def _sliced(precision: str, *arguments: Any) -> Use:
    return use(SLICE, real("x", IMAGE, precision), precision, *arguments)


FAMILIES: Mapping[str, Family] = {
    TO_COPY: to_copy_cases,
    CAT: cat_cases,
    PAD: pad_cases,
    PERMUTE: permute_cases,
    SLICE: slice_cases,
}
