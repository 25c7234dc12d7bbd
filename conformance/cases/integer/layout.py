"""Operators that move numbers and compute nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.integer.common import Family, Subject, everywhere, moved_ratios, rescaled
from npu_assay.conformance.cases.integer.spelling import IMAGE, INTEGERS, as_integers, based, codes_quant, spelled
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Draft,
    Q,
    Use,
    X,
    accepted,
    activation,
    behind_abs,
    constant,
    filled,
    label,
    limit,
    model,
    outside,
    placed,
    quant,
    sizes_of,
    use,
    valued,
)
from npu_assay.conformance.cases.shared import one_hots
from npu_assay.conformance.programs.graph import Fill, Ref

Shape = tuple[int, ...]
At = Callable[[Shape], Use]
Arguments = tuple[tuple[str, tuple[Any, ...]], ...]
RAMP = Fill("ramp")
LARGE = 65536


@dataclass(frozen=True)
class Movement:
    """A row: `at` makes its usual use of a shape; more: names and arguments of other uses of `shape`.

    For the rest see `Subject`.
    """

    at: At
    more: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    shape: Shape = IMAGE
    shapes: tuple[Shape, ...] = ((7,), (3, 5), (2, 3, 4))
    open: tuple[int, ...] | None = (0,)
    deep: bool = True
    idle: bool = False
    elementwise: bool = False

    def subject(self, precision: str) -> Subject:
        """The row in a precision."""
        return Subject(
            based(self.at, precision), self.shape, self.shapes, self.open, self.deep, self.elementwise, idle=self.idle
        )


def cases(row: Movement, precision: str, limits: Limits) -> list[Draft]:
    """What every movement has: other arguments, where each number goes, other quantisations behind it."""
    subject = row.subject(precision)
    u = subject.use(precision)
    drafts = everywhere(subject, precision, limits)
    drafts += [
        accepted(name, model(filled_if(replace(u, args=(X, *args)), precision), subject.front))
        for name, args in row.more
    ]
    if row.idle:
        drafts.append(limit("not_alone", "behind_abs", subject.model(u)))
        drafts.append(outside("not_alone", "alone", model(u)))
    if precision == INTEGERS:
        return [*drafts, *plain(u, subject, limits)]
    drafts += one_hots(u, subject.front, spots=3)
    return [*drafts, *rescaled(subject, precision), *moved_ratios(subject, precision)]


def filled_if(u: Use, precision: str) -> Use:
    """A ramp shows exchanged axes; plain integers are different already."""
    return u if precision == INTEGERS else filled(u, RAMP)


def plain(u: Use, subject: Subject, limits: Limits) -> Iterator[Draft]:
    """Integers of every type; truths, which Ethos-U55 has not."""
    for dtype in ("int8", "int16"):
        yield accepted(dtype, subject.model(_typed(u, dtype)))
    if "no_bool" in limits:
        yield limit("no_bool", "int32", subject.model(u))
        yield outside("no_bool", "bool", model(_typed(u, "bool")))
    if "code_dtype" in limits:
        limits.value("code_dtype", ())
        yield limit("code_dtype", "int32", subject.model(u))
        yield outside("code_dtype", "bool", model(_typed(u, "bool")))


def _typed(u: Use, dtype: str) -> Use:
    return as_integers(replace(u, values=tuple(replace(v, quant=Q) for v in u.values)), dtype)


def with_limits(row: Movement, more: Callable[[Subject, str, Limits], Iterator[Draft]]) -> Family:
    """A movement with limits of its own."""
    return lambda precision, limits: [*cases(row, precision, limits), *more(row.subject(precision), precision, limits)]


# ------------------------------------------------------------------------------------ cat


def _cat(shape: Shape) -> Use:
    axis = len(shape) - 1
    return Use("aten.cat.default", (activation("x", shape), activation("x1", shape)), ((X, Ref("x1")), axis), Q)


def cat_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.cat.default: any axis, any number of tensors, each rescaled to the output's parameters."""
    row = Movement(_cat)
    subject = row.subject(precision)
    drafts = cases(row, precision, limits)
    x, other = subject.use(precision).values
    pair = (X, Ref("x1"))
    u = subject.use(precision)
    for axis in (0, 1, 2, -1, -3):
        drafts.append(accepted(f"axis_{label(axis)}", model(replace(u, args=(pair, axis)))))
    drafts.append(accepted("axis_left_out", model(replace(u, args=(pair,)))))
    drafts.append(accepted("same_tensor_twice", model(replace(u, values=(x,), args=((X, X), 1)))))
    drafts.append(accepted("three", model(replace(u, args=((X, Ref("x1"), X), 1)))))
    drafts.append(
        accepted("sizes_differ", model(replace(u, values=(x, replace(other, shape=(1, 2, 4, 5))), args=(pair, 1))))
    )
    drafts.append(accepted("constant", model(replace(u, values=(x, replace(other, constant=True)), args=(pair, 1)))))
    if precision != INTEGERS:
        for name, q in (("coarser", quant(0.1, 3)), ("finer", quant(0.02, -9)), ("shifted", quant(0.05, 40))):
            mixed = replace(other, quant=codes_quant(precision, q))
            drafts.append(valued(f"second_{name}", model(replace(u, values=(x, mixed), args=(pair, 1)))))
    return drafts


