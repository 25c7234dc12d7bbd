"""Operators that look at windows of an image, or make it larger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from npu_assay.conformance.cases.integer.common import Family, Subject, everywhere, moved_ratios, rescaled
from npu_assay.conformance.cases.integer.spelling import integers
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    SUBJECT,
    Draft,
    Use,
    X,
    accepted,
    activation,
    filled,
    limit,
    model,
    outside,
    use,
    valued,
)
from npu_assay.conformance.cases.shared import one_hots
from npu_assay.conformance.programs.graph import Fill, Graph, Ref

IMAGE = (1, 3, 6, 8)
LARGE = 65536
AVERAGE, ADAPTIVE = "aten.avg_pool2d.default", "aten._adaptive_avg_pool2d.default"
MAXIMUM, WITH_INDICES = "aten.max_pool2d.default", "aten.max_pool2d_with_indices.default"
NEAREST, BILINEAR = "aten.upsample_nearest2d.vec", "aten.upsample_bilinear2d.vec"
Arguments = tuple[tuple[str, tuple[Any, ...]], ...]


@dataclass(frozen=True)
class Window:
    """A row; args: what stands behind `x`; more: names and arguments of other uses."""

    op: str
    args: tuple[Any, ...]
    more: Arguments = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    open: tuple[int, ...] | None = (0,)

    @property
    def subject(self) -> Subject:
        """What all rows are made from."""
        return Subject(lambda shape: use(self.op, shape, *self.args), IMAGE, self.shapes, self.open, deep=False)

    def of(self, precision: str, shape: tuple[int, ...], *args: Any) -> Graph:
        """The model of other arguments."""
        return model(replace(self.subject.use(precision, shape), args=(X, *args)))


def cases(window: Window, precision: str, limits: Limits) -> list[Draft]:
    """What every one of them has."""
    subject = window.subject
    u = subject.use(precision)
    drafts = everywhere(subject, precision, limits)
    drafts += [accepted(name, model(filled(replace(u, args=(X, *args)), Fill(seed=3)))) for name, args in window.more]
    drafts += one_hots(u, spots=3)
    if "batch" not in limits:
        drafts.append(accepted("several_images", model(subject.use(precision, (2, *IMAGE[1:])))))
    return [*drafts, *rescaled(subject, precision), *moved_ratios(subject, precision)]


# ------------------------------------------------------------------------------------ limits


def sizes(window: Window, precision: str, limits: Limits) -> Iterator[Draft]:
    """Images, windows and batches on Ethos-U55; ranks everywhere."""
    if "rank" in limits:
        limits.value("rank", (3, 4))
        yield limit("rank", "4", window.of(precision, IMAGE, *window.args))
        yield limit("rank", "3", window.of(precision, IMAGE[1:], *window.args))
    if "max_size" in limits:
        most = limits.number("max_size", LARGE, 1024, LARGE)
        long = (("width", (1, 1, 2, most)), ("height", (1, 1, most, 2)), ("channels", (1, most, 2, 2)))
        for name, shape in long[2:] if window.op == ADAPTIVE else long:  # the window of an adaptive pool is as long
            yield limit("max_size", f"{name}_{most}", window.of(precision, shape, *_small(window)))
            longer = tuple(size + 1 if size == most else size for size in shape)
            yield outside("max_size", f"{name}_{most + 1}", window.of(precision, longer, *_small(window)))
    if "batch" in limits:
        limits.fixed("batch", 1)
        yield limit("batch", "1", window.of(precision, IMAGE, *window.args))
        yield outside("batch", "2", window.of(precision, (2, *IMAGE[1:]), *window.args))


def _small(window: Window) -> tuple[Any, ...]:
    return ((1, 1),) if window.op == ADAPTIVE else ((1, 1), (1, 1))


def kernels(window: Window, precision: str, limits: Limits, stride: tuple[int, ...] = (1, 1)) -> Iterator[Draft]:
    """Heights and areas of windows on Ethos-U55."""
    if "kernel_height" not in limits and "kernel_area" not in limits:
        return
    area = limits.number("kernel_area", LARGE, 1, LARGE)
    height = limits.number("kernel_height", min(256, area), 1, 1024)
    if area < height:
        raise limits.error("kernel_area", area, f"at least {height}, the largest height of a kernel")
    for rows, side in ((height, limit), (height + 1, outside)):
        yield side(
            "kernel_height", f"{rows}_rows", window.of(precision, (1, 1, rows, 2), *_kernel(window, (rows, 1), stride))
        )
    width = area // height
    yield limit(
        "kernel_area",
        f"{height}x{width}",
        window.of(precision, (1, 1, height, width), *_kernel(window, (height, width), stride)),
    )
    wide = (height, width + 1)
    yield outside(
        "kernel_area", f"{height}x{width + 1}", window.of(precision, (1, 1, *wide), *_kernel(window, wide, stride))
    )


def _kernel(window: Window, kernel: tuple[int, int], stride: tuple[int, ...]) -> tuple[Any, ...]:
    return ((1, 2 if kernel[1] == 1 else 1),) if window.op == ADAPTIVE else (kernel, stride)


def average_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten.avg_pool2d.default."""
    window = Window(AVERAGE, ((2, 3), (2, 1)), AVERAGES, ((1, 1, 5, 7),))
    drafts = [*cases(window, precision, limits), *sizes(window, precision, limits), *kernels(window, precision, limits)]
    if "stride" in limits:
        limits.value("stride", ())
        for stride in ((3, 1), (1, 3)):
            drafts.append(limit("stride", f"{stride[0]}x{stride[1]}", window.of(precision, IMAGE, (2, 2), stride)))
        for stride in ((4, 1), (1, 4)):
            drafts.append(outside("stride", f"{stride[0]}x{stride[1]}", window.of(precision, IMAGE, (2, 2), stride)))
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


