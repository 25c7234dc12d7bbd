"""The short way to quantize and dequantize beside torch's own operators, bit by bit."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from npu_assay.partitioners.exir import run_program, to_edge
from npu_assay.partitioners.exir.quantized import dequantize, quantize

OPS = torch.ops.quantized_decomposed
RANGES = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int16: (-32768, 32767)}
PARAMETERS = list(itertools.product((0.05, 0.1, 1.0, 3e-39, 1e30), (0, 3, 120)))


def numbers() -> Tensor:
    """Random ones of every size, halves, and what has no code."""
    random = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, 3e38])
    halves = torch.arange(-300, 300) * 0.5
    return torch.cat([(random * 10.0 ** torch.arange(-25, 25)).flatten(), special, halves])


def same(found: Tensor | None, expected: Tensor) -> bool:
    if found is None or found.dtype != expected.dtype:
        return False
    return found.numpy().tobytes() == expected.numpy().tobytes()


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize(("scale", "zero_point"), PARAMETERS)
def test_both_ways_are_torchs(dtype: torch.dtype, scale: float, zero_point: int) -> None:
    low, high = RANGES[dtype]
    x, codes = numbers(), torch.arange(low, high + 1).to(dtype)
    for least, most in ((low, high), (low + 1, high - 5)):
        given = (scale, zero_point, least, most, dtype)
        kept = x.clone()
        assert same(quantize(x, *given), OPS.quantize_per_tensor.default(x, *given))
        assert same(dequantize(codes, *given), OPS.dequantize_per_tensor.default(codes, *given))
        assert same(x, kept) and torch.equal(codes, torch.arange(low, high + 1).to(dtype))


def test_axes_in_another_order_stay_so() -> None:
    x = numbers()[:24].reshape(2, 3, 4).permute(2, 0, 1)
    given = (0.1, 3, -128, 127, torch.int8)
    codes = OPS.quantize_per_tensor.default(x, *given)
    found = quantize(x, *given), dequantize(codes, *given)
    for each, expected in zip(found, (codes, OPS.dequantize_per_tensor.default(codes, *given)), strict=True):
        assert each is not None and torch.equal(each, expected) and each.stride() == expected.stride()


def test_the_unusual_is_left_to_torch() -> None:
    x, codes = torch.ones(3), torch.ones(3, dtype=torch.int8)
    assert quantize(x.half(), 0.1, 0, -128, 127, torch.int8) is None
    assert quantize(x, 0.1, 0, -129, 127, torch.int8) is None
    assert quantize(x, 0.1, 0, -128, 128, torch.int8) is None
    assert quantize(x, 0.1, 0, 0, 2**31 - 1, torch.int32) is None
    assert dequantize(codes, 0.1, 0, 0, 255, torch.uint8) is None
    assert dequantize(codes.int(), 0.1, 0, -128, 127, torch.int32) is None


class There(nn.Module):
    """Codes of what it is given, and what these stand for."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        codes = OPS.quantize_per_tensor.default(x, 0.1, 3, -128, 127, torch.int8)
        return codes, OPS.dequantize_per_tensor.default(codes, 0.1, 3, -128, 127, torch.int8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_programs_take_either_way(dtype: torch.dtype) -> None:
    x = numbers()[:24].to(dtype)
    found = run_program(to_edge(torch.export.export(There(), (x,))).exported_program(), [x])
    assert all(map(same, found, There()(x)))