# ------------------------------------------------------------------------------------ limits


def slice_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
    """Start and end stand in their places, with something between them."""
    u = subject.use(precision)
    limits.value("step", ())
    yield limit("range_arguments", "all", model(replace(u, args=(X, 3, 1, 4, 2))))
    yield limit("range_arguments", "without_step", model(replace(u, args=(X, 3, 1, 4))))
    yield limit("step", "2", model(replace(u, args=(X, 2, 0, 4, 2))))
    yield limit("not_empty", "one", model(replace(u, args=(X, 3, 1, 2))))
    yield outside("not_empty", "nothing", model(replace(u, args=(X, 3, 2, 2))))
    yield outside("range_arguments", "only_axis", model(replace(u, args=(X, 1))))
    yield outside("range_arguments", "without_end", model(replace(u, args=(X, 3, 1))))


def permute_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
    """Long dimensions on Ethos-U55."""
    kept = (((LARGE, 1), (1, 0)), ((256, 256, 1, 1), (1, 0, 2, 3)))
    past = (((LARGE + 1, 1), (1, 0)), ((257, 256, 1, 1), (1, 0, 2, 3)))
    for side, shapes in ((limit, kept), (outside, past)):
        for shape, order in shapes:
            u = subject.use(precision, shape)
            yield side("transposition", f"{sizes_of(shape)}_by_{label(order)}", model(replace(u, args=(X, order))))


