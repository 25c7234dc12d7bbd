"""One function per TFLite operator: a seeded draw -> a random program of that operator.

The modules of kernels are looked up when a program is drawn, so that a test can put others in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from draw import Draw, tensor
from torch import Tensor

from npu_assay.partitioners.common.int8 import conv, elementwise, layout, lut, matmul, pool, resize
from npu_assay.partitioners.common.int8.softmax import OUTPUT, softmax
from npu_assay.reference.affine import Affine
from tests.crosscheck.litert import Array, Spec, constant, one_operator
from tests.crosscheck.litert_draw import Program, constant_of, int32, spec

VALID = 1
SAME = 0


def unary(
    name: str, kernel: Callable[[Affine, Affine], Callable[[Tensor], Tensor]], fixed: Affine | None = None
) -> Callable[[Draw], Program]:
    """Programs of an operator of one input: all 256 codes, then some at random. `fixed` is the only output allowed."""

    def make(draw: Draw) -> Program:
        x = draw.affine()
        y = draw.matched(128 * x.scale)
        if draw.integer(0, 3) == 0:
            y = Affine(x.scale, y.zero_point)
        if fixed is not None:
            y = fixed
        codes = np.concatenate([np.arange(-128, 128), draw.codes((44,))]).astype(np.int8).reshape(1, 10, 6, 5)
        model = one_operator(name, [spec(codes.shape, x)], spec(codes.shape, y))
        return Program(model, (codes,), kernel(x, y))

    return make


def leaky_relu(draw: Draw) -> Program:
    x, alpha = draw.affine(), float(draw.rng.uniform(-1.5, 1.5))
    y = draw.matched(128 * x.scale)
    codes = np.arange(-128, 128).astype(np.int8).reshape(1, 16, 16)
    model = one_operator(
        "LEAKY_RELU", [spec(codes.shape, x)], spec(codes.shape, y), "LeakyReluOptions", {"alpha": alpha}
    )
    return Program(model, (codes,), elementwise.leaky_relu(alpha, x, y))


def neg(draw: Draw) -> Program:
    """SUB(zero point, x) with one quantization for all."""
    x = draw.affine()
    codes = np.arange(-128, 128).astype(np.int8).reshape(1, 16, 16)
    zero = constant_of(np.array(x.zero_point, dtype=np.int8), x)
    model = one_operator("SUB", [zero, spec(codes.shape, x)], spec(codes.shape, x), "SubOptions")
    return Program(model, (codes,), elementwise.neg(x))


def prelu(draw: Draw) -> Program:
    x, a = draw.affine(), draw.affine()
    shape = (draw.integer(1, 2), draw.integer(1, 4), draw.integer(1, 4), draw.integer(1, 9))
    codes, alpha = draw.codes(shape), draw.codes((1, 1, shape[3]))
    y = draw.matched(x.scale * 128)
    model = one_operator("PRELU", [spec(shape, x), constant_of(alpha, a)], spec(shape, y))
    return Program(model, (codes,), elementwise.prelu(tensor(alpha), a, x, y))


def binary(name: str, options: str, kernel: Callable[..., Callable[..., Tensor]]) -> Callable[[Draw], Program]:
    """ADD, SUB, MUL with and without broadcasting; inputs outside the operator's range are drawn again."""

    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 4, 6)
        one = tuple(1 if draw.integer(0, 3) == 0 else n for n in shape)[draw.integer(0, len(shape) - 1) :]
        shapes = (one, shape) if draw.coin() else (shape, one)
        while True:
            a, b = draw.affine(), draw.affine()
            y = draw.matched(128 * (a.scale * b.scale * 128 if name == "MUL" else max(a.scale, b.scale)))
            try:
                function = kernel(a, b, y)
            except ValueError:
                continue
            break
        model = one_operator(name, [spec(shapes[0], a), spec(shapes[1], b)], spec(shape, y), options)
        return Program(model, (draw.codes(shapes[0]), draw.codes(shapes[1])), function)

    return make


