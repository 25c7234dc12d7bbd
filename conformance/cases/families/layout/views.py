"""Operators that rename or repeat dimensions: view, squeeze, unsqueeze, expand, repeat, as_strided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside
from npu_assay.conformance.cases.families.layout.layout import (
    Crossing,
    Layout,
    Limited,
    crossing,
    crossings,
    deepest_input,
    in_place,
    input_ranks,
    layout,
    on,
    ranks,
    same_sizes,
    with_limits,
)
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT, Call, Q, X, call, label, model, sizes_of
from npu_assay.conformance.cases.permitted import Shape, deepest, transposable
from npu_assay.conformance.cases.pieces.fusion import VIEW
from npu_assay.conformance.cases.pieces.neighbors import matrix_weights
from npu_assay.conformance.cases.pieces.placed import on_shape
from npu_assay.conformance.cases.pieces.sizes import Arguments
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.programs.graph import Graph, Ref, Step

# ------------------------------------------------------------------------------------ static int8: view


def view(shape: Shape, to: Shape) -> Call:
    """view_copy."""
    return call(VIEW, shape, to)


def _view_crossing(shape: Shape, to: Shape, good: bool) -> Crossing:
    return crossing(shape, to), view(shape, to), good


def static_view_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.view_copy.default."""
    u, most, m = view((3, 8), (2, 12)), deepest(limits, 7, 5), transposable(limits)
    shapes = (((3, 8), (24,)), ((24,), (2, 3, 4)), ((1, 3, 5, 7), (7, 15)), ((2, 3), (2, 3)), ((1, 1, 6), (6, 1)))
    inferred = (((3, 8), (-1,)), ((3, 8), (-1, 4)), ((2, 3, 4), (2, -1)), ((2, 3, 4), (4, -1, 2)))

    def of_output_rank(rank: int) -> Call:
        return view((2, 12), (*(1,) * (rank - 3), 2, 3, 4))

    return [
        *(accepted(f"{sizes_of(a)}_to_{sizes_of(b)}", view(a, b), behind_abs) for a, b in shapes),
        *(accepted(f"{sizes_of(a)}_to_{label(b)}", view(a, b), behind_abs) for a, b in inferred),
        *ranks(most, of_output_rank, range(max(3, most - 2), most + 3)),
        *crossings(_views_behind(m), _views_before(m)),
        limit("transposition", f"behind_conv_{m}x5x5_into_mm", _into_mm(m)),
        *in_place(u),
        *input_ranks(deepest_input(limits), lambda shape: view(shape, (4, 12))),
    ]


def _views_behind(m: int) -> list[Crossing]:
    """Out of channels-first: channels and height * width multiples of `m`, or nothing to exchange."""
    half = m // 2
    return [
        _view_crossing((1, m, m, m), (1, m**3), True),
        _view_crossing((1, m, m, m), (m**3,), True),
        _view_crossing((1, m, half, 6), (1, 3 * m * m), True),
        _view_crossing((1, 5, 1, 1), (1, 5), True),
        _view_crossing((1, 1, 5, 7), (1, 35), True),
        _view_crossing((1, 2 * m, 2, half), (m, 2 * m), True),
        _view_crossing((1, m, 5, 5), (1, 25 * m), False),
        _view_crossing((1, 5, m, m), (1, 5 * m * m), False),
        _view_crossing((1, m - 1, m, m), (1, (m - 1) * m * m), False),
        _view_crossing((1, m, 3, 5), (m, 15), False),
    ]


def _views_before(m: int) -> list[Crossing]:
    """Into channels-first: channels and width multiples of `m`, or nothing to exchange."""
    half = m // 2
    return [
        _view_crossing((m, m * m), (1, m, m, m), True),
        _view_crossing((m**3,), (1, m, m, m), True),
        _view_crossing((m, 3 * m), (1, m, 3, m), True),
        _view_crossing((4, 5), (1, 20, 1, 1), True),
        _view_crossing((m, 5 * m), (1, m, m, 5), False),
        _view_crossing((5, m * m), (1, 5, m, m), False),
        _view_crossing((m, 5 * half), (1, m, 5, half), False),
    ]


def _into_mm(m: int) -> Graph:
    """Flattening between a convolution and a matrix product: the weights take the transposition."""
    u = view((1, m, 5, 5), (1, 25 * m))
    graph = model(u, behind_conv)
    product = Step("after", "aten.mm.default", (Ref(SUBJECT), Ref("w")), (), Q)
    return Graph((*graph.values, matrix_weights(25 * m, 6)), (*graph.steps, product), (Ref("after"),))


# ------------------------------------------------------------------------------------ static int8: squeeze