def idle_order(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
    """An order that changes nothing is one that computes nothing."""
    u = subject.use(precision)
    same = replace(u, args=(X, tuple(range(len(u.values[0].shape)))))
    yield limit("not_alone", "identity_behind_abs", model(same, behind_abs))
    yield outside("not_alone", "identity_alone", model(same))


def permute_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.permute_copy.default: every order."""
    row = Movement(
        lambda shape: use("aten.permute_copy.default", shape, tuple(reversed(range(len(shape))))),
        ORDERS,
        shape=(2, 3, 4, 5),
        shapes=((3, 5), (2, 3, 4)),
    )
    subject = row.subject(precision)
    return [
        *cases(row, precision, limits),
        *idle_order(subject, precision, limits),
        *(permute_limits(subject, precision, limits) if "transposition" in limits else ()),
    ]


ORDERS = tuple(
    (f"order_{label(order)}", (order,))
    for order in ((0, 2, 3, 1), (0, 3, 1, 2), (1, 0, 2, 3), (0, 1, 3, 2), (-1, 0, -2, 1), (3, 1, 2, 0))
)


def flip_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
    """Height or width of an image on Ethos-U55; nothing is one that computes nothing."""
    u = subject.use(precision)
    several = (("batch", (0,)), ("width", (3,)), ("two", (1, 2)), ("all", (0, 1, 2, 3)))
    if "dims" not in limits:
        for name, dims in several:
            yield accepted(name, model(replace(u, args=(X, dims))))
        yield limit("not_alone", "nothing_behind_abs", model(replace(u, args=(X, ())), behind_abs))
        yield outside("not_alone", "nothing_alone", model(replace(u, args=(X, ()))))
        yield accepted("matrix", model(replace(subject.use(precision, (3, 5)), args=(X, (1,)))))
        return
    listed = limits.some_of("dims", (1, 2))
    for dim in listed:
        yield limit("dims", f"dim_{dim}", model(replace(u, args=(X, (dim,)))))
    yield limit("dims", "dim_minus_2", model(replace(u, args=(X, (-2,)))))
    for name, dims in several:
        yield outside("dims", name, model(replace(u, args=(X, dims))))
    yield outside("dims", "rank_3", model(subject.use(precision, (2, 3, 4))))


def unfold_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
    """Windows as large as the dimension, and none at all; their number on Ethos-U55."""
    most = limits.number("windows", 16, 4, 64)
    u = subject.use(precision, (1, 2, most + 2, 3))
    yield limit("window_within", "whole_dimension", model(replace(u, args=(X, 2, most + 2, 1))))
    yield outside("window_within", "of_no_size", model(replace(subject.use(precision), args=(X, 2, 0, 1))))
    yield limit("windows", f"{most}_windows", model(replace(u, args=(X, 2, 3, 1))))
    yield outside("windows", f"{most + 1}_windows", model(replace(u, args=(X, 2, 2, 1))))


def clone_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
    """A copy of the same type; there are no others."""
    yield limit("no_conversion", "the_same_type", subject.model(subject.use(precision)))


def strided_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
    """Sizes and strides of the whole tensor, in order."""
    u = subject.use(precision, (4, 6))
    kept: Arguments = (
        ("reshaped", ((2, 12), (12, 1))),
        ("same", ((4, 6), (6, 1))),
        ("with_ones", ((1, 24, 1), (24, 1, 1))),
    )
    past: Arguments = (
        ("transposed", ((6, 4), (1, 6))),
        ("part", ((2, 6), (6, 1))),
        ("overlapping", ((4, 6), (1, 1))),
        ("with_offset", ((3, 6), (6, 1), 6)),
    )
    for name, args in kept:
        yield limit("contiguous", name, model(replace(u, args=(X, *args)), behind_abs))
    for name, args in past:
        yield outside("contiguous", name, model(replace(u, args=(X, *args)), behind_abs))
    same = replace(u, args=(X, (4, 6), (6, 1)))
    yield limit("not_alone", "same_behind_abs", model(same, behind_abs))
    yield outside("not_alone", "same_alone", model(same))


def pad_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
    """Borders that repeat the tensor are not larger than the tensor."""
    u = subject.use(precision)
    limits_of = (("reflect", 4), ("circular", 5))
    for mode, most in limits_of:
        yield limit("borders", f"{mode}_{most}", model(replace(u, args=(X, (most, 0, 0, 1), mode))))
    yield accepted("replicate_7", model(replace(u, args=(X, (7, 0, 0, 6), "replicate"))))
    for mode, pads in (("reflect", (-1, 1, 0, 0)), ("replicate", (0, 0, 2, -1)), ("circular", (1, -1, 1, 1))):
        yield outside("borders", f"{mode}_negative", model(replace(u, args=(X, pads, mode))))


def same_sizes(args: tuple[Any, ...]) -> Callable[[Subject, str, Limits], Iterator[Draft]]:
    """An operator that keeps the shape computes nothing."""

    def more(subject: Subject, precision: str, limits: Limits) -> Iterator[Draft]:
        u = replace(subject.use(precision), args=(X, *args))
        yield limit("not_alone", "same_shape_behind_abs", model(u, behind_abs))
        yield outside("not_alone", "same_shape_alone", model(u))

    return more


# ------------------------------------------------------------------------------------ rows


def _on(op: str, *args: Any, **kwargs: Any) -> At:
    return lambda shape: use(op, shape, *args, **kwargs)


def _flat(shape: Shape) -> Use:
    return use("aten.view_copy.default", shape, (-1,))


def _sliced(shape: Shape) -> Use:
    return use("aten.slice_copy.Tensor", shape, -1, min(1, shape[-1] - 1), shape[-1] + 3)


def _split(shape: Shape) -> Use:
    return use("aten.split_with_sizes_copy.default", shape, (1, shape[-1] - 1), len(shape) - 1, outputs=2)


def _chunks(shape: Shape) -> Use:
    return use("aten.split_copy.Tensor", shape, -(-shape[-1] // 2), len(shape) - 1, outputs=2)


def _copied(shape: Shape) -> Use:
    source = activation("source", shape[-2:])
    return use("aten.copy.default", shape, Ref("source"), more=(source,))


def _expanded(shape: Shape) -> Use:
    return use("aten.expand_copy.default", (1, *shape[1:]), (2, *(-1,) * (len(shape) - 1)))


def _repeated(shape: Shape) -> Use:
    return use("aten.repeat.default", shape, (*(1,) * (len(shape) - 1), 2))


def _unfolded(shape: Shape) -> Use:
    return use("aten.unfold_copy.default", shape, len(shape) - 2, 2, 1)


def _cloned(shape: Shape) -> Use:
    return use("dim_order_ops._clone_dim_order.default", shape, dim_order=tuple(range(len(shape))))


WHOLE = 9223372036854775807
SLICES = (
    ("first", (1, 0, 1)),
    ("last", (2, 3, 4)),
    ("negative_start", (3, -2, WHOLE)),
    ("negative_end", (3, 1, -1)),
    ("whole_axis", (1, 0, WHOLE, 2)),
    ("negative_axis", (-2, 1, 3)),
    ("step_2", (3, 0, 5, 2)),
    ("step_3_offset", (3, 1, 5, 3)),
    ("step_beyond", (2, 1, 4, 9)),
)
PADS = (
    ("one_axis", ((1, 2),)),
    ("all_axes", ((1, 2, 3, 0, 0, 1, 1, 0), 0.0)),
    ("number", ((0, 1, 2, 0), 1.5)),
    ("far_number", ((0, 1, 2, 0), -1000.0)),
    ("cut_off", ((-1, 2, 0, -1),)),
)
BORDERS = (
    ("reflect", ((2, 1, 1, 0), "reflect")),
    ("replicate", ((2, 1, 1, 0), "replicate")),
    ("circular", ((2, 1, 1, 0), "circular")),
    ("constant", ((2, 1, 1, 0),)),
    ("number", ((2, 1, 1, 0), "constant", 1.5)),
)
_FEW = Movement(_cat).shapes
FAMILIES: Mapping[str, Family] = {
    "aten.alias_copy.default": partial(cases, Movement(_on("aten.alias_copy.default"), idle=True)),
    "aten.detach_copy.default": partial(cases, Movement(_on("aten.detach_copy.default"), idle=True)),
    "aten.copy.default": partial(cases, Movement(_copied, shapes=((3, 5), (2, 3, 4)))),
    "aten.cat.default": cat_cases,
    "aten.constant_pad_nd.default": partial(cases, Movement(_on("aten.constant_pad_nd.default", (1, 2)), PADS)),
    "aten.pad.default": with_limits(
        Movement(_on("aten.pad.default", (2, 1, 1, 0), "reflect"), BORDERS, shapes=(), deep=False), pad_limits
    ),
    "aten.expand_copy.default": with_limits(
        Movement(_expanded, (("ones", ((2, 3, 4, 5),)), ("more_axes", ((2, 1, 3, 4, 5),))), open=(2,)),
        same_sizes(((1, 3, 4, 5),)),
    ),
    "aten.repeat.default": partial(
        cases, Movement(_repeated, (("all", ((2, 1, 3, 2),)), ("more_axes", ((2, 1, 1, 1, 3),))))
    ),
    "aten.flip.default": with_limits(Movement(_on("aten.flip.default", (2,)), shapes=(), deep=False), flip_limits),
    "aten.permute_copy.default": permute_cases,
    "aten.select_copy.int": partial(
        cases,
        Movement(
            _on("aten.select_copy.int", 0, 0),
            (("channel", (1, 2)), ("negative", (-1, -2))),
        ),
    ),
    "aten.slice_copy.Tensor": with_limits(Movement(_sliced, SLICES), slice_limits),
    "aten.split_copy.Tensor": partial(
        cases, Movement(_chunks, shape=(2, 3, 4, 6), shapes=((8,), (3, 6)), open=None, deep=False)
    ),
    "aten.split_with_sizes_copy.default": partial(
        cases,
        Movement(
            _split, (("thrice", ((2, 1, 2), 3)),), shape=(2, 3, 4, 5), shapes=((7,), (3, 5)), open=None, deep=False
        ),
    ),
    "aten.squeeze_copy.dims": with_limits(
        Movement(
            lambda shape: use("aten.squeeze_copy.dims", shape, (0,)),
            shape=(1, 3, 4, 5),
            shapes=((1, 5), (1, 1, 3)),
            open=(2,),
        ),
        same_sizes(((1,),)),
    ),
    "aten.unsqueeze_copy.default": partial(
        cases,
        Movement(_on("aten.unsqueeze_copy.default", 0), (("behind", (-1,)), ("between", (2,))), deep=False),
    ),
    "aten.unfold_copy.default": with_limits(
        Movement(_unfolded, (("steps", (3, 3, 2)), ("channels", (1, 2, 1))), shapes=((3, 5),), deep=False),
        unfold_limits,
    ),
    "aten.as_strided_copy.default": with_limits(
        Movement(
            lambda shape: use("aten.as_strided_copy.default", shape, (shape[0], *shape[1:]), _strides(shape)),
            idle=True,
            shapes=((7,),),
        ),
        strided_limits,
    ),
    "aten.view_copy.default": partial(
        cases, Movement(_flat, (("split", ((2, 15, 2),)), ("more_axes", ((1, 3, 2, 2, 5),))), idle=True, open=(0,))
    ),
    "dim_order_ops._clone_dim_order.default": with_limits(Movement(_cloned, idle=True), clone_limits),
}


def _strides(shape: Shape) -> Shape:
    strides, size = [], 1
    for length in reversed(shape):
        strides.append(size)
        size *= length
    return tuple(reversed(strides))


__all__ = ["FAMILIES", "constant", "placed", "spelled"]
