"""XNNPACK's kernels, which tests/crosscheck/executorch compares with the real runtime, equal the specification.

Random programs of every static operator, ordinary scales and extreme ones; what one side refuses the other does, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from crosscheck.draw import Draw, tensor
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import xnnpack
from npu_assay.reference.xnnpack import static

COUNT = 250

Pair = tuple[Callable[[], Tensor], Callable[[], Tensor]]
"""The specification's answer and the kernel's."""


def binary(name: str, draw: Draw) -> Pair:
    shape = draw.shape(1, 3, 6)
    p, q = tensor(draw.codes(shape)), tensor(draw.codes(shape[-1:]))
    a, b = draw.affine(), draw.affine()
    y = draw.matched(128 * (a.scale * b.scale * 128 if name == "mul" else max(a.scale, b.scale)))
    return lambda: getattr(xnnpack, name)(p, q, a, b, y), lambda: getattr(static, name)(a, b, y)(p, q)


def clamp(draw: Draw) -> Pair:
    codes, x = torch.arange(-128, 128).to(torch.int8), draw.affine()
    y = x if draw.coin() else draw.matched(128 * x.scale)
    limits = sorted(float(one) for one in draw.rng.uniform(-150, 150, 2) * x.scale)
    lo, hi = (None if draw.integer(0, 3) == 0 else one for one in limits)
    return lambda: xnnpack.clamp(codes, lo, hi, x, y), lambda: static.clamp(lo, hi, x, y)(codes)


def mean(draw: Draw) -> Pair:
    codes, x = (
        tensor(draw.codes((draw.integer(1, 2), draw.integer(1, 9), draw.integer(1, 9), draw.integer(1, 5)))),
        draw.affine(),
    )
    y = draw.matched(128 * x.scale)
    return lambda: xnnpack.mean(codes, x, y), lambda: static.mean(x, y)(codes)


def constants(draw: Draw, outputs: int, x: Affine) -> tuple[Tensor | None, Affine, list[float], Affine]:
    """Bias, input, weight scales and output."""
    bias = tensor(draw.rng.integers(-20000, 20000, outputs).astype("int32")) if draw.coin() else None
    scales = [draw.scale(-10, 0) for _ in range(outputs if draw.coin() else 1)]
    return bias, x, scales, draw.matched(x.scale * max(scales) * 127 * 128)


def linear(draw: Draw) -> Pair:
    inputs, outputs = draw.integer(1, 40), draw.integer(1, 9)
    codes, weights = tensor(draw.codes((draw.integer(1, 4), inputs))), tensor(draw.codes((outputs, inputs), -127))
    given = constants(draw, outputs, draw.affine())
    return lambda: xnnpack.linear(codes, weights, *given), lambda: static.linear(weights, *given)(codes)


def convolution(transposed: bool, draw: Draw) -> Pair:
    specified: Any = xnnpack
    kernels: Any = static
    groups = draw.integer(1, 3) if draw.coin() else 1
    depth, outputs = draw.integer(1, 4), groups * draw.integer(1, 4)
    kernel, stride, dilation = ((draw.integer(1, most), draw.integer(1, most)) for most in (4, 3, 2))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    codes = tensor(draw.codes((draw.integer(1, 2), *(span + draw.integer(0, 4) for span in spans), groups * depth)))
    weights = tensor(draw.codes((outputs, *kernel, depth), -127))
    padding = tuple((draw.integer(0, (span - 1) // 2), draw.integer(0, (span - 1) // 2)) for span in spans)
    given = (weights, *constants(draw, outputs, draw.affine()), stride, dilation, padding)
    if not transposed:
        return lambda: specified.conv2d(codes, *given), lambda: kernels.conv2d(*given, groups)(codes)
    more = tuple(draw.integer(0, step - 1) for step in stride)
    return (
        lambda: specified.transpose_conv2d(codes, *given, more),
        lambda: kernels.transpose_conv2d(*given, more, groups)(codes),
    )


PROGRAMS: dict[str, Callable[[Draw], Pair]] = {
    "add": lambda draw: binary("add", draw),
    "sub": lambda draw: binary("sub", draw),
    "mul": lambda draw: binary("mul", draw),
    "clamp": clamp,
    "mean": mean,
    "linear": linear,
    "conv2d": lambda draw: convolution(False, draw),
    "transpose_conv2d": lambda draw: convolution(True, draw),
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
def test_no_code_differs(operator: str, exponents: tuple[float, float]) -> None:
    first, compared = zlib.crc32(operator.encode()), 0
    for seed in range(first, first + COUNT):
        specified, found = map(answer, PROGRAMS[operator](Draw(seed, exponents)))
        assert (specified is None) == (found is None), f"seed {seed}: one side refuses"
        if specified is not None and found is not None:
            compared += 1
            assert torch.equal(specified, found), f"seed {seed}: {int((specified != found).sum())} codes differ"
    assert compared > COUNT // 5