def adaptive_cases(precision: str, limits: Limits) -> list[Draft]:
    """aten._adaptive_avg_pool2d.default: any size."""
    more: Arguments = (("single", ((1, 1),)), ("uneven", ((4, 3),)), ("more_uneven", ((5, 7),)), ("same", ((6, 8),)))
    window = Window(ADAPTIVE, ((2, 4),), more, ((1, 1, 4, 8),))
    return [*cases(window, precision, limits), *sizes(window, precision, limits), *kernels(window, precision, limits)]


MAXIMA: Arguments = (
    ("stride_left_out", ((3, 2),)),
    ("padded", ((2, 3), (1, 2), (0, 1))),
    ("ceil_mode", ((3, 3), (2, 2), (1, 1), (1, 1), True)),
    ("dilated", ((2, 2), (1, 1), (0, 0), (2, 3))),
    ("dilated_and_padded", ((2, 3), (1, 1), (1, 1), (2, 1))),
    ("side_by_side", ((2, 4), (2, 4))),
    ("whole_image", ((6, 8), (1, 1))),
)


def maximum_cases(op: str, precision: str, limits: Limits) -> list[Draft]:
    """aten.max_pool2d.default and the form with indices, of which nobody may take these."""
    window = Window(op, ((2, 3), (1, 2)), MAXIMA, ((1, 1, 5, 7),))
    drafts = [*cases(window, precision, limits), *sizes(window, precision, limits), *kernels(window, precision, limits)]
    undilated: Arguments = (
        ("both_1", ((2, 2), (1, 1), (0, 0), (2, 3))),
        ("undilated", ((2, 2), (2, 3), (0, 0), (1, 1))),
    )
    for name, args in undilated:
        drafts.append(limit("dilation_stride", name, window.of(precision, IMAGE, *args)))
    single = ((2, 2), (3, 2), (0, 0), (5, 7))
    drafts.append(limit("dilation_stride", "single_pixel", window.of(precision, IMAGE, *single)))
    for name, args in (("height", ((2, 2), (2, 1), (0, 0), (2, 1))), ("width", ((2, 2), (1, 2), (0, 0), (1, 3)))):
        drafts.append(outside("dilation_stride", name, window.of(precision, IMAGE, *args)))
    if "stride_or_window" in limits:
        kept: Arguments = (("3", ((2, 2), (3, 3))), ("window", ((4, 5), (4, 5))), ("one_row", ((1, 4), (1, 4))))
        drafts += [limit("stride_or_window", name, window.of(precision, IMAGE, *args)) for name, args in kept]
        past: Arguments = (
            ("4_of_another_window", ((2, 2), (4, 1))),
            ("4_wide", ((2, 2), (1, 4))),
            ("window_padded", ((4, 4), (4, 4), (1, 1))),
            ("window_ceil_mode", ((4, 5), (4, 5), (0, 0), (1, 1), True)),
        )
        drafts += [outside("stride_or_window", name, window.of(precision, IMAGE, *args)) for name, args in past]
    u = window.subject.use(precision)
    if op == WITH_INDICES:
        drafts.append(limit("indices_unused", "values_only", model(u)))
        both = Graph(model(u).values, (replace(model(u).steps[0], outputs=2),), (Ref(SUBJECT), Ref(SUBJECT, 1)))
        drafts.append(outside("indices_unused", "indices_returned", both))
    if "code_dtype" in limits:
        limits.value("code_dtype", ())
        drafts.append(limit("code_dtype", "codes", model(u)))
        plain = replace(u, values=(integers("x", IMAGE),), y=None)
        drafts.append(outside("code_dtype", "int32", model(plain)))
    return drafts


