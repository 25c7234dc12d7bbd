"""aten.permute_copy.default, and aten.flip.default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, placed
from npu_assay.conformance.cases.families.layout.layout import Layout, layout, on, with_limits
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, X, bare, call, label, sizes_of
from npu_assay.conformance.cases.permitted import Shape, transposable
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.neighbors import into_conv
from npu_assay.conformance.cases.pieces.placed import Placed
from npu_assay.conformance.cases.pieces.quantization import float_same_qparams, same_qparams
from npu_assay.conformance.cases.pieces.sizes import LARGE, rank_limit
from npu_assay.conformance.cases.pieces.spelling import call_on, is_static, real
from npu_assay.conformance.cases.pieces.subject import FLOAT_STATIC, Config, Subject
from npu_assay.conformance.cases.pieces.values import RAMP, float_layout_values, layout_values

# ------------------------------------------------------------------------------------ static int8


def _plain_permute(limits: Limits) -> Placed:
    macs = transposable(limits)
    return call("aten.permute_copy.default", (1, macs, 8, macs), (0, 2, 3, 1)), bare


PERMUTE = "aten.permute_copy.default"


def permute(shape: Shape, order: Shape) -> Call:
    """permute_copy."""
    return call(PERMUTE, shape, order)


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


def last_to_second(m: int) -> list[tuple[Shape, bool]]:
    """Shapes for (0, 3, 1, 2): channels and height * width multiples of `m`, batch 1."""
    half = m // 2
    fits = ((1, m, m, m), (1, half, 2, m), (1, 2, half, 2 * m), (1, m, 3, m))
    beyond = ((1, half, 1, m), (1, 3, 3, m), (1, half, 2, m - 1), (1, half, 2, m + 1), (2, half, 2, m))
    return [*((s, True) for s in fits), *((s, False) for s in beyond)]


def second_to_last(m: int) -> list[tuple[Shape, bool]]:
    """Shapes for (0, 2, 3, 1): channels and width multiples of `m`, batch 1."""
    half = m // 2
    fits = ((1, m, m, m), (1, m, 3, m), (1, 2 * m, 5, m), (1, m, 1, m))
    beyond = ((1, m, m, half), (1, m, m, m - 1), (1, half, m, m), (1, m + 1, m, m), (2, m, m, m))
    return [*((s, True) for s in fits), *((s, False) for s in beyond)]


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


def static_permute_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.permute_copy.default: the transpositions the NPU can do; alone, without a layout."""
    code, m = "transposition", transposable(limits)
    u = permute((1, m, 3, m), (0, 2, 3, 1))
    known = [(s, (0, 3, 1, 2), good) for s, good in last_to_second(m)]
    known += [(s, (0, 2, 3, 1), good) for s, good in second_to_last(m)]
    return [
        *(limit(code, f"{sizes_of(s)}_by_{label(p)}", permute(s, p)) for s, p in INVARIANT),
        *((limit if good else outside)(code, f"{sizes_of(s)}_by_{label(p)}", permute(s, p)) for s, p, good in known),
        *(outside(code, f"{sizes_of(s)}_by_{label(p)}", permute(s, p)) for s, p in NEVER),
        limit(code, "negative_dims", permute((1, m, m, m), (0, -2, -1, 1))),
        *_permute_layouts(code),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", u, behind_abs),
        *layout_values(u),
        *layout_values(permute((1, m // 2, 2, m), (0, 3, 1, 2)), label="_back"),
        *rank_limit(limits, _ones_exchanged),
    ]


def _ones_exchanged(shape: Shape) -> Call:
    """Some dimension of size 1, of which `rank_limit`'s shapes have several, moves to the prefix."""
    shape = shape if 1 in shape else (*shape[:-2], 1, *shape[-1:])
    first = shape.index(1)
    return permute(shape, (first, *(dim for dim in range(len(shape)) if dim != first)))


def _order(shape: Shape, order: Shape) -> str:
    return f"{sizes_of(shape)}_by_{label(order)}"


def _permute_layouts(code: str) -> list[CaseDraft]:
    """Between a convolution and the layout-free rest of the model, orders merge with the layout's own."""
    first_to_last = ((1, 8, 8, 8), (1, 8, 3, 3), (1, 5, 3, 7))
    to_conv = ((1, 5, 7, 3), (1, 8, 8, 8))
    return [
        *(limit(code, f"behind_conv_{sizes_of(s)}", permute(s, (0, 2, 3, 1)), behind_conv) for s in first_to_last),
        *(limit(code, f"before_conv_{sizes_of(s)}", into_conv(permute(s, (0, 3, 1, 2)), s[3])) for s in to_conv),
        outside(code, "behind_conv_5x3x7_by_0_3_2_1", permute((1, 5, 3, 7), (0, 3, 2, 1)), behind_conv),
        outside(code, "behind_conv_8x3x7_by_0_1_3_2", permute((1, 8, 3, 7), (0, 1, 3, 2)), behind_conv),
        limit(code, "behind_conv_identity", permute((1, 8, 3, 7), (0, 1, 2, 3)), behind_conv),
    ]


# ------------------------------------------------------------------------------------ floats


FLOAT_ORDERS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
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


def float_permute_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.permute_copy.default: every order."""
    subject = Subject(_reversed, config=Config("PermuteConfig", FLOAT_STATIC), whole=True)
    drafts = everywhere(subject, precision, limits)
    for shape, order in FLOAT_ORDERS if precision != "fp16" else FLOAT_ORDERS[:3]:
        u = _permuted(precision, shape, order)
        drafts.append(accepted(f"shape_{sizes_of(shape)}_order_{label(order)}", u.with_x(fill=RAMP)))
    u = subject.call(precision)
    return [*drafts, *float_layout_values(u), *(float_same_qparams(u) if is_static(precision) else ())]


def _reversed(precision: str, shape: tuple[int, ...]) -> Call:
    return _permuted(precision, shape, tuple(reversed(range(len(shape)))))


def _permuted(precision: str, shape: tuple[int, ...], order: tuple[int, ...]) -> Call:
    return call_on(PERMUTE, real("x", shape, precision), precision, order)


# ------------------------------------------------------------------------------------ integers


Orders = Sequence[tuple[Shape, Shape]]
NEIGHBOURS, REVERSED, FIVE = (1, 0, 2, 3), (3, 2, 1, 0), (0, 2, 1, 4, 3)
PERMUTE_KEPT: Orders = (
    ((LARGE, 1), (1, 0)), ((1, 2, 256, 256), NEIGHBOURS), ((256, 3, 2, 256), REVERSED), ((3, 32, 2, 64, 32), FIVE)
)  # fmt: skip
PERMUTE_PAST: Orders = (
    ((LARGE + 1, 1), (1, 0)), ((1, 2, 256, 257), NEIGHBOURS), ((256, 3, 2, 257), REVERSED), ((3, 32, 2, 65, 32), FIVE)
)  # fmt: skip
WIDE_KEPT: Orders = (((LARGE, 1), (1, 0)), ((2, 3, 128, 128), NEIGHBOURS), ((128, 3, 2, 128), REVERSED))
WIDE_PAST: Orders = (((LARGE + 1, 1), (1, 0)), ((2, 3, 128, 129), NEIGHBOURS), ((128, 3, 2, 129), REVERSED))
"""Shapes and orders on either side of what Ethos-U55 transposes: of codes, and of int32."""


def permute_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Long dimensions on Ethos-U55."""
    wide = precision == "integers"
    for side, shapes in ((limit, WIDE_KEPT if wide else PERMUTE_KEPT), (outside, WIDE_PAST if wide else PERMUTE_PAST)):
        for shape, order in shapes:
            u = subject.call(precision, shape)
            yield side("transposition", f"{sizes_of(shape)}_by_{label(order)}", replace(u, args=(X, order)))


def idle_order(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """An order that changes nothing is one that computes nothing."""
    u = subject.call(precision)
    same = replace(u, args=(X, tuple(range(len(u.x.shape)))))
    yield limit("not_alone", "identity_behind_abs", same, behind_abs)
    yield outside("not_alone", "identity_alone", same)


def integer_permute_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.permute_copy.default: every order."""
    row = Layout(
        lambda shape: call("aten.permute_copy.default", shape, tuple(reversed(range(len(shape))))),
        ORDERS,
        shape=(2, 3, 4, 5),
        shapes=((3, 5), (2, 3, 4)),
    )
    subject = row.subject
    return [
        *layout(row, precision, limits),
        *idle_order(subject, precision, limits),
        *(permute_limits(subject, precision, limits) if "transposition" in limits else ()),
    ]


ORDERS = tuple(
    (f"order_{label(order)}", (order,))
    for order in ((0, 2, 3, 1), (0, 3, 1, 2), (1, 0, 2, 3), (0, 1, 3, 2), (-1, 0, -2, 1), (3, 1, 2, 0))
)


def flip_limits(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Height or width of an image on Ethos-U55; nothing is one that computes nothing."""
    u = subject.call(precision)
    several = (("batch", (0,)), ("width", (3,)), ("two", (1, 2)), ("all", (0, 1, 2, 3)))
    if "dims" not in limits:
        for name, dims in several:
            yield accepted(name, replace(u, args=(X, dims)))
        yield limit("not_alone", "nothing_behind_abs", replace(u, args=(X, ())), behind_abs)
        yield outside("not_alone", "nothing_alone", replace(u, args=(X, ())))
        yield accepted("matrix", replace(subject.call(precision, (3, 5)), args=(X, (1,))))
        return
    listed = limits.some_of("dims", (1, 2))
    for dim in listed:
        yield limit("dims", f"dim_{dim}", replace(u, args=(X, (dim,))))
    yield limit("dims", "dim_minus_2", replace(u, args=(X, (-2,))))
    for name, dims in several:
        yield outside("dims", name, replace(u, args=(X, dims)))
    yield outside("dims", "rank_3", subject.call(precision, (2, 3, 4)))


FAMILIES: Mapping[str, Family] = {
    "aten.flip.default": Family(
        integers=with_limits(Layout(on("aten.flip.default", (2,)), shapes=(), deep=False), flip_limits)
    ),
    PERMUTE: Family(
        plain=_plain_permute, static=static_permute_cases, floats=float_permute_cases, integers=integer_permute_cases
    ),
}
