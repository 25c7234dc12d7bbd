"""Maximum pools, with their indices or without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside, placed, silent, valued
from npu_assay.conformance.cases.families.pooling.windows import (
    EMPTY,
    OPEN_PICTURE,
    PICTURE,
    WINDOWED,
    Window,
    big_image,
    ceil1d,
    ceil2d,
    float_pool,
    integer_window,
    kernels,
    line_shape,
    plain_pool,
    pool_contexts,
    rank1d,
    rank2d,
    vertical_stride,
    window_sizes,
    windows,
    windows1d,
)
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits, around, past
from npu_assay.conformance.cases.make import SUBJECT, Call, call, label, model, sizes_of
from npu_assay.conformance.cases.permitted import vertical_strides
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.placed import Placed
from npu_assay.conformance.cases.pieces.quantization import float_same_qparams, same_qparams
from npu_assay.conformance.cases.pieces.sizes import CHANNELS, Arguments, listed
from npu_assay.conformance.cases.pieces.spelling import integers, is_static, opened
from npu_assay.conformance.cases.pieces.subject import FLOAT_STATIC, Config, Subject
from npu_assay.conformance.cases.pieces.values import float_layout_values, layout_values
from npu_assay.conformance.programs.graph import Fill, Graph, Ref

# ------------------------------------------------------------------------------------ static int8


def _max_pool(op: str) -> Callable[[Limits], Placed]:
    """As many rows at a time as are permitted."""

    def place(limits: Limits) -> Placed:
        return plain_pool(op, (2, 3), (max(vertical_strides(limits)), 1))(limits)

    return place


MAX2 = "aten.max_pool2d.default"
MAX1 = "aten.max_pool1d.default"
INDICES = "aten.max_pool2d_with_indices.default"


def static_max_pool2d_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.max_pool2d.default and aten.max_pool2d_with_indices.default."""
    _fixed(limits, rank=4)
    m, strides = limits.multiple(CHANNELS), vertical_strides(limits)
    most, big = max(strides), big_image(m)
    u = call(op, big, (2, 3), (most, 1))
    window = ((2, 2), (most, 2))
    return [
        *rank2d(op, m, *window),
        *_dilations(op, big, window),
        *ceil2d(op, m, most),
        *_channels(op, window, (4, 5), m),
        *_batches(op, window, (4, 5), m),
        *_vertical_strides(op, big, strides),
        *_long_strides(op, (1, m, 3, 5), limits),
        *windows(op, big, (), strides),
        *same_qparams(u),
        *pool_contexts(u, (m,)),
        *layout_values(call(op, big, (3, 2), (most, 1), (1, 0)), label="_padded"),
        *layout_values(u),
    ]


def _fixed(limits: Limits, rank: int) -> None:
    """What maximum pools are written for."""
    limits.fixed("rank", rank)
    limits.fixed("dilation", 1)
    limits.fixed("ceil_mode", False)
    limits.fixed("batch", 1)


def static_max_pool2d_with_indices_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """As max_pool2d, and nobody may use the indices."""
    u = call(INDICES, big_image(limits.multiple(CHANNELS)), (2, 3), (max(vertical_strides(limits)), 1), outputs=2)
    alone = replace(u, outputs=1)
    returned = model(u)
    only = Graph(u.values, model(u).steps, (Ref(SUBJECT, 1),))
    return [
        *static_max_pool2d_cases(INDICES, precision, limits),
        limit("indices_unused", "values_only", alone),
        outside("indices_unused", "returned", returned),
        outside("indices_unused", "returned_behind_abs", u, behind_abs),
        silent("indices_unused", "only_indices_returned", only),
    ]


def _dilations(op: str, big: tuple[int, ...], window: tuple[object, ...]) -> list[CaseDraft]:
    head = (*window, (0, 0))
    return [
        *(limit("dilation", listed(d), call(op, big, *head, d)) for d in (1, (1,), (1, 1))),
        *(outside("dilation", listed(d), call(op, big, *head, d)) for d in (2, (2,), (2, 2), (2, 1), (1, 2), (1, 3))),
        outside("dilation", "by_name", call(op, big, *head, dilation=2)),
        outside("dilation", "2_behind_conv", call(op, big, *head, 2), behind_conv),
    ]


