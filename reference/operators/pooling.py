"""Windows over lines and images, of which the largest number or the mean is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isqrt
from typing import Any

from npu_assay.reference.operators.home import (
    NO_CODES,
    UNNAMED,
    Call,
    Operator,
    Schemes,
    Shape,
    X,
    behind,
    call,
    tflite,
    tosa,
    written,
    xnnpack,
)

WHERE_IT_DIVIDES = "ONNX has no adaptive pool; compared where the output size divides the input's, as AveragePool"
PADDED = (
    "onnx.reference fails on padding of one axis, so infinities are put there; compared where the size is not rounded "
    "up besides, and like all pools where the operand has up to LOOPED elements"
)


VOLUME: Shape = (1, 2, 4, 5, 6)
PICTURES: tuple[Shape, ...] = (
    *((1, 16, 4, 5), (1, 24, 4, 5), (1, 1, 4, 5), (1, 4, 4, 5), (1, 7, 4, 5), (1, 9, 4, 5), (1, 7, 8, 8)),
    *((2, 8, 4, 5), (8, 8, 4, 5), (3, 5, 4, 3), (1, 8, 10), (8, 9, 10)),
)
LINES: tuple[Shape, ...] = (
    *((1, 16, 16), (1, 24, 16), (1, 1, 16), (1, 7, 16), (1, 9, 16), (1, 7, 8), (2, 8, 16), (8, 8, 16), (8, 16)),
    *((1, 16), (1, 8, 7), (1, 8, 64)),
)
LONG: Shape = (1, 8, 515)
"""More than 4096 numbers, in as many channels as the plain line has."""
SIDES = (2, (2,), (2, 3), (1, 1), (1, 4), (4, 1), (3, 2))
STEPS = ((), 2, (2,), (2, 2), (1, 1), (1, 2), (2, 3), (1, 5), (2, 9), (3, 1), (4, 2), (9, 3))
EDGES = (0, 1, (1,), (1, 0), (0, 1), (1, 1))
GAPS = (1, (1,), (1, 1), 2, (2,), (2, 2), (2, 1), (1, 2), (1, 3))
TRUTHS = (False, True)
ALONG = {"kernel_size": (2, (2,), 1, 8), "stride": ((), 1, (1,), 2, 3, 4, 5), "padding": (0, 1, (1,))}
"""Other arguments of pools over lines."""


def _kernels(*kernels: Any) -> tuple[tuple[str, Callable[[Shape], Call]], ...]:
    """Windows that lie side by side, without a stride."""
    return tuple((f"kernel_{'_'.join(map(str, kernel))}_stride_default", behind(kernel)) for kernel in kernels)


def _pool(name: str, golden: str | None = None, **more: Any) -> Operator:
    """Over images, or over lines, with each of their arguments as something else."""
    if "1d" in name:
        return Operator(name, golden, behind((3,), (2,)), (1, 8, 16), LINES, _kernels((2,), (3,)), large=LONG, **more)
    maxima = "max" in name
    return Operator(
        name,
        golden,
        behind((2, 2), (2, 1)),
        (1, 8, 9, 10),
        PICTURES,
        (*_kernels((2,), (3,), (2, 3), (3, 2), (1, 3)), *_at_once(MAXIMA if maxima else AVERAGES)),
        far=_far_dilated if maxima else _far_divided,
        integers=True,
        **more,
    )


MAXIMA = (
    *(((4, 5), (4, 5)), ((4, 5), (4, 1)), ((4, 5), (1, 5)), ((4, 4), (4, 4), (1, 1)), ((4, 4), (4, 4), (1, 0))),
    *(((4, 4), (4, 4), (0, 1)), ((4, 4), (4, 4), (0, 0), (2, 1)), ((4, 4), (4, 4), (0, 0), (1, 2))),
    *(((4, 4), (4, 4), (0, 0), (1, 1), True), ((2, 2), (1, 1), (0, 0), (2, 3)), ((2, 2), (2, 3), (0, 0), (5, 1))),
    *(((2, 2), (1, 2), (0, 0), (1, 2)), ((4, 5), (2, 2), (0, 0), (2, 2)), ((4, 5), (2, 2), (0, 0), (1, 2))),
    *(((2, 2), (3, 2), (0, 0), (8, 9)), ((3, 3), (2, 2), (1, 1), (1, 1), True), ((2, 2), (3, 3)), ((3, 2), (3, 3))),
)
AVERAGES = (
    *(((3, 3), (1, 1), (1, 1), False, False), ((3, 3), (1, 1), (1, 0), False, False), ((3, 3), (2, 2), (1, 1), True)),
    *(((3, 3), (1, 1), (0, 1), False, False), ((3, 3), (1, 1), (0, 1)), ((9, 9), (1, 1), (1, 1), False, False)),
    *(((9, 2), (1, 1), (1, 1), False, False), ((2, 9), (1, 1), (1, 1), False, False), ((9, 9), (1, 1), (1, 1))),
    *(((8, 2), (1, 1), (1, 1), False, False), ((2, 8), (1, 1), (1, 1), False, False)),
    *(((3, 3), (1, 1), (1, 0), False, False, 9), ((3, 3), (1, 1), (0, 1), False, False, 9)),
    *(((3, 3), (1, 1), (0, 0), False, True, 9), ((3, 2), (1, 1), (0, 0), False, True, 9)),
)
"""Arguments after the operand, of which several count together."""


def _at_once(calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[str, Callable[[Shape], Call]]]:
    for number, arguments in enumerate(calls, 1):
        yield f"at_once_{number}", behind(*arguments)


def _far_dilated(size: int) -> Mapping[str, tuple[Shape, Call]]:
    """The same, and gaps between windows of one number."""
    return {**_far(size), "gaps": ((1, 1, 2, 1), call(X, (1, 1), (1, 1), (0, 0), (size, size)))}


def _far_divided(size: int) -> Mapping[str, tuple[Shape, Call]]:
    """The same, and windows with a divisor."""
    high = isqrt(size)
    wide = -(-size // high)
    divided = ((1, 1), (0, 0), False, True, 3)
    return {
        **_far(size),
        "divided_area": ((1, 8, high, wide + 1), call(X, (high, wide), *divided)),
        "divided_high": ((1, 8, size, 2), call(X, (size, 1), *divided)),
    }


def _far(size: int) -> Mapping[str, tuple[Shape, Call]]:
    """Images, windows and steps of a size, and windows of an area."""
    high = isqrt(size)
    wide = -(-size // high)
    return {
        **{f"window_{h}_{w}".replace(str(size), "n"): ((1, 8, h, w), call(X, (h, w), (1, 1))) for h, w in _ways(size)},
        "window_area": ((1, 8, high, wide), call(X, (high, wide), (1, 1))),
        **{f"image_{at}": (shape, call(X, (1, 1), (1, 1))) for at, shape in _pictures(size).items()},
        **{f"step_{h}_{w}".replace(str(size), "n"): ((1, 8, 3, 5), call(X, (2, 2), (h, w))) for h, w in _ways(size)},
    }


def _far_adaptive(size: int) -> Mapping[str, tuple[Shape, Call]]:
    """Windows as large as the image, for a result of one row or column."""
    high = isqrt(size)
    return {
        "window_wide": ((1, 8, 1, size), call(X, (1, 1))),
        "window_high": ((1, 8, size, 1), call(X, (1, 1))),
        "window_area": ((1, 8, high, -(-size // high)), call(X, (1, 1))),
        "channels": ((1, size, 2, 2), call(X, (1, 1))),
    }


def _ways(size: int) -> tuple[tuple[int, int], ...]:
    return (1, size), (size, 1)


def _pictures(size: int) -> Mapping[str, Shape]:
    return {
        "wide": (1, 8, 2, size),
        "high": (1, 8, size, 2),
        "of_channels": (1, size, 2, 2),
        "three": (size, 2, 2),
        "two": (2, 8, isqrt(size), size // isqrt(size)),
    }


def _max_pool(name: str, golden: str | None, schemes: Schemes, **more: Any) -> Operator:
    picture = {"kernel_size": SIDES, "stride": STEPS, "padding": EDGES, "dilation": GAPS, "ceil_mode": TRUTHS}
    line = {**ALONG, "dilation": (1, (1,), 2, (2,), 3), "ceil_mode": TRUTHS}
    return _pool(
        name,
        golden,
        values=line if "1d" in name else picture,
        schemes=schemes,
        on_grid=True,
        rounding="float32:chosen",
        ieee="reals:itself",
        **more,
    )


POOLING = (
    _max_pool(
        "aten.max_pool1d.default",
        None,
        Schemes(tflite("pooling:max_pool1d"), UNNAMED, UNNAMED),
        onnx="pooling:max_pool1d",
        onnx_in_part=PADDED,
    ),
    _max_pool(
        "aten.max_pool2d.default",
        None,
        Schemes(tflite("pooling:max_pool2d"), tosa("tosa_pooling:max_pool"), xnnpack("xnnpack:max_pool")),
        config=("MaxPool2dConfig", False),
        onnx="pooling:max_pool2d",
        onnx_in_part="MaxPool does not say what becomes of NaN; compared without any",
    ),
    _max_pool(
        "aten.max_pool2d_with_indices.default",
        "weighted:max_pool_with_indices",
        Schemes(tflite("pooling:max_pool2d"), tosa("tosa_pooling:max_pool"), UNNAMED),
        with_indices=True,
        onnx="pooling:max_pool2d",
        onnx_in_part="MaxPool counts indices over the whole tensor; values are compared",
    ),
    _pool(
        "aten.avg_pool1d.default",
        values={**ALONG, "ceil_mode": TRUTHS, "count_include_pad": TRUTHS},
        schemes=Schemes(tflite("pooling:avg_pool1d", "error_bound:average"), UNNAMED, UNNAMED),
        terms="float32:per_first",
        onnx="pooling:avg_pool1d",
    ),
    _pool(
        "aten.avg_pool2d.default",
        values={
            "kernel_size": (*SIDES, (9, 10)),
            "stride": STEPS,
            "padding": EDGES,
            "ceil_mode": TRUTHS,
            "count_include_pad": TRUTHS,
            "divisor_override": (None, 4, 1, 3, 1000),
        },
        schemes=Schemes(
            tflite("pooling:avg_pool2d", "error_bound:average"),
            tosa("tosa_pooling:avg_pool", "error_bound_tosa:window"),
            "no specification of its kernel on codes is written; the float golden judges them",
        ),
        config=("AvgPoolingConfig", True),
        terms="float32:per_first",
        rounding="float32:wide",
        onnx="pooling:avg_pool2d",
        onnx_in_part="AveragePool has no divisor_override; compared without one",
    ),
    Operator(
        "aten._adaptive_avg_pool2d.default",
        None,
        behind((4, 3)),
        (1, 8, 8, 6),
        (*((1, 8, 4, 3), (1, 8, 8, 9), (1, 1, 4, 6), (1, 3, 8, 6), (2, 8, 8, 6), (3, 5, 4, 3), (8, 8, 6)),),
        large=(1, 8, 88, 6),
        far=_far_adaptive,
        integers=True,
        values={"output_size": ((8, 6), (1, 1), (8, 1), (2, 3), (2, 2), (3, 3), (4, 4), (5, 3), (16, 12), (8, 5))},
        schemes=Schemes(
            tflite("pooling:adaptive_avg_pool", "error_bound:average"),
            tosa("tosa_pooling:adaptive", "error_bound_tosa:own_steps"),
            UNNAMED,
        ),
        terms="float32:per_first",
        onnx="pooling:adaptive_avg_pool2d",
        onnx_in_part=WHERE_IT_DIVIDES,
    ),
    written(
        "aten.adaptive_avg_pool2d.default",
        None,
        schemes=Schemes(tflite("pooling:adaptive_avg_pool", "error_bound:average"), UNNAMED, UNNAMED),
        terms="float32:per_first",
        onnx="pooling:adaptive_avg_pool2d",
        onnx_in_part=WHERE_IT_DIVIDES,
    ),
    Operator(
        "aten.avg_pool3d.default",
        None,
        behind((2, 3, 2), (2, 1, 2)),
        VOLUME,
        ((2, 4, 5, 6),),
        (("padded", behind((2, 2, 2), (1, 1, 1), (1, 1, 0))), ("rounded_up", behind((3,), (2,), (0,), True))),
        terms="all",
        half=False,
        onnx="pooling:avg_pool3d",
        schemes=NO_CODES,
    ),
    Operator(
        "aten.max_pool3d_with_indices.default",
        "weighted:max_pool_with_indices",
        behind((2, 3, 2), (2, 1, 2)),
        VOLUME,
        ((2, 4, 5, 6),),
        (("padded", behind((2, 2, 2), (1, 1, 1), (1, 1, 0))), ("dilated", behind((2,), (1,), (0,), (2,)))),
        with_indices=True,
        rounding="float32:chosen",
        moves=True,
        onnx="pooling:max_pool3d",
        schemes=NO_CODES,
    ),
    Operator(
        "aten.adaptive_avg_pool1d.default",
        None,
        behind((3,)),
        (1, 3, 9),
        ((2, 7),),
        (("one", behind((1,))), ("uneven", behind((4,)))),
        terms="all",
        half=False,
        large=(1, 3, 1371),
        onnx="pooling:adaptive_avg_pool1d",
        schemes=NO_CODES,
    ),
    Operator(
        "aten._adaptive_avg_pool3d.default",
        None,
        behind((2, 3, 1)),
        VOLUME,
        ((2, 4, 5, 6),),
        (("one", behind((1, 1, 1))),),
        terms="all",
        onnx="pooling:adaptive_avg_pool3d",
        schemes=NO_CODES,
    ),
)
