"""What the XNNPACK compiler writes, operator by operator: layouts, padding, scales, biases, clamps, open sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xnnpack_graphs import graph, real, step
from xnnpack_lowered import INFINITY, node, one, unary

from npu_assay.partitioners.xnnpack.xnn_model import (
    XNode,
)

# ------------------------------------------------------------------------------------------------ element by element


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("abs", "Abs"), ("ceil", "Ceiling"), ("exp", "Exp"), ("floor", "Floor"), ("gelu", "Gelu"),
        ("hardswish", "Hardswish"), ("log", "Log"), ("neg", "Negate"), ("rsqrt", "ReciprocalSquareRoot"),
        ("sigmoid", "Sigmoid"), ("sqrt", "SquareRoot"), ("tanh", "Tanh"), ("cos", "Cos"), ("sin", "Sin"),
    ],
)  # fmt: skip
def test_functions_of_one_tensor(op: str, expected: str) -> None:
    found = one(unary(op))
    assert found.nodes == (XNode(expected, (0,), (1,)),)
    assert (found.inputs, found.outputs) == ((0,), (1,))


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("relu", (), (0.0, INFINITY)),
        ("hardtanh", (), (-1.0, 1.0)),
        ("hardtanh", (0, 6), (0.0, 6.0)),
        ("clamp", (-0.5, None), (-0.5, INFINITY)),
        ("clamp", (None, 0.1), (-INFINITY, float(np.float32(0.1)))),
    ],
)
def test_clamps(op: str, args: tuple[Any, ...], expected: tuple[float, float]) -> None:
    assert node(one(unary(op, *args)), "Clamp").limits == expected


@pytest.mark.parametrize(
    ("op", "args", "expected", "options"),
    [
        ("elu", (), "ELU", {"alpha": 1.0}),
        ("elu", (0.5,), "ELU", {"alpha": 0.5}),
        ("leaky_relu", (), "LeakyReLU", {"negative_slope": float(np.float32(0.01))}),
        ("leaky_relu", (-0.25,), "LeakyReLU", {"negative_slope": -0.25}),
        ("pow.Tensor_Scalar", (2,), "Square", {}),
        ("_softmax", (-1, False), "Softmax", {}),
    ],
)
def test_functions_with_numbers(op: str, args: tuple[Any, ...], expected: str, options: dict[str, float]) -> None:
    assert dict(node(one(unary(op, *args)), expected).options) == options


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("add.Tensor", "Add"), ("sub.Tensor", "Subtract"), ("mul.Tensor", "Multiply"), ("div.Tensor", "Div"),
        ("maximum", "Maximum"), ("minimum", "Minimum"), ("bmm", "BatchMatrixMultiply"),
    ],
)  # fmt: skip
def test_functions_of_two_tensors_keep_their_order(op: str, expected: str) -> None:
    steps = [step("a", "abs", "x"), step("y", op, "z", "a")]
    found = one(graph([real("x", 2, 3, 3), real("z", 2, 3, 3)], steps))
    first, second = node(found, expected).inputs
    assert first in found.inputs and (second,) == node(found, "Abs").outputs
    assert node(found, expected).outputs == found.outputs


def test_a_constant_operand_is_an_input_of_the_delegate() -> None:
    """As in the released partitioner: only products own their constants."""
    found = one(graph([real("x", 2, 3)], [step("y", "add.Tensor", "x", 2.0)]))
    assert len(found.inputs) == 2 and all(value.data is None for value in found.values)