def squeeze(op: str, shape: Shape, dims: Shape) -> Call:
    """`dims` as the overload takes them: nothing, one number, a list."""
    rest: tuple[Any, ...] = {"aten.squeeze.default": (), "aten.squeeze.dim": dims[:1]}.get(op, (dims,))
    return call(op, shape, *rest)


def static_squeeze_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.squeeze.default, aten.squeeze.dim and aten.squeeze.dims."""
    u, most = squeeze(op, (1, 8, 3, 4), (0,)), deepest(limits, 7, 5)
    # One dimension at a time takes a permitted output only from inputs of one rank more.
    deep = deepest_input(limits, most + 1 if op == "aten.squeeze.dim" else 16)
    shapes: Sequence[tuple[Shape, Shape]] = (
        ((3, 1, 5), (1,)),
        ((3, 1, 5), (-2,)),
        ((1, 7), (0,)),
        ((7, 1), (-1,)),
        ((2, 3, 1, 1), (-1, 2)),
        ((1, 3, 1, 5), (0, 2)),
        ((2, 3, 4), (1,)),
        ((1, 1, 1, 6), (0, 1, 2)),
        ((1, 1), (1,)),
    )

    def of_output_rank(rank: int) -> Call:
        """Beyond a limit there is nothing to drop, lest the input have too many dimensions as well."""
        nothing = rank > most or rank >= deep
        return squeeze(op, (2,) * rank if nothing else (1, 2, 3, *(2,) * (rank - 2)), (0,))

    def four_left(shape: Shape) -> Call:
        return squeeze(op, shape, tuple(range(len(shape) - 4)))

    m = transposable(limits)
    return [
        *(accepted(f"{sizes_of(s)}_dims_{label(d)}", squeeze(op, s, d), behind_abs) for s, d in shapes),
        *ranks(most, of_output_rank, (most - 1, most, most + 1)),
        *crossings(_squeezes_behind(op, m), _squeezes_before(op, m)),
        *in_place(u),
        *input_ranks(deep, four_left),
    ]


def _squeezes_behind(op: str, m: int) -> list[Crossing]:
    uses: Sequence[tuple[Shape, int, bool]] = (
        ((1, m, m, 1), -1, True),
        ((1, m, 1, 2 * m), 2, True),
        ((1, 5, 1, 1), 3, True),
        ((1, 2 * m, 1, m), 0, True),
        ((1, m, m - 1, 1), 3, False),
        ((1, m, 1, m + 1), -2, False),
        ((1, m - 1, m, 1), 3, False),
        ((1, 2 * m, 1, 2 * m - 2), 2, False),
    )
    return [(f"{sizes_of(s)}_dim_{label(d)}", squeeze(op, s, (d,)), good) for s, d, good in uses]


def _squeezes_before(op: str, m: int) -> list[Crossing]:
    """Rank 5 to the image a convolution takes; without dims squeeze would also drop the batch."""
    if op == "aten.squeeze.default":
        return []
    shapes = (((1, m, 1, 4, m), 2, True), ((1, m, 1, 4, m - 2), 2, False), ((1, m - 1, m, m, 1), 4, False))
    return [
        (f"{sizes_of(s)}_to_{sizes_of((*s[:d], *s[d + 1 :]))}", squeeze(op, s, (d,)), good) for s, d, good in shapes
    ]


# ------------------------------------------------------------------------------------ static int8: unsqueeze


UNSQUEEZE = "aten.unsqueeze.default"


def static_unsqueeze_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.unsqueeze.default."""
    u, most, m = call(UNSQUEEZE, (3, 8), 1), deepest(limits, 7, 4), transposable(limits)
    shapes: Sequence[tuple[Shape, int]] = (
        ((7,), 0),
        ((7,), 1),
        ((7,), -1),
        ((7,), -2),
        ((3, 8), 0),
        ((3, 8), 2),
        ((3, 8), -1),
        ((3, 8), -3),
        ((2, 3, 4, 5), 2),
        ((1, 1), 0),
    )

    def of_output_rank(rank: int) -> Call:
        return call(UNSQUEEZE, (2, 3, *(1,) * (rank - 3)), 1)

    return [
        *(accepted(f"{sizes_of(s)}_dim_{label(d)}", call(UNSQUEEZE, s, d), behind_abs) for s, d in shapes),
        *ranks(most, of_output_rank, range(most - 1, most + 3)),
        *crossings(_unsqueezes_behind(m), _unsqueezes_before(m)),
        *in_place(u),
    ]


