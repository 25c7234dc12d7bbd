"""Masks of minus infinity still mask when EthosUQuantizer has quantized them, on the device too, and it says so."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from ethosu_masks import MASKED, decibels, heads, masked
from torch import Tensor
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner, EthosURuntime
from npu_assay.partitioners.ethosu.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from npu_assay.partitioners.exir import run_program, to_edge_transform_and_lower
from npu_assay.partitioners.exir.constants_clamped import ClampedConstantWarning

# torch's own export code and torchao call deprecated torch functions; nothing here can change that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
]
TARGETS = ("ethos-u55-128", "ethos-u85-256")
LEAST_DECIBELS = 17.0
"""All have 17.9 dB, as with ExecuTorch 1.5.1's quantizer; masks that are lost leave 0.8 to 9.0 dB."""


def quantised(name: str, target: str) -> Any:
    quantizer = EthosUQuantizer(EthosUCompileSpec(target)).set_global(get_symmetric_quantization_config())
    with torch.no_grad():
        prepared = prepare_pt2e(torch.export.export(masked(name), heads()).module(check_guards=False), quantizer)
        prepared(*heads())
        return convert_pt2e(prepared)


def on_device(model: Any, target: str) -> Tensor:
    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    lowered = to_edge_transform_and_lower(torch.export.export(model, heads()), partitioner=[partitioner])
    (found,) = run_program(lowered.exported_program(), heads(), {"EthosUBackend": EthosURuntime()})
    assert isinstance(found, Tensor)
    return found


@pytest.mark.long
@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MASKED)
def test_a_mask_stays_one(name: str, target: str) -> None:
    with pytest.warns(ClampedConstantWarning, match="EthosUQuantizer: .* replaced by -256 and 255 in: "):
        model = quantised(name, target)
    wanted = masked(name)(*heads())
    for found in (model(*heads()), on_device(model, target)):
        assert decibels(found, wanted) > LEAST_DECIBELS
        # The first query sees the first value alone; half a step of int8 values within 4 is 0.016.
        torch.testing.assert_close(found[:, 0], heads()[2][:, 0], rtol=0.0, atol=0.05)


def test_the_warning_names_a_mask_that_the_model_does_not_hold() -> None:
    with pytest.warns(ClampedConstantWarning, match=r"in: _causal_mask0 \(28 of 64\)"):
        quantised("causal", TARGETS[0])


def test_what_is_not_quantised_stays_infinite() -> None:
    quantizer = EthosUQuantizer(EthosUCompileSpec(TARGETS[1]))
    model = torch.export.export(masked("buffer"), heads()).module(check_guards=False)
    assert bool(quantizer.transform_for_annotation(model).get_buffer("mask").isinf().any())
