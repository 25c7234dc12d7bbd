"""Operators on images and along axes: pools, mean, upsampling, softmax, batches of matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Draft,
    Use,
    X,
    accepted,
    filled,
    label,
    limit,
    model,
    outside,
    quant,
    sizes_of,
    valued,
)
from npu_assay.conformance.cases.shared import SCATTERED, named
from npu_assay.conformance.cases.typed.common import FLOAT_STATIC, Family, Subject, everywhere
from npu_assay.conformance.cases.typed.layout import moved, same_qparams
from npu_assay.conformance.cases.typed.spelling import IMAGE, is_static, opened, real, result, use, with_x
from npu_assay.conformance.programs.graph import Fill, Ref

AVG_POOL, MAX_POOL = "aten.avg_pool2d.default", "aten.max_pool2d.default"
MEAN, UPSAMPLE = "aten.mean.dim", "aten.upsample_bilinear2d.vec"
SOFTMAX, BMM = "aten._softmax.default", "aten.bmm.default"
PICTURE = (1, 3, 6, 7)
OPEN_PICTURE = ((0,), (2, 3), (0, 2, 3))
EMPTY = (0, 3, 6, 7)


def _pool(op: str, precision: str, *arguments: Any, shape: tuple[int, ...] = PICTURE) -> Use:
    return use(op, real("x", shape, precision), precision, *arguments)


# ------------------------------------------------------------------------------------ pools


def avg_pool_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.avg_pool2d.default: windows inside the image; padding does not count."""
    limits.fixed("rank", 4)
    limits.fixed("ceil_mode", False)

    def pool(*arguments: Any, **more: Any) -> Any:
        return model(_pool(AVG_POOL, precision, *arguments, **more))

    subject = Subject(
        "AvgPoolingConfig",
        _avg,
        FLOAT_STATIC,
        PICTURE,
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
    u = _pool(AVG_POOL, precision, (3, 3), (1, 1), (1, 1), False, False)
    drafts += moved(u)
    if is_static(precision):
        for x, y in (
            (quant(0.05, -128), quant(0.05, -128)),
            (quant(0.05, 3), quant(0.03, -9)),
            (quant(0.1), quant(0.2, 127)),
        ):
            wide = with_x(_avg(precision, (1, 4, 8, 8)), quant=x, fill=SCATTERED)
            drafts.append(valued(f"codes_{named(x)}_to_{named(y)}", model(replace(wide, y=y))))
    return drafts


def _avg(precision: str, shape: tuple[int, ...]) -> Use:
    return _pool(AVG_POOL, precision, (2, 2), (1, 1), shape=shape)


def max_pool_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.max_pool2d.default: windows that leave no gaps."""
    limits.fixed("rank", 4)

    def pool(*arguments: Any, **more: Any) -> Any:
        return model(_pool(MAX_POOL, precision, *arguments, **more))

    subject = Subject(
        "MaxPool2dConfig", _max, FLOAT_STATIC, PICTURE, single=(1, 1, 2, 2), empty=EMPTY, open=OPEN_PICTURE
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
    u = subject.use(precision)
    ceil = _pool(MAX_POOL, precision, (3, 3), (2, 2), (0, 0), (1, 1), True)
    flat = _pool(MAX_POOL, precision, (3, 3), (2, 2), (0, 0), (1, 1), False)
    drafts += [
        *(limit("stride_within_kernel", name, pool(*arguments)) for name, arguments in kept),
        *(outside("stride_within_kernel", name, pool(*arguments)) for name, arguments in past),
        limit("rank", "4", pool((2, 2), shape=(2, 2, 4, 4))),
        outside("rank", "3", pool((2, 2), shape=(3, 4, 4))),
        limit("static_ceil_mode", "true_with_known_sizes", model(ceil)),
        limit("static_ceil_mode", "false_with_open_sizes", model(opened(flat, (2, 3)))),
        *(
            outside("static_ceil_mode", f"true_with_open_axis_{label(axes)}", model(opened(ceil, axes)))
            for axes in ((0,), (2,), (3,), (0, 2, 3))
        ),
        accepted("padding", pool((3, 3), (2, 2), (1, 1))),
        accepted("vertical_padding", pool((3, 3), (2, 2), (1, 0))),
        accepted("horizontal_padding", pool((3, 3), (2, 2), (0, 1))),
        accepted("dilation", pool((2, 2), (1, 1), (0, 0), (2, 2))),
        accepted("vertical_dilation", pool((2, 2), (1, 1), (0, 0), (2, 1))),
        valued("below_zero_with_padding", model(filled(_padded_max(precision), Fill("min")))),
        *moved(_padded_max(precision)),
    ]
    return [*drafts, *same_qparams(u)] if is_static(precision) else drafts


def _max(precision: str, shape: tuple[int, ...]) -> Use:
    return _pool(MAX_POOL, precision, (2, 2), (1, 1), shape=shape)


def _padded_max(precision: str) -> Use:
    return _pool(MAX_POOL, precision, (3, 3), (2, 2), (1, 1))


# ------------------------------------------------------------------------------------ mean


def mean_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.mean.dim: over height and width, which stay."""
    limits.fixed("rank", 4)
    limits.fixed("dims", (-2, -1))
    limits.fixed("keepdim", True)
    subject = Subject("MeanDimConfig", _mean, FLOAT_STATIC, IMAGE, open=((0,), (2, 3), (0, 1, 2, 3)))
    drafts = everywhere(subject, precision, limits)

    def mean(*arguments: Any, shape: tuple[int, ...] = IMAGE, **kwargs: Any) -> Any:
        return model(use(MEAN, real("x", shape, precision), precision, *arguments, **kwargs))

    kept: tuple[tuple[int, ...], ...] = ((-2, -1), (-1, -2), (2, 3), (3, 2), (2, -1))
    past: tuple[tuple[int, ...], ...] = ((-1,), (-2,), (1, 2), (1, 3), (1, 2, 3), (0,), ())
    for dims in kept:
        drafts.append(limit("dims", label(dims), mean(dims, True)))
    for dims in past:
        drafts.append(outside("dims", label(dims) or "all", mean(dims, True)))
    own = "float16" if precision == "fp16" else "float32"
    drafts += [
        limit("rank", "4", mean((-2, -1), True, shape=(2, 2, 3, 3))),
        outside("rank", "3", mean((-2, -1), True, shape=(3, 4, 5))),
        outside("rank", "5", mean((-2, -1), True, shape=(1, 2, 3, 4, 5))),
        limit("keepdim", "true", mean((-1, -2), True)),
        outside("keepdim", "false", mean((-1, -2), False)),
        outside("keepdim", "left_out", mean((-1, -2))),
        limit("output_dtype", "left_out", mean((-1, -2), True)),
        outside("output_dtype", own, mean((-1, -2), True, dtype=own)),
        accepted("one_pixel", mean((-1, -2), True, shape=(2, 3, 1, 1))),
        accepted("one_row", mean((-1, -2), True, shape=(1, 3, 1, 9))),
        accepted("one_column", mean((-1, -2), True, shape=(1, 3, 9, 1))),
        accepted("large", mean((-1, -2), True, shape=(1, 2, 15, 17))),
        *moved(subject.use(precision)),
    ]
    if is_static(precision):
        for x, y in (
            (quant(0.05, -128), quant(0.05, -128)),
            (quant(0.05, 127), quant(0.02, -9)),
            (quant(0.1, 5), quant(0.001)),
        ):
            wide = with_x(_mean(precision, (1, 8, 4, 8)), quant=x, fill=SCATTERED)
            drafts.append(valued(f"codes_{named(x)}_to_{named(y)}", model(replace(wide, y=y))))
        drafts += [valued(name, model(filled(subject.use(precision), Fill(name)))) for name in ("min", "max")]
    return drafts


def _mean(precision: str, shape: tuple[int, ...]) -> Use:
    return use(MEAN, real("x", shape, precision), precision, (-1, -2), True)


# ------------------------------------------------------------------------------------ upsample


def upsample_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.upsample_bilinear2d.vec: to a known size."""

    def up(size: Any, align: bool, scales: Any, shape: tuple[int, ...] = IMAGE) -> Any:
        return model(use(UPSAMPLE, real("x", shape, precision), precision, size, align, scales))

    subject = Subject("UpsampleBilinear2dConfig", _twice, shape=IMAGE, open=())
    drafts = everywhere(subject, precision, limits)
    u = subject.use(precision)
    sized = use(UPSAMPLE, real("x", IMAGE, precision), precision, (6, 9), False, None)
    for name, size in (("up", (8, 10)), ("down", (2, 3)), ("same", (4, 5)), ("one_pixel", (1, 1)), ("odd", (7, 13))):
        for align in (False, True):
            drafts.append(accepted(f"size_{name}{'_align_corners' if align else ''}", up(size, align, None)))
    drafts += [
        limit("static_output_size", "known", model(u)),
        limit("static_output_size", "open_input_to_a_known_size", model(opened(sized, (2, 3)))),
        *(
            outside("static_output_size", f"open_axis_{label(axes)}", model(opened(u, axes)))
            for axes in ((0,), (2,), (3,), (0, 2, 3))
        ),
        outside("static_output_size", "open_batch_to_a_known_size", model(opened(sized, (0,)))),
        limit("exact_scale", "2_of_4_by_5", up(None, False, (2.0, 2.0))),
        limit("exact_scale", "1.5_of_4", up(None, False, (1.5, 2.0))),
        limit("exact_scale", "half_of_4", up(None, False, (0.5, 1.0))),
        limit("exact_scale", "1.5_of_5_align_corners", up(None, True, (2.0, 1.5))),
        outside("exact_scale", "1.5_of_5_horizontally", up(None, False, (2.0, 1.5))),
        outside("exact_scale", "1.5_of_5_vertically", up(None, False, (1.5, 2.0), (1, 3, 5, 4))),
        outside("exact_scale", "0.6_of_4", up(None, False, (0.6, 1.0))),
        *moved(u),
    ]
    return drafts


def _twice(precision: str, shape: tuple[int, ...]) -> Use:
    return use(UPSAMPLE, real("x", shape, precision), precision, None, False, (2.0, 2.0))


# ------------------------------------------------------------------------------------ softmax


def softmax_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten._softmax.default: along the last axis."""
    subject = Subject("SoftmaxConfig", _softmax)
    drafts = everywhere(subject, precision, limits)

    def soft(shape: tuple[int, ...], dim: int) -> Use:
        return use(SOFTMAX, real("x", shape, precision), precision, dim, False)

    for shape, dim in ((IMAGE, -1), (IMAGE, 3), ((3, 7), 1), ((7,), 0), ((7,), -1), ((2, 3, 4), 2)):
        drafts.append(limit("last_dim", f"shape_{sizes_of(shape)}_dim_{label(dim)}", model(soft(shape, dim))))
    for shape, dim in ((IMAGE, 0), (IMAGE, 1), (IMAGE, 2), (IMAGE, -2), (IMAGE, -4), ((3, 7), 0), ((3, 7), -2)):
        drafts.append(outside("last_dim", f"shape_{sizes_of(shape)}_dim_{label(dim)}", model(soft(shape, dim))))
    for length in (1, 2, 16, 63, 65, 200):
        drafts.append(accepted(f"length_{length}", model(soft((2, length), -1))))
    far = Fill("list", values=(100.0, -100.0, 0.0, 99.0, 30.0, -3.5, 100.0))
    drafts += [
        valued("far_apart", model(filled(soft((2, 7), -1), far))),
        valued("all_equal", model(filled(soft((2, 7), -1), Fill("list", values=(3.0,))))),
        *moved(subject.use(precision)),
    ]
    return drafts


def _softmax(precision: str, shape: tuple[int, ...]) -> Use:
    return use(SOFTMAX, real("x", shape, precision), precision, len(shape) - 1, False)


# ------------------------------------------------------------------------------------ bmm


def bmm_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.bmm.default: any two batches that fit."""
    subject = Subject(
        "BMMConfig", _product, shape=(2, 3, 5), single=(1, 1, 1), empty=(0, 3, 5), open=((0,), (1,), (0, 1))
    )
    drafts = everywhere(subject, precision, limits)
    for batch, rows, terms, columns in ((1, 1, 7, 1), (1, 4, 1, 3), (3, 1, 5, 6), (2, 9, 64, 3), (5, 2, 2, 17)):
        u = _bmm(precision, (batch, rows, terms), columns)
        drafts.append(accepted(f"sizes_{batch}_{rows}_{terms}_{columns}", model(u)))
    square, u = _bmm(precision, (2, 3, 3), 3), subject.use(precision)
    x, y = u.values
    drafts += [
        accepted("same_tensor_twice", model(replace(square, values=square.values[:1], args=(X, X)))),
        accepted("constant_operand", model(replace(u, values=(x, replace(y, constant=True))))),
        accepted("rows_without_elements_in_common", model(_bmm(precision, (2, 3, 1), 1))),
        outside("nonempty", "no_terms", model(_bmm(precision, (2, 3, 0), 4))),
        *moved(u),
    ]
    return drafts


def _product(precision: str, shape: tuple[int, ...]) -> Use:
    return _bmm(precision, shape, 4)


def _bmm(precision: str, shape: tuple[int, ...], columns: int) -> Use:
    batch, _, terms = shape
    values = (real("x", shape, precision), real("y", (batch, terms, columns), precision))
    return Use(BMM, values, (X, Ref("y")), result(precision))


FAMILIES: Mapping[str, Family] = {
    AVG_POOL: avg_pool_cases,
    MAX_POOL: max_pool_cases,
    MEAN: mean_cases,
    UPSAMPLE: upsample_cases,
    SOFTMAX: softmax_cases,
    BMM: bmm_cases,
}