def _unsqueezes_behind(m: int) -> list[Crossing]:
    uses: Sequence[tuple[Shape, int, bool]] = (
        ((1, m, m, m), 0, True),
        ((1, 5, 1, 1), 4, True),
        ((1, 2 * m, 2, m // 2), -1, True),
        ((1, m, 5, 5), 0, False),
        ((1, m - 1, m, m), 2, False),
    )
    return [(f"{sizes_of(s)}_dim_{label(d)}", call(UNSQUEEZE, s, d), good) for s, d, good in uses]


def _unsqueezes_before(m: int) -> list[Crossing]:
    uses: Sequence[tuple[Shape, int, bool]] = (
        ((m, 3, m), 0, True),
        ((1, m, 2 * m), 2, True),
        ((1, 5, 1), -1, True),
        ((m, 3, 5), 0, False),
        ((1, m - 1, m), 2, False),
        ((1, 2 * m, 2 * m - 2), -2, False),
    )
    return [(f"{sizes_of(s)}_to_{sizes_of(_unsqueezed(s, d))}", call(UNSQUEEZE, s, d), good) for s, d, good in uses]


def _unsqueezed(shape: Shape, dim: int) -> Shape:
    at = dim % (len(shape) + 1)
    return (*shape[:at], 1, *shape[at:])


# ------------------------------------------------------------------------------------ integers


def strided_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Sizes and strides of the whole tensor, in order."""
    u = subject.call(precision, (4, 6))
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
        yield limit("contiguous", name, replace(u, args=(X, *args)), behind_abs)
    for name, args in past:
        yield outside("contiguous", name, replace(u, args=(X, *args)), behind_abs)
    same = replace(u, args=(X, (4, 6), (6, 1)))
    yield limit("not_alone", "same_behind_abs", same, behind_abs)
    yield outside("not_alone", "same_alone", same)


def _strides(shape: Shape) -> Shape:
    strides, size = [], 1
    for length in reversed(shape):
        strides.append(size)
        size *= length
    return tuple(reversed(strides))


def _flat(shape: Shape) -> Call:
    return call("aten.view_copy.default", shape, (-1,))


def _expanded(shape: Shape) -> Call:
    return call("aten.expand_copy.default", (1, *shape[1:]), (2, *(-1,) * (len(shape) - 1)))


def _repeated(shape: Shape) -> Call:
    return call("aten.repeat.default", shape, (*(1,) * (len(shape) - 1), 2))


def _squeezes(op: str, *rest: Any) -> Family:
    return Family(plain=on_shape(op, (1, 8, 1, 4), *rest, prefix=behind_abs), static=partial(static_squeeze_cases, op))


def _integers(row: Layout, more: Limited | None = None) -> Family:
    return Family(integers=partial(layout, row) if more is None else with_limits(row, more))


_EXPANDED = Layout(_expanded, (("ones", ((2, 3, 4, 5),)), ("more_axes", ((2, 1, 3, 4, 5),))), open=((2,),))
_REPEATED = Layout(_repeated, (("all", ((2, 1, 3, 2),)), ("more_axes", ((2, 1, 1, 1, 3),))))
_SQUEEZED = Layout(on("aten.squeeze_copy.dims", (0,)), shape=(1, 3, 4, 5), shapes=((1, 5), (1, 1, 3)), open=((2,),))
_STRIDED = Layout(
    lambda shape: call("aten.as_strided_copy.default", shape, (shape[0], *shape[1:]), _strides(shape)),
    idle=True,
    shapes=((7,),),
)
_UNSQUEEZED = Layout(on("aten.unsqueeze_copy.default", 0), (("behind", (-1,)), ("between", (2,))), deep=False)
_FLATTENED = Layout(_flat, (("split", ((2, 15, 2),)), ("more_axes", ((1, 3, 2, 2, 5),))), idle=True, open=((0,),))
FAMILIES: Mapping[str, Family] = {
    "aten.as_strided_copy.default": _integers(_STRIDED, strided_limits),
    "aten.expand_copy.default": _integers(_EXPANDED, same_sizes(((1, 3, 4, 5),))),
    "aten.repeat.default": _integers(_REPEATED),
    "aten.squeeze.default": _squeezes("aten.squeeze.default"),
    "aten.squeeze.dim": _squeezes("aten.squeeze.dim", 2),
    "aten.squeeze.dims": _squeezes("aten.squeeze.dims", (0, 2)),
    "aten.squeeze_copy.dims": _integers(_SQUEEZED, same_sizes(((1,),))),
    UNSQUEEZE: Family(plain=on_shape(UNSQUEEZE, (3, 8), 1, prefix=behind_abs), static=static_unsqueeze_cases),
    "aten.unsqueeze_copy.default": _integers(_UNSQUEEZED),
    VIEW: Family(
        plain=on_shape(VIEW, (3, 8), (-1, 12), prefix=behind_abs),
        static=static_view_cases,
        integers=partial(layout, _FLATTENED),
    ),
}
