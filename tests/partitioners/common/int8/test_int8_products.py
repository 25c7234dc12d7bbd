"""Exact products of codes by floating-point matrices: in float32 blocks where these are exact, else in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from npu_assay.partitioners.common.int8 import accumulate
from npu_assay.partitioners.common.int8.accumulate import Factor, factor, folded
from npu_assay.partitioners.common.int8.conv_accumulators import conv2d
from npu_assay.reference.affine import Affine

X = Affine(0.1, 3)


def _codes(*shape: int, seed: int = 0, low: int = -128, high: int = 127) -> Tensor:
    return torch.randint(low, high + 1, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int32)


def _by(weights: Tensor, bias: Tensor | None = None, x: Affine = X) -> Factor:
    return factor(*folded(weights, bias, x), accumulate.largest_code(x))


def _expected(codes: Tensor, weights: Tensor, bias: Tensor | int = 0, zero_point: int = X.zero_point) -> Tensor:
    return (codes.long() - zero_point) @ weights.long().t() + bias


@pytest.mark.parametrize(("terms", "blocks"), [(600, 1), (1040, 2), (1101, 2), (2101, 4), (5001, 8), (9001, 16)])
@pytest.mark.parametrize("kind", ["random", "largest"])
def test_no_sum_differs(terms: int, blocks: int, kind: str) -> None:
    """The largest: odd products of one sign, whose sums float32 does not hold past 2**24."""
    weights = _codes(5, terms, seed=1)
    weights[0] = 127 if kind == "largest" else -128
    codes = torch.full((7, terms), 127) if kind == "largest" else _codes(7, terms)
    bias = _codes(5, low=-(2**20), high=2**20)
    by = _by(weights, bias)
    assert len(by.blocks) == blocks and by.dtype == torch.float32
    assert torch.equal(by.product(codes.float()).long(), _expected(codes, weights, bias))


def test_each_block_is_exact_by_itself() -> None:
    """In whatever order a library adds: the magnitudes of a block's terms are a number of 24 bits."""
    weights = torch.full((1, 5001), 127)
    largest = max(int(block.abs().sum(0).max()) * 128 for block in _by(weights).blocks)
    assert 2**22 < largest < 2**24


def test_blocks_of_few_terms_are_not_made() -> None:
    """Of 16-bit codes four terms fill float32."""
    x = Affine(0.1, 0, -32768, 32767)
    weights, codes = _codes(3, 500, seed=1), _codes(2, 500, low=-32768, high=32767)
    by = _by(weights, None, x)
    assert len(by.blocks) == 1 and by.dtype == torch.float64
    assert torch.equal(by.product(codes.double()).long(), _expected(codes, weights, 0, 0))


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_groups_of_a_convolution_are_blocks_of_their_own(groups: int) -> None:
    weights = _codes(6, 3, 3, 240, seed=2).to(torch.int8)
    x = _codes(1, 5, 4, 240 * groups).to(torch.int8)
    found = conv2d(weights, None, X)(x)
    image, kernel = (x.double() - X.zero_point).permute(0, 3, 1, 2), weights.double().permute(0, 3, 1, 2)
    expected = torch.nn.functional.conv2d(image, kernel, groups=groups).permute(0, 2, 3, 1)
    assert found.dtype == torch.float64 and torch.equal(found, expected)


def test_sums_past_24_bits_in_float32_would_differ() -> None:
    """The case shows blocks that are too large."""
    codes, weights = torch.full((7, 1101), 127), torch.full((5, 1101), 127)
    by = Factor((weights.float().t(),), torch.zeros(5))
    assert not torch.equal(by.product(codes.float()).long(), _expected(codes, weights, 0, 0))