def _channels(op: str, rest: tuple[object, ...], size: tuple[int, ...], m: int) -> list[CaseDraft]:
    """Dimension 1: a pool's values are channels-first."""
    code, less = CHANNELS, m - 1
    beside = past(m, less, m + 1)
    return [
        *(limit(code, f"{c}", call(op, (1, c, *size), *rest)) for c in (m, 2 * m, 3 * m)),
        *(outside(code, f"{c}", call(op, (1, c, *size), *rest)) for c in around(m)),
        *(outside(code, f"{c}_behind_conv", call(op, (1, c, *size), *rest), behind_conv) for c in beside),
        outside(code, f"{less}_other_sizes_{m}", call(op, (1, less, *(m for _ in size)), *rest)),
    ]


def _batches(op: str, rest: tuple[object, ...], size: tuple[int, ...], m: int) -> list[CaseDraft]:
    return [
        limit("batch", "1", call(op, (1, m, *size), *rest)),
        *(outside("batch", f"{n}", call(op, (n, m, *size), *rest)) for n in (2, 8)),
    ]


def _vertical_strides(op: str, big: tuple[int, ...], strides: Sequence[int]) -> list[CaseDraft]:
    """So many rows at a time; columns are free. Left out or empty, the stride is the kernel's size."""
    code, most = "stride_h", max(strides)
    beyond = [h for h in dict.fromkeys((*range(1, most), most + 1, most + 2, 9)) if h not in strides]
    spelled: Sequence[tuple[str, tuple[object, ...]]] = (
        ("3", ((3, 3), 3)),
        ("list_3", ((3, 3), (3,))),
        ("kernel_3_default", ((3, 3),)),
        ("kernel_3_empty", ((3, 3), ())),
        ("kernel_list_3_default", ((3,),)),
        ("kernel_int_3_default", (3,)),
        ("kernel_3_2_default", ((3, 2),)),
    )

    def judged(variant: str, *rest: object) -> CaseDraft:
        side = limit if vertical_stride(*rest) in strides else outside
        return side(code, variant, call(op, big, *rest))

    return [
        *(limit(code, f"{h}_{w}", call(op, big, (2, 2), (h, w))) for h in strides for w in (1, 2, 3, 5, 9)),
        judged("kernel_2_3_default", (2, 3)),
        *(outside(code, f"{h}_{w}", call(op, big, (2, 2), (h, w))) for h in beyond for w in (1, 2, 3)),
        *(judged(variant, *rest) for variant, rest in spelled),
        outside(code, f"{most + 1}_behind_conv", call(op, big, (2, 2), (most + 1, 1)), behind_conv),
    ]


def _long_strides(op: str, shape: tuple[int, ...], limits: Limits) -> list[CaseDraft]:
    """Strides below a limit, each of them; past the image, so that few windows are left."""
    code, beyond = "stride_below", limits.number("stride_below", 4096, 16, 2**16)
    most = beyond - 1
    window = (2,) * (len(shape) - 2)

    def at(*strides: int) -> Call:
        return call(op, shape, window, strides)

    if len(shape) == 3:
        return [
            limit(code, f"{most}", at(most)),
            outside(code, f"{beyond}", at(beyond)),
            outside(code, f"{2 * beyond}", at(2 * beyond)),
        ]
    fits, past = ((most, 1), (1, most), (most, most)), ((beyond, 1), (1, beyond), (beyond, beyond), (most, 2 * beyond))
    return [
        *(limit(code, f"{h}_{w}", at(h, w)) for h, w in fits),
        *(outside(code, f"{h}_{w}", at(h, w)) for h, w in past),
        outside(code, f"kernel_{beyond}_default", call(op, (1, shape[1], 1, beyond), (1, beyond))),
        limit(code, f"kernel_{most}_default", call(op, (1, shape[1], 1, most), (1, most))),
    ]


