"""Whole networks on XNNPACK: quantized, partitioned, compiled, run on the simulated device and judged like any case."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from networks import (
    DSCNN,
    LARGE_NETWORKS,
    NETWORKS,
    XNNPACK_PRECISIONS,
    Backbone,
    MobileNetV1,
    ResNet8,
    edge_for_xnnpack,
    folded,
    for_xnnpack,
    lowered_modules,
    network,
    samples,
)
from program_graph import program_graph
from torch import nn
from torch.export import export

from npu_assay.conformance.judge.numerics import Golden, golden, judge
from npu_assay.conformance.programs.build import model_inputs
from npu_assay.conformance.programs.graph import Graph
from npu_assay.partitioners.exir import EdgeProgramManager, run_program, to_edge_transform_and_lower
from npu_assay.partitioners.xnnpack import XnnpackPartitioner, XnnpackRuntime, backend
from npu_assay.partitioners.xnnpack.xnn_format import read
from npu_assay.partitioners.xnnpack.xnn_model import XModel

# torch's own export code and torchao call deprecated torch functions; nothing here can change that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
]
SCHEME = "xnnpack_fp32"
RUNTIMES = {"XnnpackBackend": XnnpackRuntime()}
RUNS = [(name, precision) for name in NETWORKS for precision in XNNPACK_PRECISIONS]
EXACT = [("deep_autoencoder", precision) for precision in XNNPACK_PRECISIONS[1:]]
"""Every operator to the last bit, from the input on: none is computed on reals between others."""


@cache
def lowered(name: str, precision: str) -> tuple[EdgeProgramManager, EdgeProgramManager, XnnpackPartitioner]:
    """The edge program, the same with delegates, and the partitioner that made them."""
    model, shape = network(name)
    return compiled(folded(model), shape, precision)


def compiled(
    model: nn.Module, shape: tuple[int, ...], precision: str
) -> tuple[EdgeProgramManager, EdgeProgramManager, XnnpackPartitioner]:
    edge = edge_for_xnnpack(for_xnnpack(model, precision, samples(shape, 2)))
    partitioner = backend.partitioner()
    assert isinstance(partitioner, XnnpackPartitioner)
    return edge, edge.to_backend(partitioner), partitioner


def graph_of(edge: EdgeProgramManager, shape: tuple[int, ...]) -> Graph:
    return program_graph(edge.exported_program(), samples(shape, 1, seed=7))


def run(program: EdgeProgramManager, graph: Graph) -> list[torch.Tensor]:
    return run_program(program.exported_program(), model_inputs(graph), RUNTIMES)


def messages(wanted: Golden, outputs: list[torch.Tensor]) -> list[str]:
    return [message for gate in judge(wanted, outputs, SCHEME) for message in gate.messages]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "precision"), RUNS)
def test_one_delegate_takes_all(name: str, precision: str) -> None:
    _, program, partitioner = lowered(name, precision)
    targets = [str(node.target) for node in program.exported_program().graph.nodes if node.op == "call_function"]
    assert [target for target in targets if "getitem" not in target] == ["executorch_call_delegate"]
    assert partitioner.rejections == []


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "precision"), RUNS)
def test_network_passes_the_gates(name: str, precision: str) -> None:
    """Against the exact golden as far as there is one, and within the float golden's bound."""
    edge, program, _ = lowered(name, precision)
    graph = graph_of(edge, NETWORKS[name][1])
    wanted = golden(graph)
    assert messages(wanted, run(program, graph)) == []
    is_exact = wanted.codes(SCHEME)[0] is not None or wanted.reals(SCHEME)[0] is not None
    assert is_exact == ((name, precision) in EXACT)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["mobilenet_v1", "resnet8", "ds_cnn"])
def test_convolutions_are_exact(name: str) -> None:
    """Bit-exact with the integer golden up to the average, which XNNPACK computes on reals."""
    model, shape = network(name)
    assert isinstance(model, MobileNetV1 | ResNet8 | DSCNN)
    edge, program, _ = compiled(Backbone(model), shape, "static_int8_per_channel")
    graph = graph_of(edge, shape)
    wanted = golden(graph)
    assert wanted.codes(SCHEME)[0] is not None, [(step.name, step.args, step.quant) for step in graph.steps]
    assert messages(wanted, run(program, graph)) == []


@pytest.mark.parametrize("name", ["resnet8", "deep_autoencoder"])
def test_batch_norms_are_part_of_their_products(name: str) -> None:
    """The blob of a network is that of the network with folded batch norms, up to their names."""
    model, shape = network(name)
    found = blob(compiled(model, shape, "fp32")[1])
    folded_first = blob(lowered(name, "fp32")[1])
    assert [node.op for node in found.nodes] == [node.op for node in folded_first.nodes]
    for ours, expected in zip(found.values, folded_first.values, strict=True):
        assert ours.shape == expected.shape
        assert (ours.data is None) == (expected.data is None)
        assert ours.data is None or np.array_equal(ours.data, np.asarray(expected.data))


@pytest.mark.parametrize("groups", [1, 2])
def test_a_batch_norm_behind_a_transposed_convolution(groups: int) -> None:
    """Its weights have the outputs of each group on their own axis, all groups one after the other."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(6)
    for tensor in (norm.running_mean, norm.running_var, norm.weight, norm.bias):
        assert tensor is not None
        tensor.data = torch.rand(6) + 0.5
    model, x = nn.Sequential(nn.ConvTranspose2d(4, 6, 3, groups=groups), norm).eval(), torch.randn(1, 4, 5, 5)
    program = to_edge_transform_and_lower(export(model, (x,)), partitioner=[XnnpackPartitioner()])
    assert [node.op for node in blob(program).nodes] == ["StaticTranspose", "ConvTranspose2d", "StaticTranspose"]
    (found,) = run_program(program.exported_program(), [x], RUNTIMES)
    assert torch.allclose(found, model(x), rtol=1e-5, atol=1e-5)


def blob(program: EdgeProgramManager) -> XModel:
    (module,) = lowered_modules(program)
    return read(module.processed_bytes)


@pytest.mark.long
def test_mobilenet_v2_is_exact() -> None:
    """Every code of a network of 300 million multiplications; its other gates take a minute."""
    model, shape = network("mobilenet_v2")
    edge, program, partitioner = compiled(model, LARGE_NETWORKS["mobilenet_v2"][1], "static_int8_per_channel")
    graph = graph_of(edge, shape)
    (found,) = run(program, graph)
    (codes,) = golden(graph).codes(SCHEME)
    quant = graph.steps[-1].quant
    assert quant is not None and isinstance(quant.scale, float) and codes is not None
    assert torch.equal(found, (codes.float() - quant.zero_point) * quant.scale)
    assert partitioner.rejections == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "precision"), EXACT)
def test_one_step_off_is_caught(name: str, precision: str) -> None:
    """One output a step, or a bit, away fails gate 1, and the message names it."""
    edge, program, _ = lowered(name, precision)
    graph = graph_of(edge, NETWORKS[name][1])
    (right,) = run(program, graph)
    quant = graph.steps[-1].quant
    step = quant.scale if quant is not None and isinstance(quant.scale, float) else 0.0
    wrong = right.clone()
    wrong[0, 0] = wrong[0, 0] + step if step else wrong[0, 0].nextafter(torch.tensor(torch.inf))
    gates = judge(golden(graph), [wrong], SCHEME)
    assert next(gate.gate for gate in gates if not gate.passed) == "gate1"
    assert any("out[0,0]" in message for gate in gates for message in gate.messages)
