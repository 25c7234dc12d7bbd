"""The document's flow: every row of the support table, from a module through the quantizer, without further arguments.

Nothing but `NeutronPartitioner()` is given: no passes, no operators to preserve.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from neutron_graphs import Builder
from torch import Tensor, nn
from torch.export import ExportedProgram
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from npu_assay.conformance.run.answering import delegates
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import EdgeCompileConfig, run_program, to_backend, to_edge, to_edge_transform_and_lower
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.neutron import NeutronPartitioner, NeutronRuntime, generate_neutron_compile_spec
from npu_assay.partitioners.neutron.passes import PASSES
from npu_assay.partitioners.neutron.quantizer import NeutronQuantizer

# torch's own export code and torchao call deprecated torch functions; nothing here can change that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
]
RUNTIMES = {"NeutronBackend": NeutronRuntime()}
NO_DIM_ORDER = EdgeCompileConfig(_skip_dim_order=True)
"""The configuration in which copies are aten.clone."""


class Net(nn.Module):
    """A function of tensors as a model, with `constant` a buffer."""

    def __init__(self, function: Callable[..., object], constant: Tensor | None = None) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("constant", constant)

    def forward(self, *inputs: Tensor) -> object:
        return self.function(*inputs) if self.constant is None else self.function(*inputs, self.constant)


Shapes = tuple[tuple[int, ...], ...]
IMAGE: Shapes = ((1, 8, 8, 8),)
SIGNAL: Shapes = ((1, 8, 16),)
MATRIX: Shapes = ((4, 8),)
# Operators that compute nothing follow one that does.
ROWS: dict[str, tuple[nn.Module, Shapes]] = {
    "aten.abs.default": (Net(torch.abs), MATRIX),
    "aten._adaptive_avg_pool2d.default": (nn.AdaptiveAvgPool2d(4), IMAGE),
    "aten.addmm.default": (nn.Linear(8, 5), MATRIX),
    "aten.add.Tensor": (Net(torch.add), MATRIX * 2),
    "aten.avg_pool1d.default": (nn.AvgPool1d(2), SIGNAL),
    "aten.avg_pool2d.default": (nn.AvgPool2d(2), IMAGE),
    "aten.bmm.default": (Net(torch.bmm), ((2, 8, 16), (2, 16, 8))),
    "aten.cat.default": (Net(lambda x, y: torch.cat([x, y], 1)), MATRIX * 2),
    "aten.clamp.default": (Net(lambda x: torch.clamp(x, 0, 6)), MATRIX),
    "aten.clone.default": (Net(lambda x: x.abs().clone(memory_format=torch.contiguous_format)), MATRIX),
    "aten.constant_pad_nd.default": (Net(lambda x: nn.functional.pad(x, (0, 0, 1, 2))), IMAGE),
    "aten.convolution.default": (nn.Conv2d(8, 5, 3), IMAGE),
    "dim_order_ops._clone_dim_order.default": (
        Net(lambda x: nn.functional.dropout(x.abs(), 0.5, False)),
        MATRIX,
    ),
    "aten.div.Tensor": (Net(torch.div, torch.linspace(0.5, 4, 32).reshape(4, 8)), MATRIX),
    "aten.hardtanh.default": (nn.ReLU6(), MATRIX),
    "aten.leaky_relu.default": (nn.LeakyReLU(), MATRIX),
    "aten.max_pool1d.default": (nn.MaxPool1d(2), SIGNAL),
    "aten.max_pool2d.default": (nn.MaxPool2d(2), IMAGE),
    "aten.max_pool2d_with_indices.default": (nn.MaxPool2d(3, 1, 1), IMAGE),
    "aten.mean.dim": (nn.Sequential(nn.AvgPool2d(2), Net(lambda x: x.mean((-1, -2), keepdim=True))), IMAGE),
    "aten.mul.Tensor": (Net(torch.mul), MATRIX * 2),
    "aten.mm.default": (nn.Linear(8, 5, bias=False), MATRIX),
    "aten.neg.default": (Net(torch.neg), MATRIX),
    "aten.permute_copy.default": (Net(lambda x: x.permute(0, 2, 3, 1)), IMAGE),
    "aten.prelu.default": (nn.PReLU(8, 0.3), IMAGE),
    "aten.relu.default": (nn.ReLU(), MATRIX),
    "aten.sigmoid.default": (nn.Sigmoid(), MATRIX),
    "aten.slice_copy.Tensor": (Net(lambda x: x[:, 1:6]), MATRIX),
    "aten._softmax.default": (nn.Softmax(-1), MATRIX),
    "aten.split.default": (Net(lambda x: torch.chunk(x, 2, -1)), MATRIX),
    "aten.split.Tensor": (Net(lambda x: torch.split(x, 3, -1)), MATRIX),
    "aten.split_with_sizes.default": (Net(lambda x: torch.split(x, [3, 5], -1)), MATRIX),
    "aten.squeeze.default": (Net(lambda x: x.abs().squeeze()), SIGNAL),
    "aten.squeeze.dim": (Net(lambda x: x.abs().squeeze(0)), SIGNAL),
    "aten.squeeze.dims": (Net(lambda x: x.abs().squeeze((0,))), SIGNAL),
    "aten.tanh.default": (nn.Tanh(), MATRIX),
    "aten.unsqueeze.default": (Net(lambda x: x.abs().unsqueeze(0)), SIGNAL),
    "aten.upsample_bilinear2d.vec": (nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "aten.upsample_nearest2d.vec": (nn.Upsample(scale_factor=2), IMAGE),
    "aten.view_copy.default": (Net(lambda x: x.abs().reshape(16, 8)), SIGNAL),
}
# What to_edge makes several operators of, or what shares one quantization with its neighbor.
MORE: dict[str, tuple[nn.Module, Shapes]] = {
    "divided by a number": (Net(lambda x: x / 3.0), MATRIX),
    "divided by a whole number": (Net(lambda x: x / 3), MATRIX),
    "conv1d": (nn.Conv1d(8, 8, 3), SIGNAL),
    "conv and relu": (nn.Sequential(nn.Conv2d(8, 5, 3), nn.ReLU()), IMAGE),
    "linear and relu6": (nn.Sequential(nn.Linear(8, 5), nn.ReLU6()), MATRIX),
    "linear of rank 3": (nn.Linear(16, 5), SIGNAL),
    "conv, relu, pool, flatten, linear": (
        nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 4)),
        IMAGE,
    ),
    "prelu with one slope": (nn.PReLU(1, 0.3), IMAGE),
    "max_pool1d and relu": (nn.Sequential(nn.MaxPool1d(2), nn.ReLU()), SIGNAL),
}
MODELS = {**ROWS, **MORE}


def test_every_row_of_the_table_has_a_model() -> None:
    assert set(ROWS) == {row.operator for row in load_table("neutron@1.3").rows}


def quantise(module: nn.Module, inputs: tuple[Tensor, ...]) -> ExportedProgram:
    """Post-training quantization, calibrated with the inputs."""
    with torch.no_grad():
        prepared = prepare_pt2e(torch.export.export(module.eval(), inputs).module(), NeutronQuantizer())
        prepared(*inputs)
        return torch.export.export(convert_pt2e(prepared), inputs)


@cache
def quantised(name: str) -> tuple[ExportedProgram, tuple[Tensor, ...]]:
    """The model after the quantizer, and inputs for it."""
    module, shapes = MODELS[name]
    generator = torch.Generator().manual_seed(3)
    inputs = tuple(2 * torch.randn(sizes, generator=generator) for sizes in shapes)
    return quantise(module, inputs), inputs


def config(name: str) -> EdgeCompileConfig | None:
    return NO_DIM_ORDER if name == "aten.clone.default" else None


def documented(name: str, partitioner: NeutronPartitioner) -> ExportedProgram:
    """As the document says: to_edge, then to_backend."""
    return to_edge(quantised(name)[0], compile_config=config(name)).to_backend(partitioner).exported_program()


def in_one_go(name: str, partitioner: NeutronPartitioner) -> ExportedProgram:
    """By to_edge_transform_and_lower."""
    program = quantised(name)[0]
    lowered = to_edge_transform_and_lower(program, partitioner=[partitioner], compile_config=config(name))
    return lowered.exported_program()


FLOWS = {"to_backend": documented, "to_edge_transform_and_lower": in_one_go}


def outside(program: ExportedProgram) -> list[str]:
    """The operators that no delegate has."""
    names = [target_name(node.target) for node in program.graph.nodes if node.op == "call_function"]
    return [name for name in names if name.startswith(("aten.", "dim_order_ops."))]


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.sampled(30)
def test_all_of_it_is_delegated_and_right(name: str, flow: str) -> None:
    """One step from the quantized model at most, and the same codes as with the passes that are certified."""
    partitioner = NeutronPartitioner()
    program, inputs = quantised(name)
    lowered = FLOWS[flow](name, partitioner)
    assert (outside(lowered), partitioner.rejections) == ([], [])
    found = run_program(lowered, inputs, RUNTIMES)
    edge = to_edge(program, compile_config=config(name))
    passed = edge.transform(list(PASSES)).to_backend(NeutronPartitioner()).exported_program()
    for one, certified, expected in zip(
        found, run_program(passed, inputs, RUNTIMES), run_program(edge.exported_program(), inputs), strict=True
    ):
        assert torch.equal(one, certified)
        assert torch.unique(expected).numel() > 1
        assert (one - expected).abs().max() <= step(lowered) * 1.0001


def step(lowered: ExportedProgram) -> float:
    """The largest distance of two codes of an output."""
    ends = [n for n in lowered.graph.nodes if "dequantize" in target_name(n.target)]
    return max(float(node.args[1]) for node in ends)


# ------------------------------------------------------------------------------------ refusals


REFUSED: dict[str, tuple[nn.Module, Shapes, str]] = {
    "prelu": (nn.PReLU(7), ((1, 7, 8, 8),), "channels_multiple_of"),
    "max_pool1d": (nn.MaxPool1d(2), ((1, 7, 16),), "channels_multiple_of"),
    "avg_pool1d": (nn.AvgPool1d(3, ceil_mode=True), SIGNAL, "ceil_mode"),
    "div": (Net(torch.div, torch.full((4, 8), 1e-13)), MATRIX, "nonzero_divisor"),
    "squeeze": (Net(torch.squeeze), SIGNAL, "not_alone"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_stays_whole_with_the_tables_reason(name: str) -> None:
    """All operators that to_edge made of a refused one stay outside, and the reason is the table's constraint."""
    module, shapes, code = REFUSED[name]
    inputs = tuple(torch.randn(sizes) for sizes in shapes)
    edge = to_edge(quantise(module, inputs))
    partitioner = NeutronPartitioner()
    lowered = edge.to_backend(partitioner).exported_program()
    assert list(delegates(lowered)) == []
    assert code in {rejection.code for rejection in partitioner.rejections}
    left = [n.name for n in edge.exported_program().graph.nodes if target_name(n.target).startswith("aten.")]
    assert set(left) <= {rejection.node for rejection in partitioner.rejections}
    expected = run_program(edge.exported_program(), inputs)
    assert all(map(torch.equal, run_program(lowered, inputs), expected))


