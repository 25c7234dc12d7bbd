"""Where a rescale leaves 32 bits: the largest accumulator, counted by hand, on both sides of every power of two."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from neutron_graphs import Builder, Params, judge
from torch import fx

from npu_assay.partitioners.neutron import NeutronPartitioner, generate_neutron_compile_spec

SUM = "aten.sum.dim_IntList"  # from release 1.4 on
CONV, MM, BMM = "aten.convolution.default", "aten.mm.default", "aten.bmm.default"
X, OTHER = 0.5, 0.25


def code(scale: float, zero_point: int = 0) -> Params:
    return (scale, zero_point, -128, 127, torch.int8)


@dataclass(frozen=True)
class Sum:
    """An operator, its largest accumulator, and the real number that one unit of it stands for."""

    op: str
    make: Callable[..., fx.Node]
    largest: int
    unit: float


def _biased(b: Builder, outputs: int, largest: int) -> fx.Node:
    codes = torch.zeros(outputs, dtype=torch.int32)
    codes[-1] = -largest
    return b.call(
        "quantized_decomposed.dequantize_per_tensor.default",
        b.raw_constant(codes),
        X * 0.01,
        0,
        -(2**31),
        2**31 - 1,
        torch.int32,
    )


def _convolved(
    b: Builder, y: Params, shape: tuple[int, ...], weight: tuple[int, ...], bias: int, **more: object
) -> fx.Node:
    outputs = weight[1] if more.get("transposed") else weight[0]
    found = _biased(b, outputs, bias) if bias else None
    return b.conv(b.input(1, *shape, q=code(X)), b.weight(*weight), found, q=y, **more)


def _mean(b: Builder, y: Params, count: int, zero_point: int) -> fx.Node:
    return b.op("aten.mean.dim", b.input(8, count, q=code(X, zero_point)), [1], True, q=y)


def _total(b: Builder, y: Params, count: int, zero_point: int) -> fx.Node:
    return b.op(SUM, b.input(8, count, q=code(X, zero_point)), [1], True, q=y)


WEIGHT_SPAN = 128  # of weights -127..127 with zero point 0
SUMS = {
    "abs": Sum("aten.abs.default", lambda b, y: b.op("aten.abs.default", b.input(1, 8, q=code(X)), q=y), 128, X),
    "abs from the lowest code": Sum(
        "aten.abs.default", lambda b, y: b.op("aten.abs.default", b.input(1, 8, q=code(X, -128)), q=y), 255, X
    ),
    "abs from the highest code": Sum(
        "aten.abs.default", lambda b, y: b.op("aten.abs.default", b.input(1, 8, q=code(X, 127)), q=y), 255, X
    ),
    # Dividing by a count of 2 or more takes one bit, at least, from the shift; the rule counts on no more.
    "mean of 258": Sum("aten.mean.dim", lambda b, y: _mean(b, y, 258, -128), 258 * 255, X / 2),
    "mean of 258, from above": Sum("aten.mean.dim", lambda b, y: _mean(b, y, 258, 127), 258 * 255, X / 2),
    "mean of 10": Sum("aten.mean.dim", lambda b, y: _mean(b, y, 10, 0), 10 * 128, X / 2),
    "sum of 258": Sum(SUM, lambda b, y: _total(b, y, 258, -128), 258 * 255, X),
    "sum of 257, from above": Sum(SUM, lambda b, y: _total(b, y, 257, 127), 257 * 255, X),
    "product": Sum(
        "aten.mul.Tensor",
        lambda b, y: b.op("aten.mul.Tensor", b.input(1, 8, q=code(X, -128)), b.input(1, 8, q=code(OTHER, 127)), q=y),
        255 * 255,
        X * OTHER,
    ),
    "batches": Sum(
        BMM,
        lambda b, y: b.op(BMM, b.input(1, 8, 16, q=code(X)), b.input(1, 16, 24, q=code(OTHER)), q=y),
        16 * 128 * 128,
        X * OTHER,
    ),
    "matrix": Sum(
        MM, lambda b, y: b.op(MM, b.input(3, 40, q=code(X)), b.weight(40, 8), q=y), 40 * 128 * WEIGHT_SPAN, X * 0.01
    ),
    "matrix and bias": Sum(
        "aten.addmm.default",
        lambda b, y: b.op("aten.addmm.default", _biased(b, 8, 10**6), b.input(3, 40, q=code(X)), b.weight(40, 8), q=y),
        40 * 128 * WEIGHT_SPAN + 10**6,
        X * 0.01,
    ),
    "convolution": Sum(
        CONV, lambda b, y: _convolved(b, y, (8, 6, 6), (4, 8, 3, 2), 0), 8 * 3 * 2 * 128 * WEIGHT_SPAN, X * 0.01
    ),
    "convolution and bias": Sum(
        CONV,
        lambda b, y: _convolved(b, y, (8, 6, 6), (4, 8, 3, 2), 10**6),
        8 * 3 * 2 * 128 * WEIGHT_SPAN + 10**6,
        X * 0.01,
    ),
    "depthwise": Sum(
        CONV,
        lambda b, y: _convolved(b, y, (8, 6, 6), (8, 1, 3, 5), 0, groups=8),
        3 * 5 * 128 * WEIGHT_SPAN,
        X * 0.01,
    ),
    "transposed": Sum(
        CONV,
        lambda b, y: _convolved(b, y, (24, 1, 8), (24, 8, 1, 2), 0, transposed=True, stride=[1, 2]),
        24 * 2 * 128 * WEIGHT_SPAN,
        X * 0.01,
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_rescale_is_refused_where_its_accumulator_leaves_32_bits(name: str) -> None:
    one, met = SUMS[name], set()
    partitioner = NeutronPartitioner(generate_neutron_compile_spec("imxrt700", release="1.4"))
    for exponent in range(-26, 4):
        for factor in (1.0, 0.999, 0.501):
            scale = one.unit * factor * 2.0**exponent
            ratio = float(torch.tensor(one.unit / scale, dtype=torch.float64))
            shift = max(math.floor(math.log2(ratio)) + 1, 0)
            fits = one.largest << shift < 2**31
            verdict = judge(partial(one.make, y=code(scale)), partitioner)
            assert ("rescale" in verdict.codes(one.op)) == (not fits), (exponent, factor)
            met.add(fits)
    assert met == {False, True}
