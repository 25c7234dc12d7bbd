"""Whole networks on Ethos-U: quantized, partitioned, compiled, run on the simulated device and judged like any case."""

from __future__ import annotations

from functools import cache

import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from networks import NETWORKS, edge_for_ethosu, folded, for_ethosu, lowered_modules, network, samples
from program_graph import program_graph

from npu_assay.conformance.judge.numerics import Golden, golden, judge
from npu_assay.conformance.programs.build import model_inputs
from npu_assay.conformance.programs.graph import Graph
from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner, EthosURuntime
from npu_assay.partitioners.exir import EdgeProgramManager, run_program

# torch's own export code and torchao call deprecated torch functions; nothing here can change that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
]
SCHEME = "tosa_single_round"
RUNTIMES = {"EthosUBackend": EthosURuntime()}
U55, U85 = "ethos-u55-128", "ethos-u85-256"
QUANTISED = [(name, precision) for name in NETWORKS for precision in ("int8_per_channel", "int16_per_channel")]
QUANTISED.append(("deep_autoencoder", "int8"))
RUNS = [(*run, target) for run in QUANTISED for target in (U55, U85) if "int8" in run[1] or target == U85]


@cache
def edge_program(name: str, precision: str) -> EdgeProgramManager:
    """The same for both devices: none of these networks has what only one of them lacks."""
    model, shape = network(name)
    return edge_for_ethosu(for_ethosu(folded(model), U85, precision, samples(shape, 2)), U55)


@cache
def lowered(name: str, precision: str, target: str) -> tuple[EdgeProgramManager, EthosUPartitioner]:
    """The program with delegates, and the partitioner that made them."""
    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    return edge_program(name, precision).to_backend(partitioner), partitioner


@cache
def judged(name: str, precision: str) -> tuple[Graph, Golden]:
    """The case graph of a network and what it must compute."""
    graph = program_graph(edge_program(name, precision).exported_program(), samples(NETWORKS[name][1], 1, seed=7))
    return graph, golden(graph)


def run(name: str, precision: str, target: str) -> list[torch.Tensor]:
    program, _ = lowered(name, precision, target)
    return run_program(program.exported_program(), model_inputs(judged(name, precision)[0]), RUNTIMES)


def calls(program: EdgeProgramManager) -> list[str]:
    nodes = [node for node in program.exported_program().graph.nodes if node.op == "call_function"]
    return [name for node in nodes if "getitem" not in (name := str(node.target))]


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "precision", "target"), RUNS)
def test_one_delegate_takes_all(name: str, precision: str, target: str) -> None:
    """Between the conversions of input and output."""
    program, partitioner = lowered(name, precision, target)
    assert partitioner.rejections == []
    found = [call for call in calls(program) if "quantize_per_tensor" not in call]
    assert found == ["executorch_call_delegate"]
    assert len(lowered_modules(program)) == 1


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "precision", "target"), RUNS)
def test_network_passes_the_gates(name: str, precision: str, target: str) -> None:
    """Bit-exact with the integer golden, and within the float golden's bound."""
    wanted = judged(name, precision)[1]
    assert wanted.codes(SCHEME)[0] is not None
    gates = judge(wanted, run(name, precision, target), SCHEME)
    assert [message for gate in gates for message in gate.messages] == []


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "precision", "target"), RUNS)
def test_one_step_off_is_caught(name: str, precision: str, target: str) -> None:
    """One output a step away fails gate 1, and the message names it."""
    graph, wanted = judged(name, precision)
    (right,) = run(name, precision, target)
    quant = graph.steps[-1].quant
    assert quant is not None and isinstance(quant.scale, float)
    wrong = right.clone()
    wrong[0, 0] += quant.scale * (-1 if right[0, 0] > 0 else 1)
    gates = judge(wanted, [wrong], SCHEME)
    assert next(gate.gate for gate in gates if not gate.passed) == "gate1"
    assert any("out[0,0]" in message for gate in gates for message in gate.messages)