@pytest.mark.parametrize(("stride", "codes"), [(2, set()), (3, {"stride_h"})])
def test_a_max_pool_that_is_not_decomposed_is_judged_by_its_row(stride: int, codes: set[str]) -> None:
    """Another partitioner may keep it whole; the reasons are those of the table."""
    config = EdgeCompileConfig(preserve_ops=[torch.ops.aten.max_pool2d.default])
    inputs = (torch.randn(1, 8, 8, 8),)
    edge = to_edge(quantise(nn.MaxPool2d(2, stride), inputs), compile_config=config)
    assert "aten.max_pool2d.default" in outside(edge.exported_program())
    partitioner = NeutronPartitioner()
    lowered = edge.to_backend(partitioner).exported_program()
    assert {rejection.code for rejection in partitioner.rejections} == codes
    assert len(list(delegates(lowered))) == (not codes)
    assert torch.equal(run_program(lowered, inputs, RUNTIMES)[0], run_program(edge.exported_program(), inputs)[0])


def test_operators_of_one_quantisation_stay_together() -> None:
    """A convolution has no codes of its own before its relu, so that neither goes when one is excluded."""
    module, shapes = MODELS["conv and relu"]
    edge = to_edge(quantise(module, (torch.randn(shapes[0]),)))
    spec = generate_neutron_compile_spec("imxrt700", operators_not_to_delegate=["aten::relu"])
    partitioner = NeutronPartitioner(spec)
    assert list(delegates(edge.to_backend(partitioner).exported_program())) == []
    assert [(r.target, r.code) for r in partitioner.rejections] == [
        ("aten.convolution.default", "excluded"),
        ("aten.relu.default", "excluded"),
    ]


