"""Parts of a tensor: slice, select, unfold, and the splits, which are slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, placed, silent
from npu_assay.conformance.cases.families.layout.layout import Layout, layout, on, with_limits
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits, past
from npu_assay.conformance.cases.make import SUBJECT, Call, X, bare, call, label, model, quant, sizes_of, step
from npu_assay.conformance.cases.permitted import Shape, sliced_size, split_sizes
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.placed import Placed
from npu_assay.conformance.cases.pieces.quantization import float_same_qparams, same_qparams
from npu_assay.conformance.cases.pieces.sizes import rank_limit
from npu_assay.conformance.cases.pieces.spelling import IMAGE, call_on, is_static, opened, real
from npu_assay.conformance.cases.pieces.subject import FLOAT_STATIC, Config, Subject
from npu_assay.conformance.cases.pieces.values import float_layout_values, layout_values
from npu_assay.conformance.programs.graph import Graph, Ref, Step

# ------------------------------------------------------------------------------------ static int8: slice


def _plain_slice(limits: Limits) -> Placed:
    return call("aten.slice_copy.Tensor", (1, 5, sliced_size(limits)), 2, 1, 6), bare


def _plain_split(op: str) -> Callable[[Limits], Placed]:
    """split.Tensor takes the size of the pieces, the others all sizes."""

    def place(limits: Limits) -> Placed:
        length = sliced_size(limits)
        sizes = split_sizes(length, 3) if op == "aten.split.Tensor" else (3, length - 3)
        return call(op, (1, 5, length), 3 if op == "aten.split.Tensor" else sizes, 2, outputs=len(sizes)), bare

    return place


SLICE = "aten.slice_copy.Tensor"
END = 2**63 - 1  # "to the end", as torch exports x[:, 2:]
SLICED = "sliced_dim_multiple_of"


def slice_(shape: Shape, *rest: object) -> Call:
    """slice_copy(x, dim, start, end, step)."""
    return call(SLICE, shape, *rest)


def static_slice_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.slice_copy.Tensor."""
    limits.fixed("step", 1)
    size, m = sliced_size(limits), limits.multiple(SLICED)
    u = slice_((1, 5, size), 2, 1, 6)
    return [
        *_slice_steps((5, size)),
        *_slice_ranges((5, size)),
        *_slice_sizes(m),
        *_slice_dims(size),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", u, behind_abs),
        *layout_values(u),
        *layout_values(slice_((1, 2 * size, 3, 5), 1, 3, 9), behind_conv, label="_channels_first")[:8],
        *rank_limit(limits, lambda shape: slice_(shape, -1, 1, 5), size),
    ]


def _slice_steps(shape: Shape) -> list[CaseDraft]:
    return [
        limit("step", "default", slice_(shape, 1, 1, 6)),
        limit("step", "1", slice_(shape, 1, 1, 6, 1)),
        limit("step", "1_by_name", call(SLICE, shape, 1, start=1, end=6, step=1)),
        *(outside("step", f"{n}", slice_(shape, 1, 0, 7, n)) for n in (2, 3, 7)),
        outside("step", "2_to_the_end", slice_(shape, 1, 0, END, 2)),
    ]


def _slice_ranges(shape: Shape) -> list[CaseDraft]:
    """Negative positions count from the end in torch; the NPU does not do that. Past the end is clipped."""
    code, size = "non_negative_range", shape[1]
    negative = ((-5, size - 1), (-size, 5), (0, -1), (1, -2), (-3, -1), (-3, END))
    fits = ((0, 1), (0, size - 1), (size - 1, size), (3, size), (3, size + 1), (3, END))
    return [
        *(limit(code, f"{label(a)}_to_{_end(b)}", slice_(shape, 1, a, b)) for a, b in fits),
        *(outside(code, f"{label(a)}_to_{_end(b)}", slice_(shape, 1, a, b)) for a, b in negative),
        silent(code, "start_none", slice_(shape, 1, None, 5)),
        silent(code, "end_none", slice_(shape, 1, 3, None)),
        silent(code, "end_left_out", slice_(shape, 1, 3)),
    ]


def _end(end: int) -> str:
    return "end" if end == END else label(end)