def resize_cases(op: str, precision: str, limits: Limits) -> list[Draft]:
    """Upsampling by sizes or by factors."""
    nearest = op == NEAREST
    rest = (lambda size, factors: (size, factors)) if nearest else (lambda size, factors: (size, False, factors))
    is_open = None if nearest else (0,)
    window = Window(op, rest(None, (2.0, 2.0)), (("by_size", rest((12, 16), None)),), ((1, 1, 3, 2),), is_open)
    drafts = [*cases(window, precision, limits), *sizes(window, precision, limits)]
    more = (("three", (3.0, 3.0)), ("factors_differ", (2.0, 3.0)), ("fraction", (1.5, 2.5)))
    if "resize_scale" in limits:
        listed = limits.some_of("resize_scale", (2, 4, 8))
        for scale in listed:
            drafts.append(
                limit(
                    "resize_scale",
                    str(scale),
                    window.of(precision, (1, 2, 3, 5), *rest(None, (float(scale), float(scale)))),
                )
            )
        drafts.append(limit("resize_scale", "size", window.of(precision, IMAGE, *rest((12, 16), None))))
        for name, factors in (*more, ("once", (1.0, 1.0)), ("sixteen", (16.0, 16.0))):
            drafts.append(outside("resize_scale", name, window.of(precision, IMAGE, *rest(None, factors))))
        drafts.append(outside("resize_scale", "size", window.of(precision, IMAGE, *rest((12, 24), None))))
    else:
        drafts += [accepted(name, window.of(precision, IMAGE, *rest(None, factors))) for name, factors in more]
        drafts.append(accepted("smaller", window.of(precision, IMAGE, *rest((4, 5), None))))
    if not nearest:
        corners = (("corners", ((11, 15), True, None)), ("corners_smaller", ((3, 5), True, None)))
        drafts += [accepted(name, window.of(precision, IMAGE, *args)) for name, args in corners]
        drafts.append(accepted("sixteenth", window.of(precision, (1, 2, 16, 32), (1, 2), False, None)))
    if "resize_scale" in limits:
        drafts.append(limit("resize", "8", window.of(precision, (1, 1, 2, 2), *rest(None, (8.0, 8.0)))))
    else:
        drafts.append(limit("resize", "256", window.of(precision, (1, 1, 2, 2), *rest(None, (256.0, 256.0)))))
        drafts.append(outside("resize", "257", window.of(precision, (1, 1, 2, 2), *rest(None, (257.0, 257.0)))))
    drafts.append(outside("resize", "512", window.of(precision, (1, 1, 2, 2), *rest(None, (512.0, 512.0)))))
    drafts.append(outside("resize", "output_of_16384", window.of(precision, (1, 1, 2, 8192), *rest(None, (2.0, 2.0)))))
    return drafts


FAMILIES: Mapping[str, Family] = {
    AVERAGE: average_cases,
    ADAPTIVE: adaptive_cases,
    MAXIMUM: partial(maximum_cases, MAXIMUM),
    WITH_INDICES: partial(maximum_cases, WITH_INDICES),
    NEAREST: partial(resize_cases, NEAREST),
    BILINEAR: partial(resize_cases, BILINEAR),
}
__all__ = ["FAMILIES", "Use", "activation", "valued"]