# ------------------------------------------------------------------------------------ quantizer


PADDED = {
    "odd": nn.Conv2d(8, 8, 3, padding="same"),
    "even": nn.Conv2d(8, 8, (2, 3), padding="same", bias=False),
    "even, dilated, 1-D": nn.Conv1d(8, 8, 4, padding="same", dilation=3),
    "valid": nn.Conv2d(8, 8, 3, padding="valid"),
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # torch, when it computes the model
@pytest.mark.parametrize("name", PADDED)
def test_padding_by_name_is_quantised_and_delegated(name: str) -> None:
    """Even kernels have more padding at the end, so that a pad of its own goes in front."""
    torch.manual_seed(1)
    inputs = (torch.randn((1, 8, 16) if "1-D" in name else (1, 8, 8, 8)),)
    program = quantise(PADDED[name], inputs)
    partitioner = NeutronPartitioner()
    lowered = to_edge(program).to_backend(partitioner).exported_program()
    assert (outside(lowered), partitioner.rejections) == ([], [])
    (found,), wanted = run_program(lowered, inputs, RUNTIMES), PADDED[name](*inputs)
    assert 10 * torch.log10(wanted.pow(2).sum() / (found - wanted).pow(2).sum()) > 30


def test_transposed_convolutions_with_groups_stay_float() -> None:
    module, inputs = nn.ConvTranspose2d(8, 8, (1, 2), stride=(1, 2), groups=2), (torch.randn(1, 8, 1, 16),)
    assert torch.equal(run_program(to_edge(quantise(module, inputs)).exported_program(), inputs)[0], module(*inputs))


def test_pieces_of_a_split_go_with_their_reshape() -> None:
    """What a quantizer of the vendor makes of a 1-D convolution with groups: a split whose pieces are reshaped."""
    b = Builder()
    pieces = b.call("aten.split_with_sizes_copy.default", b.input(1, 16, 1), [8, 8], 1)
    outputs = [b.quantised(b.call("aten.unsqueeze_copy.default", b.item(pieces, index), 2)) for index in (0, 1)]
    program = b.program(*outputs)
    partitioner = NeutronPartitioner()
    lowered = to_backend(program, partitioner)
    assert partitioner.rejections == []
    x = torch.randn(1, 16, 1)
    assert all(map(torch.equal, run_program(lowered, [x], RUNTIMES), run_program(program, [x])))
