"""Average pools, with windows of a size or for results of a size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.around import behind_abs, behind_conv
from npu_assay.conformance.cases.drafts import CaseDraft, accepted, inside, limit, outside, placed, silent, valued
from npu_assay.conformance.cases.families.pooling.windows import (
    ADAPTIVE,
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
    window_sizes,
    windows,
    windows1d,
)
from npu_assay.conformance.cases.family import Family
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, call, model, quant
from npu_assay.conformance.cases.pieces.contexts import contexts
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.placed import on_image
from npu_assay.conformance.cases.pieces.quantization import same_qparams
from npu_assay.conformance.cases.pieces.sizes import CHANNELS, LARGE, Arguments, listed
from npu_assay.conformance.cases.pieces.spelling import is_static
from npu_assay.conformance.cases.pieces.subject import FLOAT_STATIC, Config, Subject
from npu_assay.conformance.cases.pieces.values import SCATTERED, float_layout_values, layout_values, named

# ------------------------------------------------------------------------------------ static int8


AVG2 = "aten.avg_pool2d.default"
AVG1 = "aten.avg_pool1d.default"


def static_avg_pool2d_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.avg_pool2d.default."""
    limits.fixed("rank", 4)
    limits.fixed("ceil_mode", False)
    m = limits.multiple(CHANNELS)
    big = big_image(m)
    u = call(AVG2, big, (2, 3), (2, 1))
    return [
        *rank2d(AVG2, m),
        *ceil2d(AVG2, m, 2),
        *_include_pad(AVG2, big),
        *_divisor_override(big),
        *windows(AVG2, big, _FREE_STRIDES),
        *(accepted(f"shape_{'x'.join(map(str, s))}", u.with_x(shape=s)) for s in FREE_SHAPES),
        *same_qparams(u),
        *pool_contexts(u),
        *layout_values(call(AVG2, big, (3, 2), (2, 1), (1, 0)), label="_padded"),
        *layout_values(u),
    ]


FREE_SHAPES = ((2, 8, 4, 5), (1, 1, 4, 5), (1, 3, 5, 4), (3, 5, 2, 3))
_FREE_STRIDES: Sequence[tuple[str, tuple[object, ...]]] = (
    ("stride_3_2", ((2, 2), (3, 2))),
    ("stride_2_3", ((2, 2), (2, 3))),
    ("stride_beyond_kernel", ((2, 2), (4, 5))),
    ("whole_image", ((9, 10), (1, 1))),
)


def _include_pad(op: str, shape: tuple[int, ...]) -> list[CaseDraft]:
    """count_include_pad = False counts only where something is padded; either axis suffices."""
    code, one = "count_include_pad", len(shape) == 3
    sides = ((1,),) if one else ((1, 1), (1, 0), (0, 1))
    kernel, stride, none = ((3,), (1,), (0,)) if one else ((3, 3), (1, 1), (0, 0))
    return [
        limit(code, "false_without_padding", call(op, shape, *_fit(one), none, False, False)),
        limit(code, "false_by_name", call(op, shape, *_fit(one), count_include_pad=False)),
        *(limit(code, f"true_{listed(p)}", call(op, shape, kernel, stride, p, False, True)) for p in sides),
        *(inside(code, f"default_{listed(p)}", call(op, shape, kernel, stride, p)) for p in sides),
        *(outside(code, f"false_{listed(p)}", call(op, shape, kernel, stride, p, False, False)) for p in sides),
        outside(code, "false_padding_1", call(op, shape, kernel, stride, 1, count_include_pad=False)),
    ]


def _fit(one: bool) -> tuple[object, ...]:
    return ((2,), (2,)) if one else ((2, 2), (2, 2))


def _divisor_override(big: tuple[int, ...]) -> list[CaseDraft]:
    head = ((2, 2), (2, 2), (0, 0), False, True)
    return [
        limit("divisor_override", "left_out", call(AVG2, big, *head)),
        limit("divisor_override", "none", call(AVG2, big, *head, None)),
        *(outside("divisor_override", f"{n}", call(AVG2, big, *head, n)) for n in (3, 4, 5, 1000)),
        outside("divisor_override", "by_name", call(AVG2, big, (2, 2), divisor_override=7)),
        outside("divisor_override", "as_1", call(AVG2, big, *head, 1, y=quant(0.2, 3), x=quant(0.2, 3))),
    ]


