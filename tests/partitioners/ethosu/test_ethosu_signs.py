"""Tables of 16 bits that jump at 0: only in front of codes that cannot be negative."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from ethosu_graphs import U55, U85, WIDE, Builder, judge
from torch import fx

from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR

RECIPROCAL, MUL = "aten.reciprocal.default", "aten.mul.Tensor"
Source = Callable[[Builder], fx.Node]


def x(b: Builder) -> fx.Node:
    return b.input(1, 4, q=WIDE)


def op(name: str, *rest: object) -> Source:
    return lambda b: b.op(name, x(b), *rest, q=WIDE)


def the_softmax(b: Builder) -> fx.Node:
    powers = b.op("aten.exp.default", x(b), q=WIDE)
    return b.op("aten.sum.dim_IntList", powers, [-1], True, q=WIDE)


def a_square(b: Builder) -> fx.Node:
    operand = x(b)
    return b.op(MUL, operand, operand, q=WIDE)


def two(name: str, first: Source, second: Source) -> Source:
    return lambda b: b.op(name, first(b), second(b), q=WIDE)


ABS, NEG = op("aten.abs.default"), op("aten.neg.default")
UNSIGNED: dict[str, Source] = {
    "softmax": the_softmax,
    "square": a_square,
    "relu": op("aten.relu.default"),
    "hardtanh": op("aten.hardtanh.default", 0.0, 6.0),
    "clamp": op("aten.clamp.default", 0.5),
    "sum": two("aten.add.Tensor", ABS, op("aten.sigmoid.default")),
    "maximum": two("aten.maximum.default", ABS, ABS),
}
SIGNED: dict[str, Source] = {
    "input": x,
    "neg": NEG,
    "hardtanh": op("aten.hardtanh.default", -0.5, 6.0),
    "clamp_from_above": op("aten.clamp.default", None, 6.0),
    "difference": two("aten.sub.Tensor", ABS, ABS),
    "sum": two("aten.add.Tensor", ABS, NEG),
    "product": two(MUL, ABS, NEG),
}


def found(source: Source, target: str) -> list[str]:
    return judge(lambda b: b.op(RECIPROCAL, source(b), q=WIDE), target).of(RECIPROCAL)


@pytest.mark.parametrize("target", [U55, U85])
@pytest.mark.parametrize("name", UNSIGNED)
def test_what_is_never_negative_may_be_divided_by(name: str, target: str) -> None:
    assert found(UNSIGNED[name], target) == []


@pytest.mark.parametrize("name", SIGNED)
def test_what_may_be_negative_may_not(name: str) -> None:
    assert found(SIGNED[name], U85) == ["table_slope"]


def test_the_message_names_the_code() -> None:
    verdict = judge(lambda b: b.op(RECIPROCAL, x(b), q=WIDE), U85)
    assert [one.found for one in verdict.partitioner.rejections] == [f"{round(1 / 0.128e-3) + 32767} after code -128"]


@pytest.mark.parametrize(("code", "expected"), [(3, []), (-3, ["table_slope"])])
def test_constants_count_by_their_numbers(code: int, expected: list[str]) -> None:
    def source(b: Builder) -> fx.Node:
        number = b.raw_constant(torch.tensor([[code]], dtype=torch.int16))
        return b.op("aten.add.Tensor", ABS(b), b.call(DEQUANTIZE_PER_TENSOR, number, *WIDE), q=WIDE)

    assert found(source, U85) == expected


POWERS: dict[str, Callable[[Builder, float], fx.Node]] = {
    "aten.pow.Tensor_Scalar": lambda b, exponent: b.op("aten.pow.Tensor_Scalar", x(b), exponent, q=WIDE),
    "aten.pow.Tensor_Tensor": lambda b, exponent: b.op(
        "aten.pow.Tensor_Tensor",
        x(b),
        b.call(DEQUANTIZE_PER_TENSOR, b.raw_constant(torch.tensor([round(exponent * 1000)], dtype=torch.int16)), *WIDE),
        q=WIDE,
    ),
}


@pytest.mark.parametrize(("exponent", "expected"), [(1.0, []), (2.0, []), (-1.0, ["table_slope"])])
@pytest.mark.parametrize("op", POWERS)
def test_powers_jump_by_their_exponent(op: str, exponent: float, expected: list[str]) -> None:
    assert judge(lambda b: POWERS[op](b, exponent), U85).of(op) == expected
