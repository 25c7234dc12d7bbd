"""Models with infinite masks are as good behind our EthosUQuantizer as behind ExecuTorch's own."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from ethosu_masks import MASKED, decibels, heads, masked

from npu_assay.partitioners.ethosu import EthosUCompileSpec
from npu_assay.partitioners.ethosu.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from tests.crosscheck.executorch.ethosu_peer import PeerCompileSpec

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # see ethosu_peer
    from executorch.backends.arm.quantizer import EthosUQuantizer as PeerQuantizer
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config as peer_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

MARGIN = 1.0
"""Decibels that ours may be worse by; measured: equal, but for `computed`, where the other one loses the mask."""


def quality(name: str, quantizer: Any) -> float:
    """Decibels of the quantized model to the float one."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(torch.export.export(masked(name), heads()).module(check_guards=False), quantizer)
        prepared(*heads())
        return decibels(convert_pt2e(prepared)(*heads()), masked(name)(*heads()))


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("name", MASKED)
def test_masks_are_as_good(name: str, target: str) -> None:
    ours = EthosUQuantizer(EthosUCompileSpec(target)).set_global(get_symmetric_quantization_config())
    theirs = PeerQuantizer(PeerCompileSpec(target)).set_global(peer_config())
    assert quality(name, ours) >= quality(name, theirs) - MARGIN
