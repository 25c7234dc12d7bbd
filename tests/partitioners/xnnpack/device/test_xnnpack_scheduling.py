"""Functions of small values that the simulated XNNPACK device computes at once, beside each alone."""

from __future__ import annotations

import pytest
import torch
from xnn_models import model, number, reals

from npu_assay.partitioners.xnnpack import xnn_format
from npu_assay.partitioners.xnnpack.device.scheduling import SMALL
from npu_assay.partitioners.xnnpack.kernels import activation
from npu_assay.partitioners.xnnpack.runtime import Program, XnnpackRuntime
from npu_assay.partitioners.xnnpack.xnn_model import XNode

RUNTIME = XnnpackRuntime()
PLAIN = (-float("inf"), float("inf"))


def gates(elements: int = 6, last: int = 6) -> Program:
    """As a cell of an LSTM: three sigmoids and a tanh of inputs, a sum, and a tanh of what came of these."""
    sizes = {3: last, 7: last}
    values = [number("fp32", 1, sizes.get(index, elements)) for index in range(12)]
    nodes = [
        XNode("Sigmoid", (0,), (4,)),
        XNode("Sigmoid", (1,), (5,)),
        XNode("Tanh", (2,), (6,)),
        XNode("Sigmoid", (3,), (7,)),
        XNode("Multiply", (4, 6), (8,), limits=PLAIN),
        XNode("Add", (8, 5), (9,), limits=PLAIN),
        XNode("Tanh", (9,), (10,)),
        XNode("Sigmoid", (10,), (11,)),
    ]
    return RUNTIME.load(xnn_format.write(model(values, nodes, (0, 1, 2, 3), (7, 9, 11))))


def expected(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> list[torch.Tensor]:
    total = activation.sigmoid(a) * activation.tanh(c) + activation.sigmoid(b)
    return [activation.sigmoid(d), total, activation.sigmoid(activation.tanh(total))]


@pytest.mark.parametrize("rows", [[1, 1, 1, 1], [5, 5, 5, 5], [5, 5, 5, 2]])
def test_functions_at_once_are_the_functions(rows: list[int]) -> None:
    """Shapes may be others at run time, and unequal."""
    inputs = [reals(seed, count, 6) for seed, count in enumerate(rows)]
    assert all(map(torch.equal, RUNTIME.execute(gates(), inputs), expected(*inputs)))


def test_only_functions_that_do_not_wait_for_each_other_are_one_call() -> None:
    assert [call.where for call in gates().calls] == [
        "node 0 Sigmoid, node 1 Sigmoid, node 3 Sigmoid",
        "node 2 Tanh",
        "node 4 Multiply",
        "node 5 Add",
        "node 6 Tanh",
        "node 7 Sigmoid",
    ]


def test_another_shape_and_large_values_are_computed_alone() -> None:
    assert [call.where for call in gates(last=7).calls][:2] == ["node 0 Sigmoid, node 1 Sigmoid", "node 2 Tanh"]
    assert len(gates(SMALL, SMALL).calls) == 6
    assert len(gates(SMALL + 1, SMALL + 1).calls) == 8


def test_other_numbers_of_one_result_do_not_matter() -> None:
    """What is infinite or NaN stays where it is."""
    inputs = [reals(seed, 1, 6) for seed in range(4)]
    inputs[1][0, 2], inputs[3][0, 4] = float("inf"), float("nan")
    for found, wanted in zip(RUNTIME.execute(gates(), inputs), expected(*inputs), strict=True):
        assert torch.equal(found.view(torch.int32), wanted.view(torch.int32))