def static_max_pool1d_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.max_pool1d.default: a 2-D pool of height 1, so that any stride is a horizontal one."""
    _fixed(limits, rank=3)
    m = limits.multiple(CHANNELS)
    line = line_shape(m)
    u = call(MAX1, line, (2,), (2,))
    head = ((2,), (2,), (0,))
    return [
        *rank1d(MAX1, m),
        *(limit("dilation", listed(d), call(MAX1, line, *head, d)) for d in (1, (1,))),
        *(outside("dilation", listed(d), call(MAX1, (1, m, 24), (9,), (1,), (0,), d)) for d in (2, (2,))),
        outside("dilation", "3", call(MAX1, (1, m, 32), (9,), (1,), (0,), 3)),
        *ceil1d(MAX1, m),
        *_channels(MAX1, ((2,), (2,)), (16,), m),
        *_batches(MAX1, ((2,), (2,)), (16,), m),
        *_long_strides(MAX1, (1, m, 16), limits),
        *windows1d(MAX1, m),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", u, behind_abs),
        silent("operator", "lengths_not_multiples_of_8", call(MAX1, (1, m, 7), (2,), (2,))),
        *layout_values(call(MAX1, line, (3,), (1,), (1,)), label="_padded"),
        *layout_values(u),
    ]


# ------------------------------------------------------------------------------------ floats


def float_max_pool_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.max_pool2d.default: windows that leave no gaps."""
    limits.fixed("rank", 4)

    def pool(*arguments: Any, **more: Any) -> Any:
        return model(float_pool(MAX2, precision, *arguments, **more))

    subject = Subject(
        _max,
        deep=False,
        config=Config("MaxPool2dConfig", FLOAT_STATIC),
        shape=PICTURE,
        single=(1, 1, 2, 2),
        empty=EMPTY,
        open=OPEN_PICTURE,
    )
    drafts = everywhere(subject, precision, limits)
    kept = (
        ("2_as_a_number", (2,)),
        ("2_in_a_list", ((2,),)),
        ("empty_stride", ((2, 2), ())),
        ("2_and_2", ((2, 2), (2, 2))),
        ("2_by_3", ((2, 3), (2, 3))),
        ("3_by_2", ((3, 2), (3, 2))),
        ("1_by_1", ((1, 1),)),
        ("1_by_2", ((1, 2),)),
        ("stride_1", ((3, 3), 1)),
    )
    past = (
        ("2_and_3", ((2, 2), (3, 3))),
        ("as_numbers", (2, 3)),
        ("vertical_only", ((2, 3), (3, 3))),
        ("horizontal_only", ((3, 2), (3, 3))),
        ("1_by_1", ((1, 1), (2, 2))),
    )
    u = subject.call(precision)
    ceil = float_pool(MAX2, precision, (3, 3), (2, 2), (0, 0), (1, 1), True)
    flat = float_pool(MAX2, precision, (3, 3), (2, 2), (0, 0), (1, 1), False)
    drafts += [
        *(limit("stride_within_kernel", name, pool(*arguments)) for name, arguments in kept),
        *(outside("stride_within_kernel", name, pool(*arguments)) for name, arguments in past),
        limit("rank", "4", pool((2, 2), shape=(2, 2, 4, 4))),
        outside("rank", "3", pool((2, 2), shape=(3, 4, 4))),
        limit("static_ceil_mode", "true_with_known_sizes", ceil),
        limit("static_ceil_mode", "false_with_open_sizes", opened(flat, (2, 3))),
        *(
            outside("static_ceil_mode", f"true_with_open_axis_{label(axes)}", opened(ceil, axes))
            for axes in ((0,), (2,), (3,), (0, 2, 3))
        ),
        accepted("padding", pool((3, 3), (2, 2), (1, 1))),
        accepted("vertical_padding", pool((3, 3), (2, 2), (1, 0))),
        accepted("horizontal_padding", pool((3, 3), (2, 2), (0, 1))),
        accepted("dilation", pool((2, 2), (1, 1), (0, 0), (2, 2))),
        accepted("vertical_dilation", pool((2, 2), (1, 1), (0, 0), (2, 1))),
        valued("below_zero_with_padding", _padded_max(precision).with_x(fill=Fill("min"))),
        *float_layout_values(_padded_max(precision)),
    ]
    return [*drafts, *float_same_qparams(u)] if is_static(precision) else drafts


def _max(precision: str, shape: tuple[int, ...]) -> Call:
    return float_pool(MAX2, precision, (2, 2), (1, 1), shape=shape)


def _padded_max(precision: str) -> Call:
    return float_pool(MAX2, precision, (3, 3), (2, 2), (1, 1))


# ------------------------------------------------------------------------------------ integers


