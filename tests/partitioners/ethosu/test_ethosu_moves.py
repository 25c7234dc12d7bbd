"""Operators that only move elements keep their codes, so that they need no quantization between each other."""

from __future__ import annotations

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from ethosu_graphs import U55, U85, Builder, judge
from ethosu_masks import decibels
from torch import fx, nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner, EthosURuntime
from npu_assay.partitioners.ethosu.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from npu_assay.partitioners.exir import EdgeProgramManager, run_program, to_edge, to_edge_transform_and_lower
from npu_assay.partitioners.exir.program import copy_program

OTHER = (0.11, -4, -128, 127, torch.int8)
TARGETS = [U55, U85]
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
]


def reshaped(b: Builder) -> fx.Node:
    """A reshape of a permuted tensor, as the edge dialect has it."""
    x = b.op("aten.permute_copy.default", b.input(1, 2, 3, 4), [0, 2, 3, 1])
    copied = b.call("dim_order_ops._clone_dim_order.default", x)
    return b.op("aten.abs.default", b.quantised(b.call("aten.view_copy.default", copied, [1, 24])))


def stacked(b: Builder) -> fx.Node:
    """Two tensors with a dimension more, joined."""
    parts = [b.call("aten.unsqueeze_copy.default", b.input(2, 3), 0) for _ in range(2)]
    return b.op("aten.abs.default", b.op("aten.cat.default", parts))


def requantised(b: Builder) -> fx.Node:
    """Moved, and then with other parameters."""
    moved = b.call("aten.permute_copy.default", b.input(1, 2, 3, 4), [0, 2, 3, 1])
    return b.op("aten.abs.default", b.quantised(b.call("aten.slice_copy.Tensor", moved, 1, 0, 2), OTHER))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("write", [reshaped, stacked, requantised])
def test_one_delegate_with_torchs_codes(write: object, target: str) -> None:
    assert callable(write)
    verdict = judge(write, target)
    assert verdict.codes == {} and len(set(verdict.tags.values())) == 1
    b = Builder()
    program = b.program(write(b))
    manager = EdgeProgramManager({"forward": copy_program(program)}).to_backend(
        EthosUPartitioner(EthosUCompileSpec(target))
    )
    inputs = tuple(
        torch.randn(node.meta["val"].shape, generator=torch.Generator().manual_seed(at)) * 3
        for at, node in enumerate(n for n in program.graph.nodes if n.op == "placeholder")
    )
    (found,) = run_program(manager.exported_program(), inputs, {"EthosUBackend": EthosURuntime()})
    (wanted,) = run_program(program, inputs)
    # A step of either rounding: codes that lie between two others may become both.
    torch.testing.assert_close(found, wanted, rtol=0.0, atol=0.051 if write is requantised else 0.0)


def test_what_computes_still_needs_codes_behind_it() -> None:
    def write(b: Builder) -> fx.Node:
        computed = b.call("aten.abs.default", b.input(2, 3))
        return b.quantised(b.call("aten.view_copy.default", computed, [6]))

    assert judge(write, U85).of("aten.abs.default") == ["quantized_outputs"]


class Attention(nn.Module):
    """Self-attention without weights to return, which torch reshapes from a permutation."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(x, x, x, need_weights=False)[0]
        return found


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_attention_is_one_delegate(target: str) -> None:
    model, inputs = Attention().eval(), (torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(1)),)
    quantizer = EthosUQuantizer(EthosUCompileSpec(target)).set_global(get_symmetric_quantization_config())
    with torch.no_grad():
        prepared = prepare_pt2e(torch.export.export(model, inputs).module(check_guards=False), quantizer)
        prepared(*inputs)
        program = torch.export.export(convert_pt2e(prepared), inputs)
    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    lowered = to_edge_transform_and_lower(program, partitioner=[partitioner]).exported_program()
    assert partitioner.rejections == []
    assert sum("executorch_call_delegate" in str(node.target) for node in lowered.graph.nodes) == 1
    (found,) = run_program(lowered, inputs, {"EthosUBackend": EthosURuntime()})
    # Measured on such models: 35 to 39.
    assert decibels(found, model(*inputs)) > 30


class Strided(nn.Module):
    """The elements of twice the input, or of the input, as they lie in memory."""

    def __init__(self, *, doubled: bool = True) -> None:
        super().__init__()
        self.doubled = doubled

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = x + x if self.doubled else x
        return torch.as_strided(whole, x.shape, torch.empty(x.shape, device="meta").stride())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_strides_are_those_of_memory(layout: torch.memory_format, target: str) -> None:
    x = torch.arange(24, dtype=torch.int32).reshape(1, 4, 2, 3).to(memory_format=layout)
    partitioner, model = EthosUPartitioner(EthosUCompileSpec(target)), Strided()
    lowered = to_edge(torch.export.export(model, (x,))).to_backend(partitioner).exported_program()
    assert partitioner.rejections == []
    (found,) = run_program(lowered, (x,), {"EthosUBackend": EthosURuntime()})
    assert torch.equal(found, model(x))


@pytest.mark.parametrize("target", TARGETS)
def test_a_view_of_another_layout_is_work(target: str) -> None:
    """What lies as it did before vanishes; what does not is a transposition, also alone."""
    plain = torch.zeros(1, 4, 2, 3, dtype=torch.int8)
    for x, codes in ((plain, ["not_alone"]), (plain.to(memory_format=torch.channels_last), [])):
        partitioner = EthosUPartitioner(EthosUCompileSpec(target))
        to_edge(torch.export.export(Strided(doubled=False), (x,))).to_backend(partitioner)
        assert [one.code for one in partitioner.rejections] == codes


@pytest.mark.parametrize("target", TARGETS)
def test_gaps_in_memory_are_refused(target: str) -> None:
    x = torch.arange(12, dtype=torch.int8).reshape(2, 6)[:, ::2]
    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    to_edge(torch.export.export(Strided(doubled=False), (x,))).to_backend(partitioner)
    assert [(one.code, one.found) for one in partitioner.rejections] == [("contiguous", "the input has gaps")]
