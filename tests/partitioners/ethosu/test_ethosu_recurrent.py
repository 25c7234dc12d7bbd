"""Recurrent layers and cells are unrolled before calibration, so that one delegate takes all of them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from ethosu_masks import decibels
from ethosu_recurrent import RECURRENT, recurrent, results
from torch import Tensor, nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner, EthosURuntime
from npu_assay.partitioners.ethosu.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from npu_assay.partitioners.exir import run_program, to_edge_transform_and_lower

# torch's own export code and torchao call deprecated torch functions; nothing here can change that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
    pytest.mark.filterwarnings("ignore:The tensor attributes self.*_flat_weights:UserWarning"),
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning"),
]
U55, U85 = "ethos-u55-128", "ethos-u85-256"
LEAST_DECIBELS = 30.0
"""Of the outputs; measured on these models: 34.3 to 52.9, as behind ExecuTorch 1.5.1's quantizer where it has them."""


def quantizer(target: str = U85) -> EthosUQuantizer:
    return EthosUQuantizer(EthosUCompileSpec(target)).set_global(get_symmetric_quantization_config())


def exported(model: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    return torch.export.export(model, inputs).module(check_guards=False)


def quantised(model: nn.Module, inputs: tuple[Tensor, ...], target: str) -> Any:
    with torch.no_grad():
        prepared = prepare_pt2e(exported(model, inputs), quantizer(target))
        prepared(*inputs)
        return convert_pt2e(prepared)


@pytest.mark.parametrize("name", RECURRENT)
def test_unrolling_keeps_the_meaning(name: str) -> None:
    """In float64, where nothing but the order of operations differs."""
    model, inputs = recurrent(name)
    unrolled = quantizer().transform_for_annotation(exported(model, inputs)).double()
    for node in unrolled.graph.nodes:  # first states
        if node.kwargs.get("dtype") == torch.float32:
            node.update_kwarg("dtype", torch.float64)
    unrolled.recompile()
    model, inputs = model.double(), tuple(x.double() for x in inputs)
    names = {str(node.target) for node in unrolled.graph.nodes}
    assert not [found for found in names if any(kind in found for kind in ("lstm", "gru", "rnn_"))]
    with torch.no_grad():
        for found, wanted in zip(results(unrolled(*inputs)), results(model(*inputs)), strict=True):
            torch.testing.assert_close(found, wanted)


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", [U55, U85])
@pytest.mark.parametrize("name", RECURRENT)
def test_one_delegate_takes_all(name: str, target: str) -> None:
    model, inputs = recurrent(name)
    program = torch.export.export(quantised(model, inputs, target), inputs)
    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    lowered = to_edge_transform_and_lower(program, partitioner=[partitioner]).exported_program()
    assert partitioner.rejections == []
    assert sum("executorch_call_delegate" in str(node.target) for node in lowered.graph.nodes) == 1
    found = run_program(lowered, inputs, {"EthosUBackend": EthosURuntime()})
    assert decibels(found[0], results(model(*inputs))[0]) > LEAST_DECIBELS


class Twice(nn.Module):
    """One layer on inputs of very different scales."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        first: Tensor = self.layer(x)
        second: Tensor = self.layer(y)
        return torch.tanh(first) + torch.tanh(second)


def test_a_layer_that_is_used_twice_has_a_bias_for_each_use() -> None:
    model, inputs = Twice().eval(), (torch.randn(2, 8), torch.randn(2, 8) * 50)
    program = torch.export.export(quantised(model, inputs, U85), inputs)
    partitioner = EthosUPartitioner(EthosUCompileSpec(U85))
    lowered = to_edge_transform_and_lower(program, partitioner=[partitioner]).exported_program()
    assert partitioner.rejections == []
    (found,) = run_program(lowered, inputs, {"EthosUBackend": EthosURuntime()})
    # Measured: 41.5.
    assert decibels(found, model(*inputs)) > 35