MAXIMA: Arguments = (
    ("stride_left_out", ((3, 2),)),
    ("padded", ((2, 3), (1, 2), (0, 1))),
    ("ceil_mode", ((3, 3), (2, 2), (1, 1), (1, 1), True)),
    ("dilated", ((2, 2), (1, 1), (0, 0), (2, 3))),
    ("dilated_and_padded", ((2, 3), (1, 1), (1, 1), (2, 1))),
    ("side_by_side", ((2, 4), (2, 4))),
    ("whole_image", ((6, 8), (1, 1))),
)


def integer_maximum_cases(op: str, precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.max_pool2d.default and the form with indices, of which nobody may take these."""
    window = Window(op, ((2, 3), (1, 2)), MAXIMA, ((1, 1, 5, 7),))
    drafts = [
        *integer_window(window, precision, limits),
        *window_sizes(window, precision, limits),
        *kernels(window, precision, limits),
    ]
    undilated: Arguments = (
        ("both_1", ((2, 2), (1, 1), (0, 0), (2, 3))),
        ("undilated", ((2, 2), (2, 3), (0, 0), (1, 1))),
    )
    for name, args in undilated:
        drafts.append(limit("dilation_stride", name, window.of(precision, WINDOWED, *args)))
    single = ((2, 2), (3, 2), (0, 0), (5, 7))
    drafts.append(limit("dilation_stride", "single_pixel", window.of(precision, WINDOWED, *single)))
    for name, args in (("height", ((2, 2), (2, 1), (0, 0), (2, 1))), ("width", ((2, 2), (1, 2), (0, 0), (1, 3)))):
        drafts.append(outside("dilation_stride", name, window.of(precision, WINDOWED, *args)))
    if "stride_or_window" in limits:
        kept: Arguments = (("3", ((2, 2), (3, 3))), ("window", ((4, 5), (4, 5))), ("one_row", ((1, 4), (1, 4))))
        drafts += [limit("stride_or_window", name, window.of(precision, WINDOWED, *args)) for name, args in kept]
        past: Arguments = (
            ("4_of_another_window", ((2, 2), (4, 1))),
            ("4_wide", ((2, 2), (1, 4))),
            ("window_padded", ((4, 4), (4, 4), (1, 1))),
            ("window_ceil_mode", ((4, 5), (4, 5), (0, 0), (1, 1), True)),
        )
        drafts += [outside("stride_or_window", name, window.of(precision, WINDOWED, *args)) for name, args in past]
    drafts += _dilated_sizes(window, precision, limits)
    u = window.subject.call(precision)
    if op == INDICES:
        drafts.append(limit("indices_unused", "values_only", u))
        both = Graph(model(u).values, (replace(model(u).steps[0], outputs=2),), (Ref(SUBJECT), Ref(SUBJECT, 1)))
        drafts.append(outside("indices_unused", "indices_returned", both))
    if "code_dtype" in limits:
        limits.value("code_dtype", ())
        drafts.append(limit("code_dtype", "codes", u))
        plain = replace(u, values=(integers("x", WINDOWED),), y=None)
        drafts.append(outside("code_dtype", "int32", plain))
    return drafts


def _dilated_sizes(window: Window, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Numbers of a row, pixels of every other column, and gaps between windows of one number, on Ethos-U55."""
    if "dilated_size" not in limits:
        return
    most = limits.number("dilated_size", 65536, 1024, 65536)
    for more, side in ((0, limit), (1, outside)):
        for name, shape, kernel, gaps in (
            ("numbers_of_a_row", (1, most // 2 + more, 3, 2), (2, 1), (2, 1)),
            ("pixels", (1, 1, most // 256 + more, 512), (1, 2), (1, 2)),
            ("gaps", (1, 1, 2, 1), (1, 1), (most + more, most + more)),
        ):
            used = window.of(precision, shape, kernel, (1, 1), (0, 0), gaps)
            yield side("dilated_size", f"{name}_{sizes_of(shape)}", used)


FAMILIES: Mapping[str, Family] = {
    INDICES: Family(
        plain=_max_pool(INDICES),
        static=static_max_pool2d_with_indices_cases,
        integers=partial(integer_maximum_cases, INDICES),
    ),
    MAX1: Family(plain=plain_pool(MAX1, (2,), (2,)), static=static_max_pool1d_cases),
    MAX2: Family(
        plain=_max_pool(MAX2),
        static=partial(static_max_pool2d_cases, MAX2),
        floats=float_max_pool_cases,
        integers=partial(integer_maximum_cases, MAX2),
    ),
}
