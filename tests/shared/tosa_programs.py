"""One function per TOSA operator: a seeded draw -> a random program of that operator, by type of its input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from draw import Draw
from tosa_building import Building, Program
from tosa_moving_programs import concat, gather, pad, reduction, reshape, scatter, slice_, tile, transpose
from tosa_program_parts import (
    ACCUMULATORS,
    LIMITS,
    NUMPY,
    Maker,
    bias,
    broadcastable,
    codes,
    rescaled,
    rest,
    window,
    zero_point,
    zero_points,
)

# ------------------------------------------------------------------------------------------------ elementwise


def plain(code: str, dtype: str, count: int) -> Maker:
    """An operator without parameters; a third of the programs reach the type's limits and may overflow."""

    def make(draw: Draw) -> Program:
        bits = 32 if draw.integer(0, 2) == 0 else 31
        b = Building()
        operands = [b.input(codes(draw, shape, dtype, bits), dtype) for shape in broadcastable(draw, count)]
        if count == 2 and draw.integer(0, 7) == 0:
            operands[1] = operands[0]
        return b.program(b.apply(code, *operands))

    return make


def intdiv(draw: Draw) -> Program:
    """Never by zero, which ends the reference model's process."""
    shape, b = draw.shape(1, 3, 5), Building()
    divisors = codes(draw, shape, "INT32") >> draw.integer(0, 31)
    divisors[divisors == 0] = draw.integer(1, 9)
    divisors[(divisors == -1)] = -3
    return b.program(b.apply("INTDIV", b.input(codes(draw, shape, "INT32"), "INT32"), b.input(divisors, "INT32")))


