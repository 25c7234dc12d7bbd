"""XNNPACK's kernels, which tests/crosscheck/executorch compares with the real runtime, equal the specification.

Random programs of every operator, ordinary scales and extreme ones; what one side refuses the other does, too.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from draw import Draw, tensor
from torch import Tensor

from npu_assay.partitioners.xnnpack.kernels import convert, elementwise, fma, pooling
from npu_assay.partitioners.xnnpack.kernels import dynamic as dynamic_kernels
from npu_assay.partitioners.xnnpack.kernels import linear as static_kernels
from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import xnnpack as specified

COUNT = 250

Pair = tuple[Callable[[], Tensor], Callable[[], Tensor]]
"""The specification's answer and the kernel's."""


def binary(name: str, draw: Draw) -> Pair:
    shape = draw.shape(1, 3, 6)
    p, q = tensor(draw.codes(shape)), tensor(draw.codes(shape[-1:]))
    a, b = draw.affine(), draw.affine()
    y = draw.matched(128 * (a.scale * b.scale * 128 if name == "mul" else max(a.scale, b.scale)))
    return lambda: getattr(specified.static, name)(p, q, a, b, y), lambda: getattr(elementwise, name)(a, b, y)(p, q)


def clamp(draw: Draw) -> Pair:
    codes, x = torch.arange(-128, 128).to(torch.int8), draw.affine()
    y = x if draw.coin() else draw.matched(128 * x.scale)
    limits = sorted(float(one) for one in draw.rng.uniform(-150, 150, 2) * x.scale)
    lo, hi = (None if draw.integer(0, 3) == 0 else one for one in limits)
    return lambda: specified.static.clamp(codes, lo, hi, x, y), lambda: elementwise.clamp(lo, hi, x, y)(codes)


def mean(draw: Draw) -> Pair:
    codes, x = (
        tensor(draw.codes((draw.integer(1, 2), draw.integer(1, 9), draw.integer(1, 9), draw.integer(1, 5)))),
        draw.affine(),
    )
    y = draw.matched(128 * x.scale)
    return lambda: specified.static.mean(codes, x, y), lambda: pooling.mean(x, y)(codes)


def constants(draw: Draw, outputs: int, x: Affine) -> tuple[Tensor | None, Affine, list[float], Affine]:
    """Bias, input, weight scales and output."""
    bias = tensor(draw.rng.integers(-20000, 20000, outputs).astype("int32")) if draw.coin() else None
    scales = [draw.scale(-10, 0) for _ in range(outputs if draw.coin() else 1)]
    return bias, x, scales, draw.matched(x.scale * max(scales) * 127 * 128)


def linear(draw: Draw) -> Pair:
    inputs, outputs = draw.integer(1, 40), draw.integer(1, 9)
    codes, weights = tensor(draw.codes((draw.integer(1, 4), inputs))), tensor(draw.codes((outputs, inputs), -127))
    given = constants(draw, outputs, draw.affine())
    return lambda: specified.static.linear(codes, weights, *given), lambda: static_kernels.linear(weights, *given)(
        codes
    )


class Image(NamedTuple):
    """A convolution's images, weights and the rest of it."""

    shape: tuple[int, ...]
    weights: Tensor
    window: tuple[Any, ...]
    more: tuple[int, ...]
    groups: int


