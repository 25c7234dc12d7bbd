"""Layers of attention are one delegate behind EthosUQuantizer, and as good as its 8 bits allow."""

from __future__ import annotations

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from ethosu_attention import ATTENTION, attention
from ethosu_masks import decibels
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner, EthosURuntime
from npu_assay.partitioners.ethosu.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from npu_assay.partitioners.exir import run_program, to_edge_transform_and_lower

# torch's own export code and torchao call deprecated torch functions; nothing here can change that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
]
LEAST_DECIBELS = 30.0
"""Measured on these models: 31.6 to 43.6, the same on both targets; with masks that `baddbmm` adds 43.6 and 31.6."""


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("name", ATTENTION)
def test_one_delegate_takes_all(name: str, target: str) -> None:
    model, inputs = attention(name)
    quantizer = EthosUQuantizer(EthosUCompileSpec(target)).set_global(get_symmetric_quantization_config())
    exported = torch.export.export(model, inputs).module(check_guards=False)
    assert any("baddbmm" in str(node.target) for node in exported.graph.nodes) == ("weights_masked" in name)
    with torch.no_grad():
        prepared = prepare_pt2e(exported, quantizer)
        prepared(*inputs)
        program = torch.export.export(convert_pt2e(prepared), inputs)
    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    lowered = to_edge_transform_and_lower(program, partitioner=[partitioner]).exported_program()
    assert partitioner.rejections == []
    assert sum("executorch_call_delegate" in str(node.target) for node in lowered.graph.nodes) == 1
    (found,) = run_program(lowered, inputs, {"EthosUBackend": EthosURuntime()})
    assert decibels(found, model(*inputs)) > LEAST_DECIBELS