def static_avg_pool1d_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.avg_pool1d.default: a 2-D pool of height 1 between two reshapes."""
    limits.fixed("rank", 3)
    limits.fixed("ceil_mode", False)
    m = limits.multiple(CHANNELS)
    line = line_shape(m)
    u = call(AVG1, line, (2,), (2,))
    return [
        *rank1d(AVG1, m),
        *ceil1d(AVG1, m),
        *_include_pad(AVG1, line),
        *windows1d(AVG1, m),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", u, behind_abs),
        silent("operator", "lengths_not_multiples_of_8", call(AVG1, (1, 3, 7), (2,), (2,))),
        silent("operator", "batch_2", call(AVG1, (2, 8, 16), (2,), (2,))),
        accepted("channels_1", call(AVG1, (1, 1, 7), (2,), (2,))),
        accepted("channels_16", call(AVG1, (1, 16, 16), (2,), (2,))),
        *layout_values(call(AVG1, line, (3,), (1,), (1,)), label="_padded"),
        *layout_values(u),
    ]


def static_adaptive_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten._adaptive_avg_pool2d.default: output sizes that divide the input's."""
    limits.fixed("rank", 4)
    code = "output_divides_input"
    fits = (((8, 8), (4, 4)), ((8, 8), (8, 8)), ((8, 6), (4, 3)), ((9, 10), (3, 5)), ((7, 5), (1, 1)), ((7, 5), (7, 1)))
    beyond = (
        ((9, 8), (4, 4)),
        ((8, 9), (4, 4)),
        ((7, 8), (4, 2)),
        ((8, 7), (2, 4)),
        ((9, 10), (4, 3)),
        ((5, 4), (4, 4)),
    )
    more = (((4, 4), (8, 8)), ((4, 4), (5, 4)), ((4, 4), (4, 5)))
    u = call(ADAPTIVE, (1, 8, 8, 6), (4, 3))
    return [
        *rank2d(ADAPTIVE, 8, (4, 4)),
        *(limit(code, _sizes(i, o), call(ADAPTIVE, (1, 8, *i), o)) for i, o in fits),
        *(outside(code, _sizes(i, o), call(ADAPTIVE, (1, 8, *i), o)) for i, o in (*beyond, *more)),
        *(accepted(f"shape_{'x'.join(map(str, s))}", call(ADAPTIVE, s, (2, 1))) for s in ADAPTIVE_SHAPES),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", u, behind_abs),
        *(placed(f"behind_conv_channels_{c}", u.with_x(shape=(1, c, 8, 6)), behind_conv) for c in (8, 5, 1)),
        *layout_values(u),
    ]


ADAPTIVE_SHAPES = ((2, 8, 4, 5), (1, 1, 4, 5), (1, 3, 6, 4), (3, 5, 2, 3))


def _sizes(size: tuple[int, ...], out: tuple[int, ...]) -> str:
    return f"{size[0]}x{size[1]}_to_{out[0]}x{out[1]}"


# ------------------------------------------------------------------------------------ floats


