"""One function per TOSA operator: a seeded draw -> a random program of that operator, by type of its input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from crosscheck.draw import Array, Draw
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


def _broadcastable(draw: Draw, count: int) -> list[tuple[int, ...]]:
    """Shapes of one rank whose sizes agree or are 1."""
    shape = draw.shape(0, 4, 5)
    return [tuple(1 if draw.integer(0, 3) == 0 else n for n in shape) for _ in range(count)]


# ------------------------------------------------------------------------------------------------ elementwise


def plain(code: str, dtype: str, count: int) -> Maker:
    """An operator without parameters; a third of the programs reach the type's limits and may overflow."""

    def make(draw: Draw) -> Program:
        bits = 32 if draw.integer(0, 2) == 0 else 31
        b = Building()
        operands = [b.input(codes(draw, shape, dtype, bits), dtype) for shape in _broadcastable(draw, count)]
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
        first, second = _broadcastable(draw, 2)
        width = {"INT8": 8, "INT16": 16, "INT32": 32}[dtype]
        outside = draw.integer(0, 9) == 0
        shifts = draw.codes(second, -1 if outside else 0, width if outside else width - 1, NUMPY[dtype])
        attributes: dict[str, Any] = {"round": draw.coin()} if code == "ARITHMETIC_RIGHT_SHIFT" else {}
        b = Building()
        return b.program(b.apply(code, b.input(codes(draw, first, dtype), dtype), b.input(shifts, dtype), **attributes))

    return make


