"""Sizes in `.pt2` files: those that torch writes are read, and nothing else, as sympy runs them as Python."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.archives import read_program
from npu_assay.conformance.explain.archives.sizes import arithmetic


def test_products_of_open_sizes_are_read(tmp_path: Path) -> None:
    """A view of an open size has Mul(Integer(16), Symbol('s0', ...)) in the file."""

    class View(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x.reshape(x.shape[0] * 16, 2)[::3])

    program = export(View(), (torch.ones(2, 8, 4),), dynamic_shapes=({0: Dim("batch", max=8)},))
    torch.export.save(program, tmp_path / "model.pt2")
    x = torch.randn(5, 8, 4)
    assert torch.equal(read_program(tmp_path / "model.pt2").module()(x), View()(x))


@pytest.mark.parametrize(
    "size",
    [
        "Mul(Integer(2), system('true'))",
        "Symbol('s0', positive=open('x'))",
        "Symbol('print(1)')",
        "Symbol('s0').evalf(2)",
        "Mul(Integer(2), 'print(1)')",
        "Function('f')(2)",
        "Mul(*'ab')",
        "(lambda: 1)()",
        "exec(chr(49))",
        "s0.evalf(2)",
        "Symbol('s0', positive='print(1)')",
        "s0 + ",
    ],
)
def test_other_calls_are_refused(size: str) -> None:
    with pytest.raises(UsageError, match="expected arithmetic on symbols"):
        arithmetic(size)


@pytest.mark.parametrize(
    "size",
    ["s0 * 2 // 3 - (s1 + 1) % 2", "Mul(Integer(-2), Symbol('s0', positive=True, integer=True))", "Symbol('s0') ** 2"],
)
def test_arithmetic_is_read(size: str) -> None:
    assert arithmetic(size) == size