def _slice_sizes(m: int) -> list[CaseDraft]:
    code, half, less, more = SLICED, m // 2, m - 1, m + 1
    fits = ((2, m), (2, 2 * m), (m,), (3, 1, 3 * m))
    beyond = ((2, less), (2, more), (2, half), (more,), (m, m + half), (m, m, less))
    end = min(3, m - 1)
    return [
        *(limit(code, sizes_of(s), slice_(s, len(s) - 1, 0, end)) for s in fits),
        *(outside(code, sizes_of(s), slice_(s, len(s) - 1, 0, end)) for s in dict.fromkeys(beyond)),
        outside(code, f"channels_first_{more}", slice_((1, more, 4, 6), 1, 0, end), behind_conv),
        limit(code, f"channels_first_{m}", slice_((1, m, 4, 6), 1, 0, end), behind_conv),
    ]


def _slice_dims(n: int) -> list[CaseDraft]:
    """The dimension changes places with the last one, which the NPU can do only past dimensions of size 1."""
    code = "transposition"
    fits: Sequence[tuple[Shape, int]] = (
        ((2, n), 1),
        ((2, n), -1),
        ((n, 1), 0),
        ((n, 1), -2),
        ((1, n, 1), 1),
        ((3, n, 1), 1),
        ((n, 1, 1), 0),
        ((1, 3, 5, n), -1),
        ((1, 3, n, 1), 2),
    )
    beyond: Sequence[tuple[Shape, int]] = (
        ((n, n), 0),
        ((n, 3), -2),
        ((1, n, n), 1),
        ((n, 3, 1), 0),
        ((1, n, n, n), 1),
        ((1, n, n, n), 2),
        ((1, n, 3, 5), -3),
    )
    return [
        *(limit(code, f"{sizes_of(s)}_dim_{label(d)}", slice_(s, d, 1, 5)) for s, d in fits),
        *(outside(code, f"{sizes_of(s)}_dim_{label(d)}", slice_(s, d, 1, 5)) for s, d in beyond),
        *(limit(code, f"channels_first_dim_{label(d)}", _sliced_behind_conv(n, d)) for d in (1, -3)),
        *(outside(code, f"channels_first_dim_{label(d)}", _sliced_behind_conv(n, d)) for d in (2, 3, -1, -2)),
    ]


def _sliced_behind_conv(n: int, dim: int) -> Graph:
    return model(slice_((1, 2 * n, n, n), dim, 1, 5), behind_conv)


# ------------------------------------------------------------------------------------ static int8: splits


def split_call(op: str, shape: Shape, sizes: Shape, dim: int | None) -> Call:
    """A split into chunks of these sizes; `split.Tensor` takes the size of all but the last."""
    size = sizes[0] if op == "aten.split.Tensor" else sizes
    return call(op, shape, size, *(() if dim is None else (dim,)), outputs=len(sizes))