def image(draw: Draw) -> Image:
    groups = draw.integer(1, 3) if draw.coin() else 1
    depth, outputs = draw.integer(1, 4), groups * draw.integer(1, 4)
    kernel, stride, dilation = ((draw.integer(1, most), draw.integer(1, most)) for most in (4, 3, 2))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    shape = (draw.integer(1, 2), *(span + draw.integer(0, 4) for span in spans), groups * depth)
    weights = tensor(draw.codes((outputs, *kernel, depth), -127))
    padding = tuple((draw.integer(0, (span - 1) // 2), draw.integer(0, (span - 1) // 2)) for span in spans)
    more = tuple(draw.integer(0, step - 1) for step in stride)
    return Image(shape, weights, (stride, dilation, padding), more, groups)


def convolution(transposed: bool, draw: Draw) -> Pair:
    drawn = image(draw)
    codes = tensor(draw.codes(drawn.shape))
    given: Any = (drawn.weights, *constants(draw, len(drawn.weights), draw.affine()), *drawn.window)
    return _convolutions(specified.static, static_kernels, transposed, codes, given, drawn)


def _convolutions(plain: Any, kernels: Any, transposed: bool, x: Tensor, given: Any, drawn: Image) -> Pair:
    if not transposed:
        return lambda: plain.conv2d(x, *given), lambda: kernels.conv2d(*given, drawn.groups)(x)
    return (
        lambda: plain.transpose_conv2d(x, *given, drawn.more),
        lambda: kernels.transpose_conv2d(*given, drawn.more, drawn.groups)(x),
    )


# ------------------------------------------------------------------------------------ activations that are reals


def reals(draw: Draw, shape: Sequence[int]) -> Tensor:
    """Of both signs, of one, all zero, or with ties between codes."""
    codes = tensor(draw.codes(shape)).float()
    noise = tensor(draw.rng.normal(size=tuple(shape)).astype("float32"))
    mixed = (codes, noise, noise.abs(), -noise.abs(), codes * 0, codes + 0.5)[draw.integer(0, 5)]
    return mixed * draw.scale()


def dynamic_constants(draw: Draw, outputs: int) -> tuple[list[float], Tensor | None]:
    scales = [draw.scale(-10, 0) for _ in range(outputs if draw.coin() else 1)]
    return scales, reals(draw, (outputs,)) if draw.coin() else None


def dynamic_linear(draw: Draw) -> Pair:
    inputs, outputs = draw.integer(1, 40), draw.integer(1, 9)
    x, weights = reals(draw, (draw.integer(1, 4), inputs)), tensor(draw.codes((outputs, inputs), -127))
    given = (weights, *dynamic_constants(draw, outputs))
    return lambda: specified.dynamic.linear(x, *given), lambda: dynamic_kernels.linear(*given)(x)


def groupwise(draw: Draw) -> Pair:
    groups, size, outputs = draw.integer(1, 4), draw.integer(1, 3) * 32, draw.integer(1, 9)
    x, weights = reals(draw, (draw.integer(1, 4), groups * size)), tensor(draw.codes((outputs, groups * size), -8, 7))
    scales = torch.tensor([[draw.scale(-10, 0) for _ in range(groups)] for _ in range(outputs)])
    bias = reals(draw, (outputs,)) if draw.coin() else None
    given = (weights, scales, bias)
    return lambda: specified.dynamic.groupwise_linear(x, *given), lambda: dynamic_kernels.groupwise_linear(*given)(x)


def dynamic_convolution(transposed: bool, draw: Draw) -> Pair:
    drawn = image(draw)
    given: Any = (drawn.weights, *dynamic_constants(draw, len(drawn.weights)), *drawn.window)
    return _convolutions(specified.dynamic, dynamic_kernels, transposed, reals(draw, drawn.shape), given, drawn)


def quantize(draw: Draw) -> Pair:
    x, y = reals(draw, (100,)), draw.affine()
    x[:3] = torch.tensor([math.inf, -math.inf, math.nan])
    half = draw.coin()
    given = x.half() if half else x
    return lambda: specified.quantize(given, y), lambda: convert.quantize(y, half)(given)


def fused(draw: Draw) -> Pair:
    """Short operands, whose sums lie in the middle of two float32 numbers, or a small term beside."""
    a, b = (tensor(draw.rng.integers(-(2**13), 2**13, 400).astype("float32")) for _ in range(2))
    c = tensor(draw.rng.integers(-3, 4, 400).astype("float32")) * float(2.0 ** draw.integer(-40, 26))
    return lambda: specified.floats.fused(a, b, c), lambda: fma.fma(a, b, c)


PROGRAMS: dict[str, Callable[[Draw], Pair]] = {
    "add": lambda draw: binary("add", draw),
    "sub": lambda draw: binary("sub", draw),
    "mul": lambda draw: binary("mul", draw),
    "clamp": clamp,
    "mean": mean,
    "linear": linear,
    "conv2d": lambda draw: convolution(False, draw),
    "transpose_conv2d": lambda draw: convolution(True, draw),
    "dynamic linear": dynamic_linear,
    "dynamic conv2d": lambda draw: dynamic_convolution(False, draw),
    "dynamic transpose_conv2d": lambda draw: dynamic_convolution(True, draw),
    "4-bit groups": groupwise,
    "quantize": quantize,
    "fused": fused,
}


def answer(function: Callable[[], Tensor]) -> Tensor | None:
    """None for what is refused."""
    try:
        return function()
    except ValueError as refused:
        assert "expected" in str(refused)
        return None


@pytest.mark.parametrize("exponents", [(-10, 2), (-30, 10)], ids=("ordinary", "extreme"))
@pytest.mark.parametrize("operator", PROGRAMS)
@pytest.mark.sampled(6)
def test_no_number_differs(operator: str, exponents: tuple[float, float]) -> None:
    first, compared = zlib.crc32(operator.encode()), 0
    for seed in range(first, first + COUNT):
        specified, found = map(answer, PROGRAMS[operator](Draw(seed, exponents)))
        assert (specified is None) == (found is None), f"seed {seed}: one side refuses"
        if specified is not None and found is not None:
            compared += 1
            assert torch.equal(specified, found), f"seed {seed}: {int((specified != found).sum())} numbers differ"
    assert compared > COUNT // 5