def _bias(draw: Draw, x: Affine, scales: Sequence[float], channels: int) -> tuple[Tensor | None, Spec]:
    """A bias for us, perhaps none, and the same one for LiteRT, whose CONV_2D cannot do without."""
    absent = draw.integer(0, 3) == 0
    codes = (draw.rng.integers(-20000, 20000, channels) * (0 if absent else 1)).astype(np.int32)
    real = [float(np.float32(np.float32(x.scale) * np.float32(s))) for s in scales]
    return None if absent else tensor(codes), constant(codes, real)


def _weights(draw: Draw, shape: tuple[int, ...], channels: int) -> tuple[Array, list[float]]:
    scales = [draw.scale(-10, 0) for _ in range(channels if draw.coin() else 1)]
    return draw.codes(shape, -127), scales


def _window(draw: Draw) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]]:
    """(kernel, stride, dilation, size of an input that the window fits in)."""
    kernel = (draw.integer(1, 4), draw.integer(1, 4))
    stride = (draw.integer(1, 3), draw.integer(1, 3))
    dilation = (draw.integer(1, 2), draw.integer(1, 2))
    least = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    return kernel, stride, dilation, (least[0] + draw.integer(0, 5), least[1] + draw.integer(0, 5))


Pads = tuple[tuple[int, int], tuple[int, int]]


