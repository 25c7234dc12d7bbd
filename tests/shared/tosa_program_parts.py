"""What random TOSA programs are made of: limits, codes, zero points, rescales, windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from draw import Array, Draw
from tosa_building import Building, Program

Maker = Callable[[Draw], Program]

LIMITS: Final = {
    "BOOL": (0, 1),
    "INT8": (-(2**7), 2**7 - 1),
    "INT16": (-(2**15), 2**15 - 1),
    "INT32": (-(2**31), 2**31 - 1),
}
NUMPY: Final = {"BOOL": "bool", "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT48": "int64"}
ACCUMULATORS: Final = {"INT8": "INT32", "INT16": "INT48"}


def codes(draw: Draw, shape: Sequence[int], dtype: str, bits: int = 32) -> Array:
    """Numbers of a type, by one of the fills, of at most `bits` bits."""
    low, high = LIMITS[dtype]
    low, high = max(low, -(2 ** (bits - 1))), min(high, 2 ** (bits - 1) - 1)
    if draw.integer(0, 4) == 0 and dtype == "INT32":  # many sizes
        wide = draw.rng.integers(low, high + 1, tuple(shape)) >> draw.rng.integers(0, bits, tuple(shape))
        return wide.astype("int32")
    return draw.codes(shape, low, high, NUMPY[dtype])


def zero_point(draw: Draw, dtype: str) -> int:
    return draw.zero_point() if dtype == "INT8" else 0


def broadcastable(draw: Draw, count: int) -> list[tuple[int, ...]]:
    """Shapes of one rank whose sizes agree or are 1."""
    shape = draw.shape(0, 4, 5)
    return [tuple(1 if draw.integer(0, 3) == 0 else n for n in shape) for _ in range(count)]


def rescaled(draw: Draw, b: Building, x: str, source: str, target: str, channels: int, step: float = 1.0) -> str:
    """A RESCALE by ratios around `step`, per channel or not, of INT48 with multipliers of 16 bits."""
    scale32 = source != "INT48" and draw.integer(0, 3) > 0
    count = channels if channels and draw.coin() else 1
    top = 31 if scale32 else 15
    exponents = np.round(np.log2(step) + draw.rng.uniform(-3, 3, count))
    shifts = np.clip(top - exponents, 2, 62)
    multipliers = draw.rng.integers(2 ** (top - 1), 2**top, count)
    if draw.integer(0, 3) == 0:
        multipliers = np.full(count, 2 ** (top - 1))  # ties
    if draw.integer(0, 9) == 0:
        multipliers = draw.rng.integers(0, 2**top, count)
    flags = draw.integer(0, 5) if {source, target} <= {"INT8", "INT16"} else 0
    unsigned = {"input_unsigned": flags == 1, "output_unsigned": flags == 2}
    half = {"INT16": -(2**15) * draw.integer(0, 1)}
    zero_points = [
        (half.get(dtype, zero_point(draw, dtype)) if mine or dtype == "INT8" else 0)
        for dtype, mine in ((source, flags == 1), (target, flags == 2))
    ]
    return b.apply(
        "RESCALE",
        x,
        b.constant(multipliers, "INT32" if scale32 else "INT16"),
        b.constant(shifts, "INT8"),
        b.constant(zero_points[:1], source),
        b.constant(zero_points[1:], target),
        target=target,
        scale32=scale32,
        rounding_mode="SINGLE_ROUND",
        per_channel=count > 1 or (channels == 1 and draw.coin()),
        **unsigned,
    )


def rest(draw: Draw, b: Building, acc: str, dtype: str, channels: int, terms: int) -> Program:
    """The accumulators themselves, or rescaled; those of 48 bits are only seen rescaled."""
    if dtype == "INT8" and draw.integer(0, 2) == 0:
        return b.program(acc)
    target = str(draw.rng.choice(["INT8", "INT16", "INT32"]))
    size = np.sqrt(terms) * (2**14 if dtype == "INT8" else 2**22) / 3
    step = min(LIMITS[target][1] / size, 2.0)
    y = rescaled(draw, b, acc, ACCUMULATORS[dtype], target, channels, float(step))
    return b.program(y, acc) if dtype == "INT8" and draw.integer(0, 5) == 0 else b.program(y)


def bias(draw: Draw, b: Building, dtype: str, channels: int) -> str:
    largest = 2**20 if dtype == "INT8" else 2**30
    count = 1 if draw.integer(0, 3) == 0 else channels
    return b.constant(draw.rng.integers(-largest, largest, count), ACCUMULATORS[dtype])


def zero_points(draw: Draw, b: Building, dtype: str) -> tuple[str, str]:
    weight = draw.zero_point() if draw.integer(0, 3) == 0 else 0
    return b.constant([zero_point(draw, dtype)], dtype), b.constant([weight], "INT8")


def window(draw: Draw, axes: int, pool: bool = False) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Kernel, stride, dilation, padding and the size of an input into which the windows fit exactly."""
    kernel = [draw.integer(1, 4) for _ in range(axes)]
    stride = [draw.integer(1, 3) for _ in range(axes)]
    dilation = [1 if pool else draw.integer(1, 2) for _ in range(axes)]
    pads, sizes = [], []
    for k, s, d in zip(kernel, stride, dilation, strict=True):
        reach = (k - 1) * d + 1
        most = k - 1 if pool else 3
        before, after = (draw.integer(0, most), draw.integer(0, most)) if draw.coin() else (0, 0)
        whole = reach + s * draw.integer(0, 4)
        while whole - before - after < 1:
            whole += s
        pads += [before, after]
        sizes.append(whole - before - after)
    return kernel, stride, dilation, pads, sizes
