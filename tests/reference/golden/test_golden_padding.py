"""Weights that are not finite beside padding: whether a kernel multiplies them by its zeros is nobody's promise."""

from __future__ import annotations

import math

import pytest
import torch

from npu_assay.reference import golden
from npu_assay.reference.golden import Bounded

CONVOLUTION = "aten.convolution.default"
X = Bounded(torch.arange(1.0, 5.0, dtype=torch.float64).reshape(1, 1, 4))


def convolved(first: float, middle: float, padding: int, transposed: bool = False) -> Bounded:
    weight = Bounded(torch.tensor([[[first, middle, 1.0]]], dtype=torch.float64))
    (found,) = golden.run(CONVOLUTION, (X, weight, None, [1], [padding], [1], transposed, [0], 1), {})
    return found


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_only_what_padding_alone_decides_is_open(special: float) -> None:
    found = convolved(special, 2.0, 1)
    assert found.spread().isinf().flatten().tolist() == [True, False, False, False]
    assert not bool(found.value[..., 1:].isfinite().any())


def test_a_transposed_weight_that_no_number_reaches_is_open() -> None:
    """It stands beside the last number: kernels that put zeros there multiply them."""
    found = convolved(math.nan, 2.0, 1, transposed=True)
    assert found.spread().isinf().flatten().tolist() == [False, False, False, True]


def test_nan_that_meets_a_number_is_nan_in_every_kernel() -> None:
    assert not bool(convolved(math.inf, math.nan, 1).spread().isinf().any())
    assert bool(convolved(math.inf, math.nan, 1).value.isnan().all())


@pytest.mark.parametrize(("first", "padding", "transposed"), [(math.nan, 0, False), (3.0, 1, False), (3.0, 1, True)])
def test_nothing_else_is_open(first: float, padding: int, transposed: bool) -> None:
    assert not bool(convolved(first, 2.0, padding, transposed).spread().isinf().any())
