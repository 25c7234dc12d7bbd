"""Which values of a model hold no subnormal number: the next kernel need not look for any."""

from __future__ import annotations

import math

import pytest
import torch
from xnn_models import model, number

from npu_assay.partitioners.xnnpack.device.elementwise import BINARY, UNARY, without_subnormals
from npu_assay.partitioners.xnnpack.runtime import load_model
from npu_assay.partitioners.xnnpack.xnn_model import XNode

EDGES = torch.tensor([0.0, 2.0**-149, 2.0**-127, 2.0**-126, 1.5 * 2.0**-126, 3e-20, 1e-19, 0.5, 1.0, 3.0])
NUMBERS = torch.cat([EDGES, -EDGES])
"""Numbers whose sums, differences, products and quotients are subnormal, or are subnormal themselves."""
COUNT = len(NUMBERS)
ALONE = sorted(op for op in UNARY if without_subnormals(XNode(op, (0,), (1,))))
OF_TWO = sorted(op for op in BINARY if without_subnormals(XNode(op, (0, 1), (2,))))


def _holds_subnormals(x: torch.Tensor) -> bool:
    return bool(((x != 0) & (x.abs() < 2.0**-126)).any())


def _results(op: str) -> torch.Tensor:
    """Of every pair of numbers, or of every number."""
    values = [number("fp32", COUNT, 1), number("fp32", COUNT), number("fp32", COUNT, COUNT)]
    if op in BINARY:
        program = load_model(model(values, [XNode(op, (0, 1), (2,))], (0, 1), (2,)))
        return program.run([NUMBERS[:, None], NUMBERS])[0]
    return UNARY[op](NUMBERS)


def test_functions_and_operators_of_two_numbers_are_among_them() -> None:
    assert {"Sigmoid", "Tanh"} <= set(ALONE) and {"Add", "Multiply", "Subtract"} <= set(OF_TWO)


@pytest.mark.parametrize("op", [*ALONE, *OF_TWO])
def test_none_of_their_results_is_subnormal(op: str) -> None:
    assert not _holds_subnormals(_results(op))


def test_the_numbers_show_an_operator_whose_results_may_be() -> None:
    assert _holds_subnormals(UNARY["Abs"](NUMBERS)) and _holds_subnormals(NUMBERS[:, None] * NUMBERS)


@pytest.mark.parametrize(("limits", "expected"), [(None, True), ((-math.inf, math.inf), True), ((0.0, 1e-40), False)])
def test_limits_may_be_subnormal(limits: tuple[float, float] | None, expected: bool) -> None:
    assert without_subnormals(XNode("Add", (0, 1), (2,), limits=limits)) is expected


def test_a_sum_takes_a_product_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each flush is two calls of torch: the inputs of the program are flushed, and each result.

    It runs once before it is counted: what a kernel tries of torch once for a shape is not counted.
    """
    count = 0
    flush = torch.nn.functional.hardshrink

    def counted(x: torch.Tensor, limit: float) -> torch.Tensor:
        nonlocal count
        count += 1
        return flush(x, limit)

    nodes = [XNode("Multiply", (0, 0), (1,)), XNode("Tanh", (1,), (2,)), XNode("Add", (1, 2), (3,))]
    program = load_model(model([number("fp32", COUNT) for _ in range(4)], nodes, (0,), (3,)))
    program.run([NUMBERS])
    monkeypatch.setattr(torch.nn.functional, "hardshrink", counted)
    program.run([NUMBERS])
    assert count == 2 + 1 + 1 + 1
