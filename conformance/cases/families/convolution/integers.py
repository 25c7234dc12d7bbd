"""Convolutions on hardware that computes on integers alone: shapes, kernels, strides and sums of weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from npu_assay.conformance.cases.drafts import CaseDraft, accepted, limit, outside
from npu_assay.conformance.cases.families.linear.weights import B, W, integer_weighted, ratios, single
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Call,
    Q,
    X,
    activation,
    bias_quant,
    constant,
    fitting_weight_scale,
    model,
    weight_quant,
)
from npu_assay.conformance.cases.pieces.everywhere import everywhere
from npu_assay.conformance.cases.pieces.spelling import CONVOLUTION, in_int8, per_channel, spelled
from npu_assay.conformance.cases.pieces.subject import Subject
from npu_assay.conformance.programs.graph import Fill, Graph

FLAT = (1, 3, 6, 7)


@dataclass(frozen=True)
class Convolution:
    """A convolution; `outputs` per group of a transposed one are outputs // groups."""

    shape: tuple[int, ...] = FLAT
    kernel: tuple[int, ...] = (3, 2)
    outputs: int = 5
    stride: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    transposed: bool = False
    extra: tuple[int, ...] = (0, 0)
    groups: int = 1
    bias: bool = True
    scale: float | None = None

    @property
    def weights(self) -> tuple[int, ...]:
        """The weight's shape."""
        inputs = self.shape[1]
        if self.transposed:
            return (inputs, self.outputs // self.groups, *self.kernel)
        return (self.outputs, inputs // self.groups, *self.kernel)

    def call(self) -> Call:
        """In int8, with one scale for all weights."""
        terms = math.prod(self.weights[1:])
        scale = fitting_weight_scale(Q, Q, terms) if self.scale is None else self.scale
        w = constant("w", self.weights, weight_quant(scale))
        b = constant("b", (self.outputs,), bias_quant(Q, weight_quant(scale)))
        args = (X, W, B if self.bias else None, self.stride, self.padding, self.dilation)
        values = (activation("x", self.shape), w, *((b,) if self.bias else ()))
        return Call(CONVOLUTION, values, (*args, self.transposed, self.extra, self.groups), Q)


def convolution_subject() -> Subject:
    """A flat convolution with padding."""

    def at(shape: tuple[int, ...]) -> Call:
        return Convolution(shape, padding=(1, 0)).call()

    return Subject(in_int8(at), shape=FLAT, shapes=((2, 3, 6, 7), (1, 1, 3, 2), (1, 8, 5, 9)), deep=False)


SHAPED: Mapping[str, Convolution] = {
    "strided": Convolution(stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
    "stride_3_cuts": Convolution((1, 3, 7, 8), (2, 3), stride=(3, 3)),
    "no_bias": Convolution(bias=False, kernel=(1, 3), outputs=4, stride=(1, 2), padding=(0, 1)),
    "one_channel": Convolution((1, 1, 6, 7), outputs=1),
    "pointwise": Convolution(kernel=(1, 1)),
    "whole_image": Convolution(kernel=(6, 7)),
    "depthwise": Convolution(outputs=3, stride=(1, 2), padding=(1, 1), groups=3),
    "depthwise_multiplier": Convolution(outputs=6, groups=3),
    "groups": Convolution((1, 4, 6, 7), outputs=6, groups=2),
    "dilated": Convolution((1, 3, 9, 11), dilation=(2, 3)),
    "conv1d": Convolution((2, 3, 9), (3,), 5, (2,), (1,), (2,), extra=(0,)),
    "conv1d_depthwise": Convolution((1, 3, 9), (3,), 3, (1,), (2,), (1,), groups=3, extra=(0,)),
    "conv3d_flat": Convolution((1, 3, 4, 6, 7), (1, 3, 2), 5, (1, 2, 1), (0, 1, 0), (1, 1, 1), extra=(0, 0, 0)),
}
TRANSPOSED: Mapping[str, Convolution] = {
    "transposed": Convolution((1, 3, 4, 5), (3, 4), 4, (2, 2), (1, 2), transposed=True),
    "transposed_output_padding": Convolution((1, 3, 4, 5), (2, 3), 4, (2, 2), (0, 1), transposed=True, extra=(1, 1)),
    "transposed_stride_1": Convolution((1, 3, 4, 5), (2, 3), 4, transposed=True),
}


def integer_convolution_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """aten.convolution.default, transposed or not."""
    subject = convolution_subject()
    drafts = everywhere(subject, precision, limits)
    drafts += integer_weighted(subject.call(precision), precision, limits)
    drafts += [accepted(name, spelled(c.call(), precision)) for name, c in SHAPED.items()]
    if not no_transposed(precision, limits):
        drafts += [accepted(name, spelled(c.call(), precision)) for name, c in TRANSPOSED.items()]
    if "weight_sum" in limits:
        limits.fixed("weight_sum", 127 * 65536)
        drafts.append(limit("weight_sum", "few_weights", subject.model(subject.call(precision))))
        rows = next(rows for rows in (4, 2, 1) if rows <= kernel_bounds(limits)[0])
        wide_image = Convolution((1, 2049, rows, 32 // rows), (rows, 32 // rows), 1, bias=False, scale=1e-6).call()
        drafts.append(
            outside(
                "weight_sum", "65568_weights_of_127", spelled(wide_image, precision).with_value("w", fill=Fill("max"))
            )
        )
    return [*drafts, *shape_limits(precision, limits), *ratios(precision, single(precision, CONVOLUTION))]


def conv(precision: str, **settings: Any) -> Graph:
    """The model of one convolution."""
    return model(spelled(Convolution(**settings).call(), precision))


def shape_limits(precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """What convolutions may not have anywhere, then kernels, strides and sizes on Ethos-U55."""
    limits.fixed("output_padding", 0)
    yield limit("output_padding", "0", conv(precision))
    yield outside("output_padding", "1", conv(precision, extra=(0, 1)))
    # 7 rows, kernel 3, stride 4: the last window does not reach the end, which is cut off.
    yield limit("cropped", "all_but_one_row", conv(precision, shape=(1, 3, 2, 7), kernel=(1, 1), stride=(2, 1)))
    past: dict[str, Any] = {"shape": (1, 3, 2, 7), "kernel": (1, 1), "padding": (1, 0)}
    yield outside("cropped", "every_row", conv(precision, **past, stride=(4, 1)))
    far = limits.number("level_side", 8192, 4, 8192)
    for step, side in ((far, limit), (far + 1, outside)):
        apart = conv(precision, shape=(1, 1, step + 1, 2), kernel=(1, 1), outputs=1, stride=(step, 1), padding=(0, 0))
        yield side("level_side", f"stride_{step}", apart)
    if "max_channels" in limits:
        most = limits.number("max_channels", 65536, 1024, 65536)
        for channels, side in ((most, limit), (most + 1, outside)):
            wide = conv(precision, shape=(1, channels, 1, 1), kernel=(1, 1), outputs=2)
            yield side("max_channels", f"{channels}", wide)
    yield from transposed_limits(precision, limits)
    if "kernel_height" in limits or "kernel_area" in limits:
        yield from kernel_limits(precision, limits)


def transposed_limits(precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Cases of transposed convolutions."""
    limits.fixed("dilation", 1)
    limits.fixed("spatial_rank", 4)
    limits.fixed("transposed_groups", 1)
    turned: dict[str, Any] = {"shape": (1, 4, 4, 5), "kernel": (2, 3), "outputs": 4, "transposed": True}
    flat = {
        **turned,
        "shape": (1, 4, 9),
        "kernel": (3,),
        "stride": (1,),
        "padding": (0,),
        "dilation": (1,),
        "extra": (0,),
    }
    yield outside("spatial_rank", "rank_3", conv(precision, **flat))
    yield outside("dilation", "2x1", conv(precision, **turned, dilation=(2, 1)))
    yield outside("dilation", "1x2", conv(precision, **turned, dilation=(1, 2)))
    yield outside("transposed_padding", "whole_kernel", conv(precision, **turned, padding=(2, 1)))
    yield outside("transposed_padding", "whole_width", conv(precision, **turned, padding=(1, 3)))
    sizes = transposed_sizes(limits)
    yield from (outside("transposed_size", name, conv(precision, **small)) for name, small, _ in sizes)
    if per_channel(precision):
        yield outside("transposed_groups", "2", conv(precision, **turned, groups=2, bias=False))
    if no_transposed(precision, limits):
        yield limit("no_wide_transposed", "ordinary", conv(precision))
        yield outside("no_wide_transposed", "transposed", conv(precision, **turned))
        for code in ("spatial_rank", "dilation", "transposed_padding", "transposed_size", "transposed_groups"):
            yield limit(code, "ordinary", conv(precision))
        return
    yield limit("spatial_rank", "rank_4", conv(precision, **turned))
    yield limit("dilation", "1", conv(precision, **turned))
    yield limit("transposed_padding", "all_but_one", conv(precision, **turned, padding=(1, 2)))
    yield from (limit("transposed_size", name, conv(precision, **enough)) for name, _, enough in sizes)
    if per_channel(precision):
        yield limit("transposed_groups", "1", conv(precision, **turned))
    elif "u85" in limits.where:
        yield accepted("transposed_groups", conv(precision, **turned, groups=2, bias=False))
    if "transposed_stride" in limits:
        for name, stride, more in STRIDES:
            yield limit("transposed_stride", name, conv(precision, **{**turned, **more}, stride=stride))
        for name, stride in (("1x2", (1, 2)), ("2x1", (2, 1)), ("3x3", (3, 3))):
            yield outside("transposed_stride", name, conv(precision, **turned, stride=stride))


def least_area(area: int, height: int) -> tuple[int, int]:
    """The kernel of one element more than `area` that is highest, within `height`."""
    rows = next(rows for rows in range(height, 0, -1) if (area + 1) % rows == 0)
    return rows, (area + 1) // rows


def transposed_sizes(limits: Limits) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """From one row, then column, by a padded kernel of 3: a result one short of the stride, and as large."""
    step = 2 if "u55" in limits.where else 3
    both: dict[str, Any] = {"kernel": (3, 3), "outputs": 4, "stride": (step, step), "transposed": True}
    rows, columns = ({**both, "shape": (1, 4, *s), "padding": p} for s, p in (((1, 5), (1, 0)), ((5, 1), (0, 1))))
    return [
        ("rows", {**rows, "extra": (step - 2, 0)}, {**rows, "extra": (step - 1, 0)}),
        ("columns", {**columns, "extra": (0, step - 2)}, {**columns, "extra": (0, step - 1)}),
    ]


STRIDES: tuple[tuple[str, tuple[int, int], dict[str, Any]], ...] = (
    ("1x1", (1, 1), {}),
    ("2x2", (2, 2), {}),
    ("1x2_of_a_row", (1, 2), {"shape": (1, 4, 1, 5), "kernel": (1, 3)}),
    ("2x1_of_a_column", (2, 1), {"shape": (1, 4, 5, 1), "kernel": (3, 1)}),
)


def no_transposed(precision: str, limits: Limits) -> bool:
    """Whether transposed convolutions are refused altogether."""
    return "no_wide_transposed" in limits


def kernel_bounds(limits: Limits) -> tuple[int, int]:
    """The largest height of a kernel, and its largest area, which is no less."""
    area = limits.number("kernel_area", 4096, 1, 16384)
    height = limits.number("kernel_height", min(64, area), 1, 256)
    if area < height:
        raise limits.error("kernel_area", area, f"at least {height}, the largest height of a kernel")
    return height, area


def kernel_limits(precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Limits of Ethos-U55: height, area, depth and strides of kernels; sizes of images; sums of weights."""
    height, area = kernel_bounds(limits)
    limits.fixed("kernel_depth", 1)
    column: dict[str, Any] = {"outputs": 2, "scale": 0.01}
    for rows, side in ((height, limit), (height + 1, outside)):
        yield side("kernel_height", str(rows), conv(precision, shape=(1, 1, rows + 1, 2), kernel=(rows, 1), **column))
    width = area // height
    for columns, side in ((width, limit), (width + 1, outside)):
        shape, kernel = (1, 1, height, columns), (height, columns)
        yield side("kernel_area", f"{height}x{columns}", conv(precision, shape=shape, kernel=kernel, **column))
    kernel = least_area(area, height)
    yield outside(
        "kernel_area", f"{kernel[0]}x{kernel[1]}", conv(precision, shape=(1, 1, *kernel), kernel=kernel, **column)
    )
    yield accepted("wide_kernel", conv(precision, shape=(1, 1, 2, height + 8), kernel=(1, height + 1), **column))
    deep: dict[str, Any] = {"stride": (1, 1, 1), "padding": (0, 0, 0), "dilation": (1, 1, 1), "extra": (0, 0, 0)}
    for depth, side in ((1, limit), (2, outside)):
        image, kernel3 = (1, 3, 4, 6, 7), (depth, 3, 2)
        yield side("kernel_depth", str(depth), conv(precision, shape=image, kernel=kernel3, **deep))
    padded = conv(precision, shape=(1, 3, 4, 6, 7), kernel=(1, 3, 2), **{**deep, "padding": (1, 0, 0)})
    yield outside("kernel_depth", "1_padded", padded)
    most = limits.number("max_size", 65536, 1024, 65536)
    for name, shape in (("width", (1, 1, 1, most)), ("height", (1, 1, most, 1))):
        longer = tuple(size + 1 if size == most else size for size in shape)
        yield limit("max_size", f"{name}_{most}", conv(precision, shape=shape, kernel=(1, 1), outputs=1, scale=0.01))
        yield outside(
            "max_size", f"{name}_{most + 1}", conv(precision, shape=longer, kernel=(1, 1), outputs=1, scale=0.01)
        )
    wide = math.isqrt(most)
    for high, side in ((wide, limit), (wide + 1, outside)):
        two = conv(precision, shape=(2, 1, high, wide), kernel=(1, 1), outputs=1, scale=0.01)
        yield side("max_size", f"two_of_{high}x{wide}", two)
    limits.fixed("stride_or_whole", 3)
    strided: dict[str, Any] = {"shape": (1, 3, 9, 11), "kernel": (2, 2)}
    kept = (("3x3", (3, 3), (0, 0)), ("3x3_padded", (3, 3), (1, 1)), ("4x5_unpadded", (4, 5), (0, 0)))
    for name, stride, padding in kept:
        yield limit("stride_or_whole", name, conv(precision, **strided, stride=stride, padding=padding))
    past = (
        ("4x1_padded", (4, 1), (1, 0), (1, 1)),
        ("1x4_padded", (1, 4), (0, 1), (1, 1)),
        ("4x1_dilated", (4, 1), (0, 0), (2, 1)),
    )
    for name, stride, padding, dilation in past:
        yield outside(
            "stride_or_whole", name, conv(precision, **strided, stride=stride, padding=padding, dilation=dilation)
        )
    if "rank" in limits:
        limits.fixed("rank", 4)
        yield limit("rank", "4", conv(precision))
