"""The specification of TensorFlow Lite's arithmetic equals LiteRT's reference kernels, code for code.

A whole run has 10,000 random programs and more; a sample of the tests has those of a few operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from npu_assay.reference.arithmetic import tflite
from npu_assay.reference.arithmetic.tflite import rounding
from tests.crosscheck import kernel_programs
from tests.crosscheck.test_litert_kernels import WIDE, check_extreme_scales, check_random_programs, wrong

COUNT = 400
MOVEMENT = {"CONCATENATION", "PAD", "PADV2", "RESHAPE", "SLICE", "TRANSPOSE"}
"""Torch's own operators move codes in the golden, and nothing here specifies them."""
ELSEWHERE = {"QUANTIZE of float32"}
"""Not of int8 programs, which the exact golden judges."""
OPERATORS = sorted(kernel_programs.PROGRAMS.keys() - MOVEMENT - ELSEWHERE)


class Specification:
    """The specification's functions as the kernels are made: constants first, codes later."""

    OUTPUT = tflite.OUTPUT

    def __getattr__(self, name: str) -> Callable[..., Callable[..., Tensor]]:
        function = getattr(tflite, name)
        return lambda *constants, **named: lambda *codes: function(*codes, *constants, **named)

    def add(self, *affines: Any) -> Callable[[Tensor, Tensor], Tensor]:
        return _checked(tflite.add, affines)

    def sub(self, *affines: Any) -> Callable[[Tensor, Tensor], Tensor]:
        return _checked(tflite.sub, affines)

    def softmax(self, beta: float, x: Any) -> Callable[[Tensor], Tensor]:
        """Refused when it is made, too: LiteRT would abort."""
        tflite.softmax(torch.zeros(1, dtype=torch.int8), beta, x)
        return lambda codes: tflite.softmax(codes, beta, x)

    def neg(self, x: Any) -> Callable[[Tensor], Tensor]:
        return lambda codes: tflite.sub(torch.full_like(codes, x.zero_point), codes, x, x, x)

    def depthwise_conv2d(self, weights: Tensor, *constants: Any) -> Callable[[Tensor], Tensor]:
        """Weights [1, KH, KW, O] are those of a convolution in as many groups as there are channels."""
        return lambda codes: tflite.conv2d(codes, weights.permute(3, 1, 2, 0), *constants)

    def fully_connected_dynamic(self, x: Any, w: Any, y: Any) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda codes, weights: tflite.fully_connected(codes, weights, None, x, (w.scale,), y, w.zero_point)


def _checked(function: Callable[..., Tensor], affines: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """Refused when it is made, as the kernels do."""
    zero = torch.zeros(1, dtype=torch.int8)
    function(zero, zero, *affines)
    return lambda p, q: function(p, q, *affines)


@pytest.fixture(autouse=True)
def in_place_of_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    specification = Specification()
    for module in ("conv", "elementwise", "lut", "matmul", "pool", "resize"):
        monkeypatch.setattr(kernel_programs, module, specification)
    monkeypatch.setattr(kernel_programs, "softmax", specification.softmax)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("operator", OPERATORS)
def test_no_code_differs(operator: str) -> None:
    check_random_programs(operator, COUNT)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("operator", WIDE)
def test_no_code_differs_at_extreme_scales(operator: str) -> None:
    check_extreme_scales(operator)


def test_another_rounding_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: ties up in the second rounding, too."""

    def ties_up(values: Tensor, exponent: Tensor) -> Tensor:
        return (values + (torch.ones((), dtype=torch.int64) << exponent) // 2) >> exponent

    monkeypatch.setattr(rounding, "divided_by_power", ties_up)
    assert len(wrong("QUANTIZE", range(40))) >= 5
