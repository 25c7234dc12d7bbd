"""Windows whose arguments all differ along height and width, on images that are not square.

Each case has every argument apart, so that none can stand for another: kernel, stride, padding and dilation are others
along height than along width, borders have other widths than the strides, and images have sizes that the strides do
not divide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.drafts import CaseDraft, accepted
from npu_assay.conformance.cases.families.convolution.floats import Conv
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, model, quant
from npu_assay.conformance.cases.pieces.spelling import call_on, is_static, real
from npu_assay.conformance.programs.graph import Fill

AVERAGE, MAXIMUM = "aten.avg_pool2d.default", "aten.max_pool2d.default"
ADAPTIVE, INDICES = "aten._adaptive_avg_pool2d.default", "aten.max_pool2d_with_indices.default"
CONV1, CONV2 = "aten.conv1d.default", "aten.conv2d.default"
TALL, WIDE = (2, 3, 11, 7), (1, 5, 6, 13)
FAR = quant(0.05, -101)
"""A zero point that no border of zero codes has."""
BELOW = Fill("list", values=(-1.5, -0.25, -4.0, -2.75, -0.5, -3.25, -1.0))
"""Numbers below zero: a border of zeros would be the largest."""
CODES_BELOW = Fill("list", values=(-128, -103, -110, -119, -105, -124, -108))
Window = tuple[Any, ...]

WINDOWS: tuple[tuple[tuple[int, ...], Window], ...] = (
    (TALL, ((3, 2), (2, 1), (1, 0))),
    (WIDE, ((2, 5), (1, 4), (0, 2))),
    (WIDE, ((4, 3), (3, 2), (2, 1))),
    (TALL, ((2, 4), (2, 3), (1, 2))),
)
"""Kernel, stride and padding."""
DILATED: tuple[tuple[tuple[int, ...], Window], ...] = (
    (TALL, ((3, 2), (2, 1), (1, 0), (2, 3))),
    (WIDE, ((2, 3), (1, 2), (0, 1), (3, 2))),
)
ROUNDED_UP: tuple[tuple[tuple[int, ...], Window], ...] = (
    (TALL, ((3, 2), (3, 2), (1, 0), (1, 2), True)),
    (WIDE, ((2, 4), (2, 3), (0, 2), (2, 1), True)),
    (WIDE, ((4, 4), (4, 1), (0, 1), (1, 1), True)),
    (TALL, ((2, 4), (1, 4), (1, 0), (1, 1), True)),
)
"""With dilation and ceil_mode; the last window reaches past the bottom, past the right, or past both."""


def label(shape: tuple[int, ...], window: Window) -> str:
    """Sizes and arguments in a case id: `11x7_3x2_2x1_1x0`."""
    pairs = [shape[-2:], *(pair for pair in window if isinstance(pair, tuple))]
    return "_".join("x".join(map(str, pair)) for pair in pairs)


def windows(row: str, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """The cases of a row in a precision; none for rows without windows."""
    if row == AVERAGE:
        yield from averages(precision, limits)
    elif row == MAXIMUM:
        yield from maxima(precision, limits)
    elif row in (CONV1, CONV2) and precision != "dynamic_int4":
        yield from convolutions(1 if row == CONV1 else 2, precision, limits)


def averages(precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Means of the cells inside the image."""
    for shape, window in WINDOWS:
        pooled = call_on(AVERAGE, real("x", shape, precision), precision, *window, False, False)
        yield accepted(f"apart_{label(shape, window)}", model(far(pooled, precision)))


def maxima(precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Maxima of numbers that a border of zeros would exceed."""
    for shape, window in (*WINDOWS, *DILATED, *ROUNDED_UP):
        pooled = call_on(MAXIMUM, real("x", shape, precision), precision, *window)
        below = far(pooled, precision).with_x(fill=CODES_BELOW if is_static(precision) else BELOW)
        name = "apart_ceil" if window[-1] is True else "apart"
        yield accepted(f"{name}_{label(shape, window)}", model(below))


def far(u: Call, precision: str) -> Call:
    """The use with a zero point far from 0, in and out, where there is one."""
    return replace(u.with_x(quant=FAR), y=FAR) if is_static(precision) else u


PLAIN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tall", {"kernel": (3, 2), "stride": (1, 2), "padding": (2, 1), "dilation": (2, 3)}),
    ("wide", {"kernel": (2, 4), "stride": (3, 1), "padding": (0, 3), "dilation": (1, 2)}),
)
TRANSPOSED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tall", {"kernel": (3, 2), "stride": (2, 3), "padding": (1, 0), "output_padding": (0, 2)}),
    ("wide", {"kernel": (2, 4), "stride": (3, 1), "padding": (0, 2), "dilation": (2, 1), "output_padding": (1, 0)}),
)
KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {"inputs": 4, "outputs": 6}),
    ("groups", {"inputs": 6, "outputs": 9, "groups": 3}),
    ("depthwise", {"inputs": 2, "outputs": 2, "groups": 2}),
    ("depthwise_twice", {"inputs": 3, "outputs": 6, "groups": 3}),
)
SIZE = (9, 7)


def convolutions(axes: int, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """In one group, several and as many as inputs; transposed ones too, in one group where the row says so."""
    for kind, channels in KINDS:
        for name, arguments in PLAIN if "depthwise" not in kind or "depthwise" not in limits else ():
            yield _convolution(axes, precision, (kind, name), {**channels, **arguments})
        for name, arguments in TRANSPOSED if not kind or "transposed_groups" not in limits else ():
            yield _convolution(axes, precision, ("transposed", kind, name), {**channels, **arguments}, True)


def _convolution(
    axes: int, precision: str, names: tuple[str, ...], arguments: dict[str, Any], transposed: bool = False
) -> CaseDraft:
    """1-D windows: those that the 2-D one has along its height (tall) or width (wide)."""
    if axes == 1:
        axis = 0 if names[-1] == "tall" else 1
        arguments = {key: value[axis] if isinstance(value, tuple) else value for key, value in arguments.items()}
    conv = Conv(axes, transposed=transposed, **arguments)
    u = conv.at(precision, (1, conv.inputs, *SIZE[:axes]))
    u = u.with_x(quant=FAR) if is_static(precision) else u
    return accepted("_".join(("apart", *filter(None, names))), model(u))