def shift(code: str, dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        first, second = broadcastable(draw, 2)
        width = {"INT8": 8, "INT16": 16, "INT32": 32}[dtype]
        outside = draw.integer(0, 9) == 0
        shifts = draw.codes(second, -1 if outside else 0, width if outside else width - 1, NUMPY[dtype])
        attributes: dict[str, Any] = {"round": draw.coin()} if code == "ARITHMETIC_RIGHT_SHIFT" else {}
        b = Building()
        return b.program(b.apply(code, b.input(codes(draw, first, dtype), dtype), b.input(shifts, dtype), **attributes))

    return make


def mul(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        first, second = broadcastable(draw, 2)
        amount = draw.integer(0, 63) if dtype == "INT32" and draw.coin() else 0
        bits = 32 if draw.coin() else 16 + amount // 2
        b = Building()
        factors = [b.input(codes(draw, shape, dtype, min(bits, 32)), dtype) for shape in (first, second)]
        return b.program(b.apply("MUL", *factors, b.constant([amount], "INT8")))

    return make


def negate(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        b = Building()
        x = b.input(codes(draw, draw.shape(0, 4, 5), dtype), dtype)
        zero_points = [b.constant([zero_point(draw, dtype)], dtype) for _ in range(2)]
        return b.program(b.apply("NEGATE", x, *zero_points))

    return make


def clamp(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        low, high = sorted(codes(draw, (2,), dtype).tolist())
        b = Building()
        x = b.input(codes(draw, draw.shape(0, 4, 6), dtype), dtype)
        return b.program(b.apply("CLAMP", x, min_val=low, max_val=high))

    return make


def select(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        condition, first, second = broadcastable(draw, 3)
        b = Building()
        values = [b.input(codes(draw, shape, dtype), dtype) for shape in (first, second)]
        return b.program(b.apply("SELECT", b.input(codes(draw, condition, "BOOL"), "BOOL"), *values))

    return make


def table(dtype: str) -> Maker:
    """All codes, and some at random. Half of the 16-bit tables are smooth, the others may be too steep."""

    def make(draw: Draw) -> Program:
        low, high = LIMITS[dtype]
        count = 256 if dtype == "INT8" else 513
        entries = codes(draw, (count,), dtype)
        if dtype == "INT16" and draw.coin():
            entries = np.sort(draw.rng.integers(low, high + 1, count)) if draw.coin() else entries // 2
        every = np.arange(low, high + 1) if dtype == "INT8" else draw.rng.integers(low, high + 1, 500)
        x = np.concatenate([every, [low, high], codes(draw, (42,), dtype)]).reshape(-1, 2)
        b = Building()
        return b.program(b.apply("TABLE", b.input(x, dtype), b.constant(entries, dtype)))

    return make


def cast(source: str, target: str) -> Maker:
    def make(draw: Draw) -> Program:
        b = Building()
        x = b.input(codes(draw, draw.shape(0, 4, 5), source), source)
        return b.program(b.apply("CAST", x, target=target))

    return make


# ------------------------------------------------------------------------------------------------ rescale


def rescale(source: str, target: str) -> Maker:
    """Ratios that use the target's range, saturate it, or leave little; some undefined ones."""

    def make(draw: Draw) -> Program:
        shape = draw.shape(0, 3, 7)
        b = Building()
        bits = draw.integer(9, 32)
        x = b.input(codes(draw, shape, source, bits), source)
        span = (LIMITS[target][1] + 1) / min(LIMITS[source][1] + 1, 2 ** (bits - 1))
        step = span * 2.0 ** draw.integer(-8, 4)
        return b.program(rescaled(draw, b, x, source, target, shape[-1] if shape else 0, step))

    return make


# ------------------------------------------------------------------------------------------------ products


def convolution(dtype: str, axes: int = 2) -> Maker:
    def make(draw: Draw) -> Program:
        kernel, stride, dilation, pad, sizes = window(draw, axes)
        inputs, outputs = draw.integer(1, 9), draw.integer(1, 8)
        b = Building()
        x = b.input(codes(draw, (draw.integer(1, 2), *sizes, inputs), dtype), dtype)
        w = b.constant(codes(draw, (outputs, *kernel, inputs), "INT8"), "INT8")
        operands = (x, w, bias(draw, b, dtype, outputs), *zero_points(draw, b, dtype))
        acc = b.apply(
            "CONV2D" if axes == 2 else "CONV3D",
            *operands,
            pad=tuple(pad),
            stride=tuple(stride),
            dilation=tuple(dilation),
            acc_type=ACCUMULATORS[dtype],
        )
        return rest(draw, b, acc, dtype, outputs, int(np.prod(kernel)) * inputs)

    return make


def depthwise(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        kernel, stride, dilation, pad, sizes = window(draw, 2)
        channels, multiplier = draw.integer(1, 70 if draw.integer(0, 5) == 0 else 6), draw.integer(1, 3)
        b = Building()
        x = b.input(codes(draw, (draw.integer(1, 2), *sizes, channels), dtype), dtype)
        w = b.constant(codes(draw, (*kernel, channels, multiplier), "INT8"), "INT8")
        operands = (x, w, bias(draw, b, dtype, channels * multiplier), *zero_points(draw, b, dtype))
        acc = b.apply(
            "DEPTHWISE_CONV2D",
            *operands,
            pad=tuple(pad),
            stride=tuple(stride),
            dilation=tuple(dilation),
            acc_type=ACCUMULATORS[dtype],
        )
        return rest(draw, b, acc, dtype, channels * multiplier, int(np.prod(kernel)))

    return make


def transpose_convolution(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        kernel, stride = [draw.integer(1, 4) for _ in range(2)], [draw.integer(1, 3) for _ in range(2)]
        inputs, outputs = draw.integer(1, 6), draw.integer(1, 6)
        sizes, pads = [], []
        for k, s in zip(kernel, stride, strict=True):
            around = [draw.integer(1 - k, 3) if draw.coin() else 0 for _ in range(2)]
            size = draw.integer(1, 5)
            while (size - 1) * s + sum(around) + k < 1:
                size += 1
            sizes.append(size)
            pads += around
        b = Building()
        x = b.input(codes(draw, (draw.integer(1, 2), *sizes, inputs), dtype), dtype)
        w = b.constant(codes(draw, (outputs, *kernel, inputs), "INT8"), "INT8")
        operands = (x, w, bias(draw, b, dtype, outputs), *zero_points(draw, b, dtype))
        attributes: dict[str, Any] = {"out_pad": tuple(pads), "stride": tuple(stride), "acc_type": ACCUMULATORS[dtype]}
        acc = b.apply("TRANSPOSE_CONV2D", *operands, **attributes)
        return rest(draw, b, acc, dtype, outputs, int(np.prod(kernel)) * inputs)

    return make


def matmul(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        n, h, w = draw.integer(1, 3), draw.integer(1, 7), draw.integer(1, 7)
        c = draw.integer(200, 400) if draw.integer(0, 5) == 0 else draw.integer(1, 30)
        b = Building()
        x = b.input(codes(draw, (n, h, c), dtype), dtype)
        y = b.input(codes(draw, (n, c, w), dtype), dtype)
        zero_points = [b.constant([zero_point(draw, dtype)], dtype) for _ in range(2)]
        acc = b.apply("MATMUL", x, y, *zero_points)
        return rest(draw, b, acc, dtype, w, c * (256 if dtype == "INT16" else 1) ** 2)

    return make


# ------------------------------------------------------------------------------------------------ images


def pool(code: str, dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        kernel, stride, _, pad, sizes = window(draw, 2, pool=True)
        if draw.integer(0, 5) == 0:
            kernel, stride, pad = [draw.integer(8, 20), draw.integer(8, 20)], [1, 1], [0, 0, 0, 0]
            sizes = [k + draw.integer(0, 2) for k in kernel]
        b = Building()
        x = b.input(codes(draw, (draw.integer(1, 2), *sizes, draw.integer(1, 7)), dtype), dtype)
        attributes: dict[str, Any] = {"kernel": tuple(kernel), "stride": tuple(stride), "pad": tuple(pad)}
        if code == "MAX_POOL2D":
            return b.program(b.apply(code, x, **attributes))
        zero_points = [b.constant([zero_point(draw, dtype)], dtype) for _ in range(2)]
        if draw.coin():
            zero_points[1] = zero_points[0]
        return b.program(b.apply(code, x, *zero_points, acc_type="INT32", **attributes))

    return make


def resize(mode: str, dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        sizes, scales, offsets, borders = [], [], [], []
        for _ in range(2):
            n, d, size = draw.integer(1, 16), draw.integer(1, 16), draw.integer(1, 9)
            if draw.coin():
                n, d = 2 * draw.integer(1, 8), 2
            d = min(d, 16 * n - 1)
            offset, border = draw.integer(-n, n), draw.integer(-n, n - 1)
            rest = (size - 1) * n - offset + border
            while rest < 0 or rest % d:
                size, rest = (size + 1, rest + n) if border == n - 1 else (size, rest + 1)
                border = -n if border == n - 1 else border + 1
                rest = (size - 1) * n - offset + border
            sizes.append(size)
            scales += [n, d]
            offsets.append(offset)
            borders.append(border)
        b = Building()
        x = b.input(codes(draw, (draw.integer(1, 2), *sizes, draw.integer(1, 4)), dtype), dtype)
        y = b.apply("RESIZE", x, b.shape(scales), b.shape(offsets), b.shape(borders), mode=mode)
        if mode == "BILINEAR" and (dtype == "INT16" or draw.coin()):
            source = ACCUMULATORS[dtype]
            target = str(draw.rng.choice(["INT8", "INT16", "INT32"]))
            span = LIMITS[target][1] / (LIMITS[dtype][1] * scales[0] * scales[2])
            y = rescaled(draw, b, y, source, target, 0, min(span, 1.0))
        return b.program(y)

    return make


# ------------------------------------------------------------------------------------------------ movement


# ------------------------------------------------------------------------------------------------ all

_INTEGERS: Final = ("INT8", "INT16", "INT32")
_DATA: Final = ("BOOL", *_INTEGERS)
_CODES: Final = ("INT8", "INT16")
_MOVEMENT: Final[dict[str, Callable[[str], Maker]]] = {
    "CONCAT": concat,
    "GATHER": gather,
    "PAD": pad,
    "RESHAPE": reshape,
    "SCATTER": scatter,
    "SELECT": select,
    "SLICE": slice_,
    "TILE": tile,
    "TRANSPOSE": transpose,
}
_BY_CODES: Final[dict[str, Callable[[str], Maker]]] = {
    "CLAMP": clamp,
    "CONV2D": convolution,
    "CONV3D": lambda dtype: convolution(dtype, 3),
    "DEPTHWISE_CONV2D": depthwise,
    "MATMUL": matmul,
    "TABLE": table,
    "TRANSPOSE_CONV2D": transpose_convolution,
}

PROGRAMS: Final[dict[str, Maker]] = {
    **{f"{code} {dtype}": make(dtype) for code, make in _MOVEMENT.items() for dtype in _DATA},
    **{f"{code} {dtype}": make(dtype) for code, make in _BY_CODES.items() for dtype in _CODES},
    **{f"{code} {dtype}": pool(code, dtype) for code in ("AVG_POOL2D", "MAX_POOL2D") for dtype in _CODES},
    **{f"RESIZE {mode} {dtype}": resize(mode, dtype) for mode in ("NEAREST", "BILINEAR") for dtype in _CODES},
    **{f"{code} INT32": plain(code, "INT32", 2) for code in ("ADD", "SUB", "MAXIMUM", "MINIMUM")},
    **{f"{code} INT32": plain(code, "INT32", 2) for code in ("EQUAL", "GREATER", "GREATER_EQUAL")},
    **{f"{code} INT32": plain(code, "INT32", 1) for code in ("ABS", "CLZ")},
    **{
        f"{code} {dtype}": plain(code, dtype, 2)
        for code in ("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR")
        for dtype in _INTEGERS
    },
    **{f"BITWISE_NOT {dtype}": plain("BITWISE_NOT", dtype, 1) for dtype in _INTEGERS},
    **{f"{code} BOOL": plain(code, "BOOL", 2) for code in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR")},
    "LOGICAL_NOT BOOL": plain("LOGICAL_NOT", "BOOL", 1),
    **{f"IDENTITY {dtype}": plain("IDENTITY", dtype, 1) for dtype in _DATA},
    "INTDIV INT32": intdiv,
    **{
        f"{code} {dtype}": shift(code, dtype)
        for code in ("ARITHMETIC_RIGHT_SHIFT", "LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT")
        for dtype in _INTEGERS
    },
    **{f"MUL {dtype}": mul(dtype) for dtype in _INTEGERS},
    **{f"NEGATE {dtype}": negate(dtype) for dtype in _INTEGERS},
    **{f"CAST {a} to {b}": cast(a, b) for a in _DATA for b in _DATA if a != b},
    **{f"RESCALE {a} to {b}": rescale(a, b) for a in _INTEGERS for b in _INTEGERS},
    **{f"{code} {dtype}": reduction(code, dtype) for code in ("REDUCE_MAX", "REDUCE_MIN") for dtype in _INTEGERS},
    **{f"{code} BOOL": reduction(code, "BOOL") for code in ("REDUCE_ALL", "REDUCE_ANY")},
    "REDUCE_SUM INT32": reduction("REDUCE_SUM", "INT32"),
    **{f"REVERSE {dtype}": reduction("REVERSE", dtype) for dtype in _DATA},
    **{f"ARGMAX {dtype}": reduction("ARGMAX", dtype) for dtype in _CODES},
}
"""By operator and type: what makes a random program."""
