"""The specification of XNNPACK's arithmetic equals the XNNPACK library of the executorch wheel, number for number.

A whole run has more than 10,000 random programs of static int8 and as many of activations that are quantized at run
time; a sample of the tests has those of a few operators. Where the scheme leaves freedom the library picks by
processor: these are the numbers of x86 with AVX-512 and VNNI; elsewhere groups of 4-bit weights stay within their
bound.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest

from npu_assay.partitioners.xnnpack.xnn_model import PerTensor
from npu_assay.reference.arithmetic.xnnpack import dynamic
from tests.crosscheck.executorch import library, narrow, specified, subgraphs
from tests.crosscheck.executorch.apart import near
from tests.crosscheck.executorch.subgraphs import FLOATS, Array, Draw, Program

Family = Callable[[Draw], Program]

STATIC: dict[str, Family] = {
    **{op: subgraphs.codes_binary(op) for op in ("Add", "Multiply", "Subtract")},
    **{op: subgraphs.codes_convolution(op) for op in ("Conv2d", "ConvTranspose2d", "DepthwiseConv2d")},
    "Clamp": subgraphs.codes_clamp,
    "FullyConnected": subgraphs.codes_linear,
    "GlobalAvgPooling2d": subgraphs.codes_mean,
}
DYNAMIC: dict[str, Family] = {
    **{f"FullyConnected {kind}": subgraphs.dynamic_linear(kind) for kind in ("qcint8", "qcint4", "qbint4")},
    "Conv2d": subgraphs.dynamic_convolution("Conv2d"),
    "Conv2d of elements": subgraphs.dynamic_convolution("Conv2d", elements=True),
    "ConvTranspose2d": subgraphs.dynamic_convolution("ConvTranspose2d"),
    "Convert fp32": subgraphs.conversion("fp32", "qint8"),
    "Convert fp16": subgraphs.conversion("fp16", "qint8"),
}
COUNT = 650
"""Programs of an operator at ordinary scales, and as many at extreme ones."""
SUMS = ("Add", "Subtract")
"""XNNPACK takes ratios of scales that it cannot shift by, and computes something else; the specification refuses."""
OVERFLOW = 2.0**15
"""The ratio of a product's scales from which XNNPACK's numbers overflow before they are saturated."""


class Extreme(Draw):
    """Scales over many powers of two; two thirds of them are powers of two, which makes ties."""

    def affine(self) -> PerTensor:
        exponent = self.random.uniform(-14, 4)
        scale = 2.0 ** (round(exponent) if self.seed % 3 else exponent)
        return PerTensor(float(np.float32(scale)), super().affine().zero_point)

    def scales(self, count: int) -> Array:
        return np.asarray(2.0 ** self.random.uniform(-20, 4, count), np.float32)

    def reals(self, dtype: str, *shape: int) -> Array:
        limit = 4 if dtype == "fp16" else 40
        size = 2.0 ** self.random.uniform(-limit, limit)
        return np.asarray(super().reals("fp32", *shape) * size, FLOATS[dtype])


def compare(name: str, family: Family, draw: type[Draw], count: int) -> int:
    """How many programs both compute; fails at the first where they differ, or where one alone refuses."""
    first, compared = zlib.crc32(name.encode()) % 10**6, 0
    for seed in range(first, first + count):
        program = family(draw(seed))
        if name == "Multiply" and ratio(program) >= OVERFLOW:
            continue
        try:
            expected = specified.result(program)
        except ValueError as refused:
            assert "expected" in str(refused)
            if name not in SUMS:
                with pytest.raises(library.XnnpackError):
                    library.run(program.model, *program.inputs)
            continue
        (found,) = library.run(program.model, *program.inputs)
        differing = int(is_far(expected, found, program).sum()) if expected.shape == found.shape else found.size
        assert not differing, f"{name}, seed {seed}: {differing} of {found.size} numbers differ"
        compared += 1
    return compared


def is_far(expected: Array, found: Array, program: Program) -> Array:
    """Which numbers are not what they may be on the processor of this run."""
    if narrow.OTHER_ORDER and any(value.dtype == "qbint4" for value in program.model.values):
        return ~near(found, expected, narrow.bound(program))
    return np.asarray(expected != found)


def ratio(program: Program) -> float:
    """Of two factors' steps to the product's."""
    first, second, product = (specified.affine(value).scale for value in program.model.values)
    return first * second / product


@pytest.mark.sampled(2)
@pytest.mark.parametrize("draw", [Draw, Extreme])
@pytest.mark.parametrize("name", STATIC)
def test_no_code_differs(name: str, draw: type[Draw]) -> None:
    assert compare(name, STATIC[name], draw, COUNT) > COUNT * 0.9


@pytest.mark.sampled(2)
@pytest.mark.parametrize("draw", [Draw, Extreme])
@pytest.mark.parametrize("name", DYNAMIC)
def test_no_number_of_dynamic_products_differs(name: str, draw: type[Draw]) -> None:
    assert compare(name, DYNAMIC[name], draw, COUNT) == COUNT


@pytest.mark.parametrize(
    ("part", "wrong", "name"),
    [
        ("fused", lambda a, b, c: a * b + c, "FullyConnected qcint8"),
        ("LARGEST", 0, "FullyConnected qbint4") if narrow.OTHER_ORDER else ("PACKED", 32, "FullyConnected qbint4"),
    ],
)
def test_another_rounding_is_found(part: str, wrong: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: two roundings at the end, or sums of whole groups, or a bound of nothing."""
    monkeypatch.setattr(dynamic, part, wrong)
    with pytest.raises(AssertionError, match="numbers differ"):
        compare(name, DYNAMIC[name], Extreme, 40)
