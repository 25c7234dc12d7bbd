"""A quantizer says which changes in place a quantized model may miss, and no word about the others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from executorch_programs import Function

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

import torch
from torch import Tensor
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

from npu_assay.partitioners.exir.in_place_warning import ChangedInPlaceWarning
from tests.partitioners.test_quantizer_reports import TINY, pytestmark

__all__ = ["pytestmark"]


def read_by_an_earlier_view(x: Tensor) -> Tensor:
    z = x * 2.0
    view = z[0]
    z.add_(1.0)
    return view * z


def written_through_a_view(x: Tensor) -> Tensor:
    z = x + 1.0
    z[0].mul_(3.0)
    return z * 1.5


def returned_beside(x: Tensor) -> tuple[Tensor, Tensor]:
    z = x * 2.0
    view = z.view(-1)
    z.mul_(x)
    return view + 1.0, z


def a_residual_block(x: Tensor) -> Tensor:
    y = x * 0.5
    y += x
    return torch.relu_(y) + 1.0


def a_chain(x: Tensor) -> Tensor:
    return torch.relu_((x + 1.0).mul_(2.0)).view(-1) * 2.0


def reported(function: Callable[[Tensor], Any], quantizer: Any) -> list[str]:
    exported = torch.export.export(Function(function), (torch.randn(4, 8),)).module(check_guards=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prepare_pt2e(exported, quantizer)
    return [str(one.message) for one in caught if one.category is ChangedInPlaceWarning]


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("function", [read_by_an_earlier_view, written_through_a_view, returned_beside])
def test_a_change_that_others_read_is_reported(function: Callable[[Tensor], Any], name: str) -> None:
    (text,) = reported(function, TINY[name]())
    assert "changes a tensor in place that" in text and "may miss the change" in text


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("function", [a_residual_block, a_chain])
def test_a_change_that_only_its_own_readers_see_is_not(function: Callable[[Tensor], Any], name: str) -> None:
    assert reported(function, TINY[name]()) == []