def _same(size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Pads:
    """TensorFlow's SAME padding: what is missing for ceil(size / stride) windows, the odd cell at the end."""
    pairs = []
    for n, k, s, d in zip(size, kernel, stride, dilation, strict=True):
        total = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        pairs.append((total // 2, total - total // 2))
    return pairs[0], pairs[1]


def _conv_options(padding: int, stride: tuple[int, int], dilation: tuple[int, int]) -> dict[str, Any]:
    return {
        "padding": padding,
        "strideH": stride[0],
        "strideW": stride[1],
        "dilationHFactor": dilation[0],
        "dilationWFactor": dilation[1],
    }


def _out(size: int, kernel: int, stride: int, dilation: int) -> int:
    return (size - (kernel - 1) * dilation - 1) // stride + 1


def _conv_shape(
    shape: Sequence[int], pads: Pads, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], out: int
) -> tuple[int, ...]:
    h, w = (_out(shape[1 + i] + sum(pads[i]), kernel[i], stride[i], dilation[i]) for i in range(2))
    return shape[0], h, w, out


def conv_2d(draw: Draw) -> Program:
    kernel, stride, dilation, size = _window(draw)
    groups, each, outputs = (draw.integer(1, 3) if draw.coin() else 1), draw.integer(1, 5), draw.integer(1, 6)
    channels, out = groups * each, groups * outputs
    x = draw.affine()
    shape = (draw.integer(1, 2), *size, channels)
    weights, scales = _weights(draw, (out, *kernel, each), out)
    bias, bias_spec = _bias(draw, x, scales, out)
    y = draw.matched(x.scale * scales[0] * 127 * 128)
    same = draw.coin()
    pads = _same(size, kernel, stride, dilation) if same else ((0, 0), (0, 0))
    function = conv.conv2d(tensor(weights), bias, x, scales, y, stride, dilation, pads)
    model = one_operator(
        "CONV_2D",
        [spec(shape, x), constant(weights, scales), bias_spec],
        spec(_conv_shape(shape, pads, kernel, stride, dilation, out), y),
        "Conv2DOptions",
        _conv_options(SAME if same else VALID, stride, dilation),
    )
    return Program(model, (draw.codes(shape),), function)


def depthwise_conv_2d(draw: Draw) -> Program:
    kernel, stride, dilation, size = _window(draw)
    stride = (stride[0], stride[0])
    channels, multiplier = draw.integer(1, 9), draw.integer(1, 3)
    out = channels * multiplier
    x = draw.affine()
    shape = (draw.integer(1, 2), *size, channels)
    weights, scales = _weights(draw, (1, *kernel, out), out)
    bias, bias_spec = _bias(draw, x, scales, out)
    y = draw.matched(x.scale * scales[0] * 127 * 128)
    same = draw.coin()
    pads = _same(size, kernel, stride, dilation) if same else ((0, 0), (0, 0))
    function = conv.depthwise_conv2d(tensor(weights), bias, x, scales, y, stride, dilation, pads)
    model = one_operator(
        "DEPTHWISE_CONV_2D",
        [spec(shape, x), constant(weights, scales, axis=3), bias_spec],
        spec(_conv_shape(shape, pads, kernel, stride, dilation, out), y),
        "DepthwiseConv2DOptions",
        {**_conv_options(SAME if same else VALID, stride, dilation), "depthMultiplier": multiplier},
    )
    return Program(model, (draw.codes(shape),), function)


def transpose_conv(draw: Draw) -> Program:
    kernel, stride = (draw.integer(1, 4), draw.integer(1, 4)), (draw.integer(1, 3), draw.integer(1, 3))
    shape = (draw.integer(1, 2), draw.integer(1, 4), draw.integer(1, 4), draw.integer(1, 5))
    out = draw.integer(1, 6)
    x = draw.affine()
    weights, scales = _weights(draw, (out, *kernel, shape[3]), out)
    scales = scales if len(scales) == out else scales * out
    bias, bias_spec = _bias(draw, x, scales, out)
    y = draw.matched(x.scale * scales[0] * 127 * 128)
    # A forward VALID convolution of this output has the input's size: up to stride - 1 more cells fit.
    size = [(n - 1) * s + k + draw.integer(0, s - 1) for n, s, k in zip(shape[1:3], stride, kernel, strict=True)]
    result = (shape[0], size[0], size[1], out)
    function = conv.transpose_conv(tensor(weights), bias, result, x, scales, y, stride)
    inputs = [int32(result), constant(weights, scales), spec(shape, x), bias_spec]
    model = one_operator(
        "TRANSPOSE_CONV",
        inputs,
        spec(result, y),
        "TransposeConvOptions",
        {"padding": VALID, "strideH": stride[0], "strideW": stride[1]},
        version=3,
    )
    return Program(model, (draw.codes(shape),), function)


def _in_register(y: Affine, step: float, terms: int) -> Affine:
    """`y`, or a coarser one: LiteRT casts the unsaturated FULLY_CONNECTED result to int32, undefined beyond it."""
    largest = step * (terms * 255 * 255 + 20000)
    return y if largest / y.scale < 2**31 else Affine(largest / 2**30, y.zero_point)


def fully_connected(draw: Draw) -> Program:
    rows, terms, out = draw.integer(1, 4), draw.integer(1, 40), draw.integer(1, 9)
    x, keep = draw.affine(), draw.coin()
    weights, scales = _weights(draw, (out, terms), out)
    bias, bias_spec = _bias(draw, x, scales, out)
    y = _in_register(draw.matched(x.scale * scales[0] * 127 * 128), x.scale * max(scales), terms)
    function = matmul.fully_connected(tensor(weights), bias, x, scales, y, keep_dims=keep)
    shape = (rows, 1, terms)
    model = one_operator(
        "FULLY_CONNECTED",
        [spec(shape, x), constant(weights, scales), bias_spec],
        spec((rows, 1, out) if keep else (rows, out), y),
        "FullyConnectedOptions",
        {"keepNumDims": keep},
    )
    return Program(model, (draw.codes(shape),), function)


def fully_connected_dynamic(draw: Draw) -> Program:
    rows, terms, out = draw.integer(1, 4), draw.integer(1, 40), draw.integer(1, 9)
    x, w = draw.affine(), draw.affine()
    y = _in_register(draw.matched(x.scale * w.scale * 127 * 128), x.scale * w.scale, terms)
    model = one_operator(
        "FULLY_CONNECTED",
        [spec((rows, terms), x), spec((out, terms), w), None],
        spec((rows, out), y),
        "FullyConnectedOptions",
    )
    return Program(
        model, (draw.codes((rows, terms)), draw.codes((out, terms))), matmul.fully_connected_dynamic(x, w, y)
    )


def batch_matmul(draw: Draw) -> Program:
    batch, m, k, n = draw.shape(0, 2, 3), draw.integer(1, 7), draw.integer(1, 30), draw.integer(1, 7)
    a, b, adj_x, adj_y = draw.affine(), draw.affine(), draw.coin(), draw.coin()
    y = draw.matched(a.scale * b.scale * 127 * 128)
    left = (*batch, k, m) if adj_x else (*batch, m, k)
    right = (*batch, n, k) if adj_y else (*batch, k, n)
    model = one_operator(
        "BATCH_MATMUL",
        [spec(left, a), spec(right, b)],
        spec((*batch, m, n), y),
        "BatchMatMulOptions",
        {"adjX": adj_x, "adjY": adj_y},
    )
    return Program(model, (draw.codes(left), draw.codes(right)), matmul.batch_matmul(a, b, y, adj_x, adj_y))


def _pool(name: str, draw: Draw, kernel_of: Callable[..., Callable[[Tensor], Tensor]]) -> Program:
    kernel, stride, _, _ = _window(draw)
    shape = (draw.integer(1, 2), kernel[0] + draw.integer(0, 5), kernel[1] + draw.integer(0, 5), draw.integer(1, 9))
    same = draw.coin()
    pads = _same(shape[1:3], kernel, stride, (1, 1)) if same else ((0, 0), (0, 0))
    x = draw.affine()
    model = one_operator(
        name,
        [spec(shape, x)],
        spec(_conv_shape(shape, pads, kernel, stride, (1, 1), shape[3]), x),
        "Pool2DOptions",
        {
            "padding": SAME if same else VALID,
            "strideH": stride[0],
            "strideW": stride[1],
            "filterHeight": kernel[0],
            "filterWidth": kernel[1],
        },
    )
    return Program(model, (draw.codes(shape),), kernel_of(kernel, stride, x, pads))


def average_pool_2d(draw: Draw) -> Program:
    return _pool("AVERAGE_POOL_2D", draw, pool.avg_pool2d)


def max_pool_2d(draw: Draw) -> Program:
    return _pool("MAX_POOL_2D", draw, lambda kernel, stride, _, pads: pool.max_pool2d(kernel, stride, pads))


def mean(draw: Draw) -> Program:
    shape = draw.shape(1, 4, 7)
    axes = sorted(draw.rng.choice(len(shape), draw.integer(1, len(shape)), replace=False).tolist())
    if len(shape) == 4 and draw.coin():
        axes = [1, 2]
    spelled = [axis - len(shape) if draw.coin() else axis for axis in axes]
    x, keep = draw.affine(), draw.coin()
    y = x if draw.coin() else draw.matched(128 * x.scale)
    out = [1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes]
    model = one_operator("MEAN", [spec(shape, x), int32(spelled)], spec(out, y), "ReducerOptions", {"keepDims": keep})
    return Program(model, (draw.codes(shape),), pool.mean(spelled, keep, x, y))


def extreme(name: str, kernel: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Draw], Program]:
    """MAXIMUM and MINIMUM, with and without broadcasting."""

    def make(draw: Draw) -> Program:
        shape, x = draw.shape(1, 4, 6), draw.affine()
        one = tuple(1 if draw.integer(0, 3) == 0 else n for n in shape)
        shapes = (one, shape) if draw.coin() else (shape, one)
        model = one_operator(name, [spec(s, x) for s in shapes], spec(shape, x), "MaximumMinimumOptions")
        return Program(model, tuple(draw.codes(s) for s in shapes), kernel)

    return make


def reduced(
    name: str, kernel: Callable[[Sequence[int], bool], Callable[[Tensor], Tensor]]
) -> Callable[[Draw], Program]:
    """REDUCE_MAX and REDUCE_MIN over some axes."""

    def make(draw: Draw) -> Program:
        shape, x, keep = draw.shape(1, 4, 6), draw.affine(), draw.coin()
        axes = sorted(draw.rng.choice(len(shape), draw.integer(1, len(shape)), replace=False).tolist())
        out = [1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes]
        model = one_operator(name, [spec(shape, x), int32(axes)], spec(out, x), "ReducerOptions", {"keepDims": keep})
        return Program(model, (draw.codes(shape),), kernel(axes, keep))

    return make


def summed(draw: Draw) -> Program:
    """SUM over some axes; the scales differ, else LiteRT adds codes as they are."""
    shape, x, keep = draw.shape(1, 4, 6), draw.affine(), draw.coin()
    axes = sorted(draw.rng.choice(len(shape), draw.integer(1, len(shape)), replace=False).tolist())
    out = [1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes]
    y = draw.matched(500 * x.scale)
    model = one_operator("SUM", [spec(shape, x), int32(axes)], spec(out, y), "ReducerOptions", {"keepDims": keep})
    return Program(model, (draw.codes(shape),), pool.sum_(axes, keep, x, y))


def soft_max(draw: Draw) -> Program:
    x, beta = draw.affine(), float(draw.rng.choice([1.0, draw.rng.uniform(0.1, 3)]))
    shape = (*draw.shape(0, 3, 4), int(draw.rng.choice([draw.integer(1, 20), 300])))
    model = one_operator("SOFTMAX", [spec(shape, x)], spec(shape, OUTPUT), "SoftmaxOptions", {"beta": beta})
    return Program(model, (draw.codes(shape),), softmax(beta, x))


def _resize(draw: Draw, name: str, options: str, kernel: Callable[..., Callable[[Tensor], Tensor]]) -> Program:
    shape = (draw.integer(1, 2), draw.integer(1, 9), draw.integer(1, 9), draw.integer(1, 5))
    size = (draw.integer(1, 20), draw.integer(1, 20))
    if draw.coin():
        size = (shape[1] * 2, shape[2] * 2)
    x, align = draw.affine(), draw.coin()
    half = draw.coin() and not align
    model = one_operator(
        name,
        [spec(shape, x), int32(size)],
        spec((shape[0], *size, shape[3]), x),
        options,
        {"alignCorners": align, "halfPixelCenters": half},
        version=3,
    )
    return Program(model, (draw.codes(shape),), kernel(size, align, half))


def resize_bilinear(draw: Draw) -> Program:
    return _resize(draw, "RESIZE_BILINEAR", "ResizeBilinearOptions", resize.resize_bilinear)


def resize_nearest(draw: Draw) -> Program:
    return _resize(draw, "RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", resize.resize_nearest)


def _paddings(draw: Draw, shape: Sequence[int]) -> tuple[list[tuple[int, int]], list[int]]:
    pads = [(draw.integer(0, 3), draw.integer(0, 3)) for _ in shape]
    return pads, [n + a + b for n, (a, b) in zip(shape, pads, strict=True)]


def pad(draw: Draw) -> Program:
    shape, x = draw.shape(1, 4, 5), draw.affine()
    pads, out = _paddings(draw, shape)
    model = one_operator("PAD", [spec(shape, x), constant(np.array(pads, np.int32))], spec(out, x), "PadOptions")
    return Program(model, (draw.codes(shape),), layout.pad(pads, x.zero_point))


def padv2(draw: Draw) -> Program:
    shape, x, code = draw.shape(1, 4, 5), draw.affine(), draw.integer(-128, 127)
    pads, out = _paddings(draw, shape)
    value = constant_of(np.array([code], np.int8), x)
    inputs = [spec(shape, x), constant(np.array(pads, np.int32)), value]
    return Program(
        one_operator("PADV2", inputs, spec(out, x), "PadV2Options"), (draw.codes(shape),), layout.pad(pads, code)
    )


def concatenation(draw: Draw) -> Program:
    shape, x = draw.shape(1, 4, 5), draw.affine()
    axis = draw.integer(0, len(shape) - 1)
    shapes = [(*shape[:axis], draw.integer(1, 5), *shape[axis + 1 :]) for _ in range(draw.integer(1, 4))]
    out = (*shape[:axis], sum(s[axis] for s in shapes), *shape[axis + 1 :])
    options = {"axis": axis - len(shape) if draw.coin() else axis}
    model = one_operator("CONCATENATION", [spec(s, x) for s in shapes], spec(out, x), "ConcatenationOptions", options)
    join = layout.concat(options["axis"])
    return Program(model, tuple(draw.codes(s) for s in shapes), lambda *parts: join(parts))


def slice_(draw: Draw) -> Program:
    shape, x = draw.shape(1, 4, 6), draw.affine()
    begin = [draw.integer(0, n - 1) for n in shape]
    size = [-1 if draw.integer(0, 4) == 0 else draw.integer(1, n - b) for n, b in zip(shape, begin, strict=True)]
    out = [n - b if s == -1 else s for n, b, s in zip(shape, begin, size, strict=True)]
    model = one_operator("SLICE", [spec(shape, x), int32(begin), int32(size)], spec(out, x), "SliceOptions")
    return Program(model, (draw.codes(shape),), layout.slice_(begin, size))


def transpose(draw: Draw) -> Program:
    shape, x = draw.shape(1, 4, 6), draw.affine()
    perm = draw.rng.permutation(len(shape)).tolist()
    out = [shape[i] for i in perm]
    model = one_operator("TRANSPOSE", [spec(shape, x), int32(perm)], spec(out, x), "TransposeOptions")
    return Program(model, (draw.codes(shape),), layout.transpose(perm))


def reshape(draw: Draw) -> Program:
    shape, x = draw.shape(1, 4, 6), draw.affine()
    out = (int(np.prod(shape[:2])), -1, *shape[2:])
    final = (out[0], 1, *shape[2:])
    model = one_operator(
        "RESHAPE", [spec(shape, x), int32(out)], spec(final, x), "ReshapeOptions", {"newShape": list(out)}
    )
    return Program(model, (draw.codes(shape),), layout.reshape(out))


def _relu(lo: float | None, hi: float | None) -> Callable[[Affine, Affine], Callable[[Tensor], Tensor]]:
    return lambda x, y: elementwise.relu(lo, hi, x, y)


PROGRAMS: dict[str, Callable[[Draw], Program]] = {
    "ABS": unary("ABS", lambda x, y: elementwise.abs_(x, y)),
    "ADD": binary("ADD", "AddOptions", lambda a, b, y: elementwise.add(a, b, y)),
    "AVERAGE_POOL_2D": average_pool_2d,
    "BATCH_MATMUL": batch_matmul,
    "CONCATENATION": concatenation,
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "EXP": unary("EXP", lambda x, y: lut.exp(x, y)),
    "FULLY_CONNECTED": fully_connected,
    "FULLY_CONNECTED with dynamic weights": fully_connected_dynamic,
    "LEAKY_RELU": leaky_relu,
    "LOG": unary("LOG", lambda x, y: lut.log(x, y)),
    "LOGISTIC": unary("LOGISTIC", lambda x, y: lut.logistic(x, y), OUTPUT),
    "MAXIMUM": extreme("MAXIMUM", elementwise.maximum),
    "MAX_POOL_2D": max_pool_2d,
    "MEAN": mean,
    "MINIMUM": extreme("MINIMUM", elementwise.minimum),
    "MUL": binary("MUL", "MulOptions", lambda a, b, y: elementwise.mul(a, b, y)),
    "PAD": pad,
    "PADV2": padv2,
    "PRELU": prelu,
    "QUANTIZE": unary("QUANTIZE", lambda x, y: elementwise.requantize(x, y)),
    "REDUCE_MAX": reduced("REDUCE_MAX", pool.reduce_max),
    "REDUCE_MIN": reduced("REDUCE_MIN", pool.reduce_min),
    "RELU": unary("RELU", _relu(0.0, None)),
    "RELU6": unary("RELU6", _relu(0.0, 6.0)),
    "RELU_0_TO_1": unary("RELU_0_TO_1", _relu(0.0, 1.0)),
    "RELU_N1_TO_1": unary("RELU_N1_TO_1", _relu(-1.0, 1.0)),
    "RESHAPE": reshape,
    "RESIZE_BILINEAR": resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resize_nearest,
    "SLICE": slice_,
    "SOFTMAX": soft_max,
    "SUB": binary("SUB", "SubOptions", lambda a, b, y: elementwise.sub(a, b, y)),
    "SUB as NEG": neg,
    "TANH": unary("TANH", lambda x, y: lut.tanh(x, y)),
    "TRANSPOSE": transpose,
    "TRANSPOSE_CONV": transpose_conv,
}