def mul(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        first, second = _broadcastable(draw, 2)
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
        condition, first, second = _broadcastable(draw, 3)
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


def _rest(draw: Draw, b: Building, acc: str, dtype: str, channels: int, terms: int) -> Program:
    """The accumulators themselves, or rescaled; those of 48 bits are only seen rescaled."""
    if dtype == "INT8" and draw.integer(0, 2) == 0:
        return b.program(acc)
    target = str(draw.rng.choice(["INT8", "INT16", "INT32"]))
    size = np.sqrt(terms) * (2**14 if dtype == "INT8" else 2**22) / 3
    step = min(LIMITS[target][1] / size, 2.0)
    y = rescaled(draw, b, acc, ACCUMULATORS[dtype], target, channels, float(step))
    return b.program(y, acc) if dtype == "INT8" and draw.integer(0, 5) == 0 else b.program(y)


def _bias(draw: Draw, b: Building, dtype: str, channels: int) -> str:
    largest = 2**20 if dtype == "INT8" else 2**30
    count = 1 if draw.integer(0, 3) == 0 else channels
    return b.constant(draw.rng.integers(-largest, largest, count), ACCUMULATORS[dtype])


def _zero_points(draw: Draw, b: Building, dtype: str) -> tuple[str, str]:
    weight = draw.zero_point() if draw.integer(0, 3) == 0 else 0
    return b.constant([zero_point(draw, dtype)], dtype), b.constant([weight], "INT8")


def _window(draw: Draw, axes: int, pool: bool = False) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
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


def convolution(dtype: str, axes: int = 2) -> Maker:
    def make(draw: Draw) -> Program:
        kernel, stride, dilation, pad, sizes = _window(draw, axes)
        inputs, outputs = draw.integer(1, 9), draw.integer(1, 8)
        b = Building()
        x = b.input(codes(draw, (draw.integer(1, 2), *sizes, inputs), dtype), dtype)
        w = b.constant(codes(draw, (outputs, *kernel, inputs), "INT8"), "INT8")
        operands = (x, w, _bias(draw, b, dtype, outputs), *_zero_points(draw, b, dtype))
        acc = b.apply(
            "CONV2D" if axes == 2 else "CONV3D",
            *operands,
            pad=tuple(pad),
            stride=tuple(stride),
            dilation=tuple(dilation),
            acc_type=ACCUMULATORS[dtype],
        )
        return _rest(draw, b, acc, dtype, outputs, int(np.prod(kernel)) * inputs)

    return make


def depthwise(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        kernel, stride, dilation, pad, sizes = _window(draw, 2)
        channels, multiplier = draw.integer(1, 70 if draw.integer(0, 5) == 0 else 6), draw.integer(1, 3)
        b = Building()
        x = b.input(codes(draw, (draw.integer(1, 2), *sizes, channels), dtype), dtype)
        w = b.constant(codes(draw, (*kernel, channels, multiplier), "INT8"), "INT8")
        operands = (x, w, _bias(draw, b, dtype, channels * multiplier), *_zero_points(draw, b, dtype))
        acc = b.apply(
            "DEPTHWISE_CONV2D",
            *operands,
            pad=tuple(pad),
            stride=tuple(stride),
            dilation=tuple(dilation),
            acc_type=ACCUMULATORS[dtype],
        )
        return _rest(draw, b, acc, dtype, channels * multiplier, int(np.prod(kernel)))

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
        operands = (x, w, _bias(draw, b, dtype, outputs), *_zero_points(draw, b, dtype))
        attributes: dict[str, Any] = {"out_pad": tuple(pads), "stride": tuple(stride), "acc_type": ACCUMULATORS[dtype]}
        acc = b.apply("TRANSPOSE_CONV2D", *operands, **attributes)
        return _rest(draw, b, acc, dtype, outputs, int(np.prod(kernel)) * inputs)

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
        return _rest(draw, b, acc, dtype, w, c * (256 if dtype == "INT16" else 1) ** 2)

    return make


# ------------------------------------------------------------------------------------------------ images


def pool(code: str, dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        kernel, stride, _, pad, sizes = _window(draw, 2, pool=True)
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


def reduction(code: str, dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 4, 6)
        bits = 32 if draw.integer(0, 3) == 0 else 28
        b = Building()
        x = b.input(codes(draw, shape, dtype, bits), dtype)
        return b.program(b.apply(code, x, axis=draw.integer(0, len(shape) - 1)))

    return make


def concat(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 4, 5)
        axis = draw.integer(0, len(shape) - 1)
        shapes = [(*shape[:axis], draw.integer(1, 5), *shape[axis + 1 :]) for _ in range(draw.integer(1, 4))]
        b = Building()
        return b.program(b.apply("CONCAT", *(b.input(codes(draw, s, dtype), dtype) for s in shapes), axis=axis))

    return make


def pad(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 4, 5)
        widths = [draw.integer(0, 3) for _ in range(2 * len(shape))]
        b = Building()
        x = b.input(codes(draw, shape, dtype), dtype)
        return b.program(b.apply("PAD", x, b.shape(widths), b.constant(codes(draw, (1,), dtype), dtype)))

    return make


def reshape(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(0, 4, 5)
        target = draw.rng.permutation([*shape, *[1] * draw.integer(0, 2)]).tolist()
        if len(target) > 1 and draw.coin():
            target[:2] = [target[0] * target[1]]
        b = Building()
        return b.program(b.apply("RESHAPE", b.input(codes(draw, shape, dtype), dtype), b.shape(target)))

    return make


def slice_(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 4, 6)
        start = [draw.integer(0, n - 1) for n in shape]
        size = [draw.integer(1, n - s) for n, s in zip(shape, start, strict=True)]
        b = Building()
        return b.program(b.apply("SLICE", b.input(codes(draw, shape, dtype), dtype), b.shape(start), b.shape(size)))

    return make


def tile(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 4, 4)
        b = Building()
        multiples = b.shape([draw.integer(1, 3) for _ in shape])
        return b.program(b.apply("TILE", b.input(codes(draw, shape, dtype), dtype), multiples))

    return make


def transpose(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 5, 5)
        b = Building()
        perms = tuple(draw.rng.permutation(len(shape)).tolist())
        return b.program(b.apply("TRANSPOSE", b.input(codes(draw, shape, dtype), dtype), perms=perms))

    return make


def gather(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        n, k, w, c = (draw.integer(1, 6) for _ in range(4))
        outside = draw.integer(0, 9) == 0
        indices = draw.rng.integers(-1 if outside else 0, k + outside, (n, w))
        b = Building()
        return b.program(b.apply("GATHER", b.input(codes(draw, (n, k, c), dtype), dtype), b.input(indices, "INT32")))

    return make


def scatter(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        n, k, c = draw.integer(1, 4), draw.integer(1, 6), draw.integer(1, 4)
        w = draw.integer(1, k)
        indices = np.stack([draw.rng.permutation(k)[:w] for _ in range(n)])
        if draw.integer(0, 9) == 0:
            indices = draw.rng.integers(0, k, (n, w))
        b = Building()
        values, source = (b.input(codes(draw, (n, count, c), dtype), dtype) for count in (k, w))
        return b.program(b.apply("SCATTER", values, b.input(indices, "INT32"), source))

    return make


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
