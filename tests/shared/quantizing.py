"""Marks of the tests that quantize with PT2E: what torch and torchao warn of there, and nothing here can change."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from npu_assay.conformance.backend.loading import load_backend

QUANTIZES = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
    pytest.mark.filterwarnings("ignore:must run observer before calling calculate_qparams:UserWarning"),
]


def quantized_by(module: nn.Module, backend: str, inputs: tuple[Tensor, ...]) -> nn.Module:
    """A module as its user quantizes it with PT2E, by a backend's quantizer and one sample."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = load_backend(backend).quantizer
    assert quantizer is not None
    prepared = prepare_pt2e(torch.export.export(module.eval(), inputs).module(), quantizer())
    prepared(*inputs)
    converted: nn.Module = convert_pt2e(prepared)
    return converted