def halves(size: int) -> Shape:
    """Two pieces of a size, the first at least as large."""
    return (size - size // 2, size // 2)


def static_split_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.split.Tensor, aten.split.default, aten.split_with_sizes.default: one slice per chunk."""
    n = sliced_size(limits)
    even = [split_sizes(n, size) for size in (halves(n)[0], 3, n - 1, 1)]
    uneven = [halves(n), (3, n - 3), (1, n - 1), (2, 3, n - 5)]
    chunks = even if op == "aten.split.Tensor" else uneven
    u = split_call(op, (1, 5, n), chunks[1], 2)
    return [
        *_split_sizes(op, limits.multiple(SLICED)),
        *_split_dims(op, n),
        *(accepted(f"chunks_{label(c)}", split_call(op, (2, 3, n), c, -1)) for c in chunks),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", u, behind_abs),
        placed("one_chunk_used", replace(model(u), outputs=(Ref(SUBJECT, 1),))),
        placed("behind_conv_channels", split_call(op, (1, n, 4, 6), halves(n), 1), behind_conv),
        placed("chunks_into_add", _chunks_into_add(op, n if n % 2 == 0 else 2 * n)),
        *layout_values(u),
        *rank_limit(limits, lambda shape: split_call(op, shape, halves(n), -1), n),
    ]


def _chunks_into_add(op: str, n: int) -> Graph:
    u = split_call(op, (2, 3, n), halves(n), 2)
    total = Step("sum", "aten.add.Tensor", (Ref(SUBJECT, 0), Ref(SUBJECT, 1)), (), quant(0.1, 3))
    return Graph(u.values, (step(u), total), (Ref("sum"),))


def _split_sizes(op: str, m: int) -> list[CaseDraft]:
    fits = ((m, halves(m)), (2 * m, (m, m)), (m, (m // 2 + 1, m - m // 2 - 1)), (3 * m, halves(3 * m)))
    beyond = [(size, halves(size)) for size in past(m, m - 1, m + 1, m // 2, m + m // 2)]
    return [
        *(_split_size(limit, op, size, chunks) for size, chunks in dict.fromkeys(fits) if 0 not in chunks),
        *(_split_size(outside, op, size, chunks) for size, chunks in beyond if 0 not in chunks),
        outside(SLICED, f"channels_first_{m + 1}", split_call(op, (1, m + 1, 4, 6), halves(m + 1), 1), behind_conv),
    ]


def _split_size(side: Callable[[str, str, Call], CaseDraft], op: str, size: int, chunks: Shape) -> CaseDraft:
    return side(SLICED, f"{sizes_of((2, size))}_into_{label(chunks)}", split_call(op, (2, size), chunks, 1))


def _split_dims(op: str, n: int) -> list[CaseDraft]:
    code, two = "transposition", halves(n)
    fits: Sequence[tuple[Shape, int | None]] = (((n,), None), ((n, 1), None), ((n, 1), 0), ((3, n, 1), 1), ((2, n), -1))
    beyond: Sequence[tuple[Shape, int | None]] = (((n, n), None), ((n, 3), 0), ((1, n, n), -2), ((1, n, n, n), 1))
    return [
        *(limit(code, f"{sizes_of(s)}_dim_{_dim(d)}", split_call(op, s, two, d)) for s, d in fits),
        *(outside(code, f"{sizes_of(s)}_dim_{_dim(d)}", split_call(op, s, two, d)) for s, d in beyond),
        *(
            outside(code, f"channels_first_dim_{_dim(d)}", split_call(op, (1, 2 * n, n, n), two, d), behind_conv)
            for d in (2, -1)
        ),
    ]


def _dim(dim: int | None) -> str:
    return "default" if dim is None else label(dim)


# ------------------------------------------------------------------------------------ floats


def float_slice_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.slice_copy.Tensor: neighbors only, sizes known, nothing empty."""
    limits.fixed("step", 1)
    subject = Subject(
        _from_one, config=Config("SliceCopyConfig", FLOAT_STATIC), single=(1, 1, 1, 2), open=(), whole=True
    )
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
        drafts.append(accepted(name, _float_sliced(precision, *arguments)))
    for number in (2, 3):
        drafts.append(outside("step", str(number), _float_sliced(precision, 3, 0, 5, number)))
    u = subject.call(precision)
    drafts += [
        limit("step", "left_out", _float_sliced(precision, 3, 1, 4)),
        limit("step", "1", _float_sliced(precision, 3, 1, 4, 1)),
        outside("nonempty", "empty_range", _float_sliced(precision, 3, 2, 2)),
        limit("static_shape", "known_sizes", u),
        *(
            outside("static_shape", f"open_axis_{label(axes)}", opened(u, axes))
            for axes in ((0,), (1,), (2,), (3,), (0, 1, 2, 3))
        ),
        *float_layout_values(u),
    ]
    return [*drafts, *float_same_qparams(u)] if is_static(precision) else drafts


def _from_one(precision: str, shape: tuple[int, ...]) -> Call:
    """All but the first along the last axis; where that has one element, all of it."""
    return call_on(SLICE, real("x", shape, precision), precision, -1, min(1, shape[-1] - 1), shape[-1])


def _float_sliced(precision: str, *arguments: Any) -> Call:
    return call_on(SLICE, real("x", IMAGE, precision), precision, *arguments)


# ------------------------------------------------------------------------------------ integers


def _integer_sliced(shape: Shape) -> Call:
    return call("aten.slice_copy.Tensor", shape, -1, min(1, shape[-1] - 1), shape[-1] + 3)


def _integer_split(shape: Shape) -> Call:
    return call("aten.split_with_sizes_copy.default", shape, (1, shape[-1] - 1), len(shape) - 1, outputs=2)


def _chunks(shape: Shape) -> Call:
    return call("aten.split_copy.Tensor", shape, -(-shape[-1] // 2), len(shape) - 1, outputs=2)


def _unfolded(shape: Shape) -> Call:
    return call("aten.unfold_copy.default", shape, len(shape) - 2, 2, 1)


SLICES = (
    ("first", (1, 0, 1)),
    ("last", (2, 3, 4)),
    ("negative_start", (3, -2, END)),
    ("negative_end", (3, 1, -1)),
    ("whole_axis", (1, 0, END, 2)),
    ("negative_axis", (-2, 1, 3)),
    ("step_2", (3, 0, 5, 2)),
    ("step_3_offset", (3, 1, 5, 3)),
    ("step_beyond", (2, 1, 4, 9)),
)


def slice_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Start and end stand in their places, with something between them."""
    u = subject.call(precision)
    limits.value("step", ())
    yield limit("range_arguments", "all", replace(u, args=(X, 3, 1, 4, 2)))
    yield limit("range_arguments", "without_step", replace(u, args=(X, 3, 1, 4)))
    yield limit("step", "2", replace(u, args=(X, 2, 0, 4, 2)))
    yield limit("not_empty", "one", replace(u, args=(X, 3, 1, 2)))
    yield outside("not_empty", "nothing", replace(u, args=(X, 3, 2, 2)))
    yield outside("range_arguments", "only_axis", replace(u, args=(X, 1)))
    yield outside("range_arguments", "without_end", replace(u, args=(X, 3, 1)))


def unfold_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Windows as large as the dimension, and none at all; their number on Ethos-U55."""
    most = limits.number("windows", 16, 4, 64)
    u = subject.call(precision, (1, 2, most + 2, 3))
    yield limit("window_within", "whole_dimension", replace(u, args=(X, 2, most + 2, 1)))
    yield outside("window_within", "of_no_size", replace(subject.call(precision), args=(X, 2, 0, 1)))
    yield limit("windows", f"{most}_windows", replace(u, args=(X, 2, 3, 1)))
    yield outside("windows", f"{most + 1}_windows", replace(u, args=(X, 2, 2, 1)))


_CUT = Layout(
    _integer_split, (("thrice", ((2, 1, 2), 3)),), shape=(2, 3, 4, 5), shapes=((7,), (3, 5)), open=(), deep=False
)
_CHUNKED = Layout(_chunks, shape=(2, 3, 4, 6), shapes=((8,), (3, 6)), open=(), deep=False)
_SELECTED = Layout(on("aten.select_copy.int", 0, 0), (("channel", (1, 2)), ("negative", (-1, -2))))
_UNFOLDED = Layout(_unfolded, (("steps", (3, 3, 2)), ("channels", (1, 2, 1))), shapes=((3, 5),), deep=False)


def _splits(op: str) -> Family:
    return Family(plain=_plain_split(op), static=partial(static_split_cases, op))


FAMILIES: Mapping[str, Family] = {
    "aten.select_copy.int": Family(integers=partial(layout, _SELECTED)),
    SLICE: Family(
        plain=_plain_slice,
        static=static_slice_cases,
        floats=float_slice_cases,
        integers=with_limits(Layout(_integer_sliced, SLICES), slice_limits),
    ),
    "aten.split.default": _splits("aten.split.default"),
    "aten.split.Tensor": _splits("aten.split.Tensor"),
    "aten.split_copy.Tensor": Family(integers=partial(layout, _CHUNKED)),
    "aten.split_with_sizes.default": _splits("aten.split_with_sizes.default"),
    "aten.split_with_sizes_copy.default": Family(integers=partial(layout, _CUT)),
    "aten.unfold_copy.default": Family(integers=with_limits(_UNFOLDED, unfold_limits)),
}