def float_avg_pool_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.avg_pool2d.default: windows inside the image; padding does not count."""
    limits.fixed("rank", 4)
    limits.fixed("ceil_mode", False)

    def pool(*arguments: Any, **more: Any) -> Any:
        return model(float_pool(AVG2, precision, *arguments, **more))

    subject = Subject(
        _avg,
        deep=False,
        config=Config("AvgPoolingConfig", FLOAT_STATIC),
        shape=PICTURE,
        single=(1, 1, 2, 2),
        empty=EMPTY,
        open=OPEN_PICTURE,
        converts=True,
    )
    drafts = everywhere(subject, precision, limits)
    windows = (
        ("2_as_a_number", (2,)),
        ("2_in_a_list", ((2,),)),
        ("empty_stride", ((2, 2), ())),
        ("3_by_2_stride_1", ((3, 2), (1, 1))),
        ("2_by_3_stride_2_1", ((2, 3), (2, 1))),
        ("1_by_1", ((1, 1),)),
        ("stride_beyond_kernel", ((2, 2), (3, 4))),
        ("whole_image", ((6, 7),)),
        ("five_by_five", ((5, 5), (1, 1))),
    )
    drafts += [accepted(f"window_{name}", pool(*arguments)) for name, arguments in windows]
    three = ((3, 3), (2, 2))
    drafts += [
        limit("rank", "4", pool((2, 2), shape=(2, 2, 4, 4))),
        outside("rank", "3", pool((2, 2), shape=(3, 4, 4))),
        limit("ceil_mode", "false", pool(*three, (0, 0), False)),
        outside("ceil_mode", "true", pool((2, 2), (2, 2), (0, 0), True)),
        limit("count_include_pad", "false_with_padding", pool(*three, (1, 1), False, False)),
        limit("count_include_pad", "false_with_padding_as_a_number", pool(3, 2, 1, False, False)),
        limit("count_include_pad", "false_with_vertical_padding", pool(*three, (1, 0), False, False)),
        limit("count_include_pad", "false_with_horizontal_padding", pool(*three, (0, 1), False, False)),
        limit("count_include_pad", "true_without_padding", pool(*three, (0, 0), False, True)),
        outside("count_include_pad", "true_with_padding", pool(*three, (1, 1), False, True)),
        outside("count_include_pad", "left_out_with_padding", pool(*three, (1, 1))),
        outside("count_include_pad", "true_with_vertical_padding", pool(*three, (1, 0), False, True)),
        outside("count_include_pad", "true_with_horizontal_padding", pool(*three, (0, 1), False, True)),
        limit("divisor_override", "none", pool((2, 3), (2, 2), (0, 0), False, True, None)),
        limit("divisor_override", "size_of_the_window", pool((2, 3), (2, 2), (0, 0), False, True, 6)),
        *(
            outside("divisor_override", str(divisor), pool((2, 3), (2, 2), (0, 0), False, True, divisor))
            for divisor in (5, 7, 1)
        ),
        outside("divisor_override", "size_of_the_window_with_padding", pool(*three, (1, 1), False, False, 9)),
    ]
    u = float_pool(AVG2, precision, (3, 3), (1, 1), (1, 1), False, False)
    drafts += float_layout_values(u)
    if is_static(precision):
        for x, y in (
            (quant(0.05, -128), quant(0.05, -128)),
            (quant(0.05, 3), quant(0.03, -9)),
            (quant(0.1), quant(0.2, 127)),
        ):
            wide = _avg(precision, (1, 4, 8, 8)).with_x(quant=x, fill=SCATTERED)
            drafts.append(valued(f"codes_{named(x)}_to_{named(y)}", replace(wide, y=y)))
    return drafts


def _avg(precision: str, shape: tuple[int, ...]) -> Call:
    return float_pool(AVG2, precision, (2, 2), (1, 1), shape=shape)


# ------------------------------------------------------------------------------------ integers


def integer_average_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.avg_pool2d.default."""
    window = Window(AVG2, ((2, 3), (2, 1)), AVERAGES, ((1, 1, 5, 7),))
    drafts = [
        *integer_window(window, precision, limits),
        *window_sizes(window, precision, limits),
        *kernels(window, precision, limits),
    ]
    if "stride" in limits:
        limits.value("stride", ())
        for stride in ((3, 1), (1, 3)):
            drafts.append(limit("stride", f"{stride[0]}x{stride[1]}", window.of(precision, WINDOWED, (2, 2), stride)))
        for stride in ((4, 1), (1, 4)):
            drafts.append(outside("stride", f"{stride[0]}x{stride[1]}", window.of(precision, WINDOWED, (2, 2), stride)))
    if "divided_window" in limits:
        height, area = limits.pair("divided_window", (64, 4096), 2, LARGE)
        divided = ((1, 1), (0, 0), False, True, 3)
        for rows, columns, side in (
            (height, 1, limit),
            (height + 1, 1, outside),
            (height, area // height, limit),
            (height, area // height + 1, outside),
        ):
            pooled = window.of(precision, (1, 1, rows, columns + 1), (rows, columns), *divided)
            drafts.append(side("divided_window", f"{rows}x{columns}", pooled))
    if "padded_kernel" in limits:
        most = limits.number("padded_kernel", 8, 2, 16)
        image, padding = (1, 2, most + 4, most + 4), (1, 1)
        for kernel, side in (((most, most), limit), ((most + 1, 2), outside), ((2, most + 1), outside)):
            name = f"{kernel[0]}x{kernel[1]}"
            drafts.append(
                side("padded_kernel", name, window.of(precision, image, kernel, (1, 1), padding, False, False))
            )
        larger = (most + 1, most + 1)
        drafts.append(accepted("larger_counts_padding", window.of(precision, image, larger, (1, 1), padding)))
        drafts.append(accepted("larger_unpadded", window.of(precision, image, larger, (1, 1), (0, 0), False, False)))
    return drafts


AVERAGES: Arguments = (
    ("stride_left_out", ((2, 3),)),
    ("one_number", ((2,),)),
    ("padded", ((3, 2), (1, 2), (1, 0))),
    ("ceil_mode", ((3, 3), (2, 2), (1, 1), True)),
    ("without_padding", ((3, 2), (2, 2), (1, 1), False, False)),
    ("ceil_mode_without_padding", ((3, 3), (2, 2), (1, 1), True, False)),
    ("divisor", ((2, 2), (2, 2), (0, 0), False, True, 3)),
    ("divisor_padded", ((3, 3), (2, 2), (1, 1), True, True, 5)),
    ("whole_image", ((6, 8), (1, 1))),
)


def integer_adaptive_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten._adaptive_avg_pool2d.default: any size."""
    more: Arguments = (("single", ((1, 1),)), ("uneven", ((4, 3),)), ("more_uneven", ((5, 7),)), ("same", ((6, 8),)))
    window = Window(ADAPTIVE, ((2, 4),), more, ((1, 1, 4, 8),))
    return [
        *integer_window(window, precision, limits),
        *window_sizes(window, precision, limits),
        *kernels(window, precision, limits),
    ]


FAMILIES: Mapping[str, Family] = {
    ADAPTIVE: Family(plain=on_image(ADAPTIVE, (4, 2)), static=static_adaptive_cases, integers=integer_adaptive_cases),
    AVG1: Family(plain=plain_pool(AVG1, (2,), (2,)), static=static_avg_pool1d_cases),
    AVG2: Family(
        plain=plain_pool(AVG2, (2, 3), (2, 1)),
        static=static_avg_pool2d_cases,
        floats=float_avg_pool_cases,
        integers=integer_average_cases,
    ),
}
