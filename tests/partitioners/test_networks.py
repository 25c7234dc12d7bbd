"""Whole networks: quantized, partitioned, compiled, run on the simulated NPU and judged like any case."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from networks import NETWORKS, lowered_modules, network, quantise, samples
from program_graph import program_graph

from npu_assay.conformance.judge.numerics import golden, judge
from npu_assay.conformance.programs.build import materialise, model_inputs
from npu_assay.conformance.programs.graph import Graph, Ref
from npu_assay.partitioners.exir import EdgeProgramManager, run_program, to_edge
from npu_assay.partitioners.exir.run import run_delegate
from npu_assay.partitioners.neutron import NeutronPartitioner, NeutronRuntime, backend

# torch's own export code and torchao call deprecated torch functions; nothing here can change that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
]
SCHEME = "tflite_double_round"
RUNTIMES = {"NeutronBackend": NeutronRuntime()}
# softmax over 2, 10 and 12 classes: not a multiple of 8
REJECTED = {
    "deep_autoencoder": [],
    **{name: ["channels_multiple_of"] for name in ("mobilenet_v1", "resnet8", "ds_cnn")},
}


@cache
def lowered(name: str) -> tuple[EdgeProgramManager, EdgeProgramManager, NeutronPartitioner]:
    """The edge program, the same with delegates, and the partitioner that made them."""
    model, shape = network(name)
    edge = to_edge(quantise(model, samples(shape, 4)))
    partitioner = backend.partitioner()
    assert isinstance(partitioner, NeutronPartitioner)
    return edge, edge.transform(list(backend.passes)).to_backend(partitioner), partitioner


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.sampled(2)
def test_one_delegate_takes_all_but_the_listed(name: str) -> None:
    _, program, partitioner = lowered(name)
    targets = [str(node.target) for node in program.exported_program().graph.nodes if node.op == "call_function"]
    assert targets.count("executorch_call_delegate") == 1
    assert [rejection.code for rejection in partitioner.rejections] == REJECTED[name]
    assert {t for t in targets if t.startswith("aten.")} == ({"aten._softmax.default"} if REJECTED[name] else set())


def network_graph(name: str) -> Graph:
    return program_graph(lowered(name)[0].exported_program(), samples(NETWORKS[name][1], 1, seed=7))


def delegated_part(graph: Graph) -> Graph:
    """The graph up to the softmax that is not delegated."""
    steps = tuple(step for step in graph.steps if step.op != "aten._softmax.default")
    return replace(graph, steps=steps, outputs=(Ref(steps[-1].name),))


def output_quant(graph: Graph) -> tuple[float, int]:
    quant = graph.steps[-1].quant
    assert quant is not None and isinstance(quant.scale, float)
    return quant.scale, quant.zero_point


def dequantised(codes: torch.Tensor, scale: float, zero_point: int) -> torch.Tensor:
    return (codes.to(torch.float32) - zero_point) * scale


def run_delegated_part(name: str, graph: Graph) -> torch.Tensor:
    """What the delegate answers, dequantized."""
    (module,) = lowered_modules(lowered(name)[1])
    (codes,) = run_delegate(module, [materialise(value) for value in graph.values if not value.constant], RUNTIMES)
    scale, zero_point = output_quant(graph)
    return dequantised(codes, scale, zero_point)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_delegate_passes_the_gates(name: str) -> None:
    """Bit-exact with the integer golden through every layer, and within the float golden's bound."""
    graph = delegated_part(network_graph(name))
    gates = judge(golden(graph), [run_delegated_part(name, graph)], SCHEME)
    assert [message for gate in gates for message in gate.messages] == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_whole_network_passes_the_gates(name: str) -> None:
    """Delegate and fallback together."""
    graph = network_graph(name)
    outputs = run_program(lowered(name)[1].exported_program(), model_inputs(graph), RUNTIMES)
    gates = judge(golden(graph), outputs, SCHEME, delegated=not REJECTED[name])
    assert [message for gate in gates for message in gate.messages] == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", NETWORKS)
def test_one_step_off_is_caught(name: str) -> None:
    """The first output one LSB away fails gate 1, and the message names it."""
    graph = delegated_part(network_graph(name))
    right = run_delegated_part(name, graph)
    wrong = right.clone()
    wrong[0, 0] += output_quant(graph)[0] * (-1 if right[0, 0] > 0 else 1)
    gates = judge(golden(graph), [wrong], SCHEME)
    assert next(gate.gate for gate in gates if not gate.passed) == "gate1"
    assert any("out[0,0]" in message for gate in gates for message in gate.messages)
