"""Compiles whole case graphs for the Neutron device, without a partitioner, and runs them on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.conformance.programs.build import build, materialise, model_inputs
from npu_assay.conformance.programs.graph import Graph
from npu_assay.partitioners.exir import edge_program, run_program, transform_program
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE, target_name
from npu_assay.partitioners.exir.transform import constant_data
from npu_assay.partitioners.neutron import NeutronBackend, NeutronRuntime, backend, generate_neutron_compile_spec
from npu_assay.partitioners.neutron.tflite import Model, read


@dataclass(frozen=True)
class Run:
    """A compiled graph: its model, the codes it returned, and those of the quantized float program."""

    model: Model
    codes: tuple[Tensor, ...]
    expected: tuple[Tensor, ...]

    @property
    def operators(self) -> list[str]:
        """The operators' codes in execution order."""
        return [operator.code for operator in self.model.operators]

    def lsb(self) -> int:
        """The largest distance between a returned and an expected code, in steps."""
        pairs = zip(self.codes, self.expected, strict=True)
        return max(int((a.to(torch.int32) - b.to(torch.int32)).abs().max()) for a, b in pairs)


def delegated(program: ExportedProgram) -> ExportedProgram:
    """The program between its inputs' quantize and its outputs' dequantize nodes: codes in, codes out.

    Inputs and outputs that are integers stay as they are.
    """
    graph = fx.Graph()
    twins: dict[fx.Node, fx.Node] = {}
    constants = constant_data(program)
    for node in program.graph.nodes:
        if node.op == "output":
            twins[node] = graph.output(tuple(twins[inner(argument)] for argument in node.args[0]))
        elif node.op == "placeholder" and node.name not in constants and _is_only_quantised(node):
            continue
        elif target_name(node.target) in QUANTIZE and node.args[0].op == "placeholder":
            twins[node] = graph.placeholder(f"{node.args[0].name}_codes")
        elif node.users or node.op == "placeholder":
            twins[node] = graph.node_copy(node, lambda n: twins[n])
        if node in twins:
            twins[node].meta = dict(node.meta)
    for node in reversed(graph.nodes):
        if node.op == "call_function" and not node.users:
            graph.erase_node(node)
    return edge_program(graph, constants)


def _is_only_quantised(node: fx.Node) -> bool:
    """Whether a float input is read by quantize nodes alone, so that the delegate is given its codes."""
    return all(target_name(user.target) in QUANTIZE for user in node.users)


def inner(node: fx.Node) -> fx.Node:
    """The codes behind a program's float output; any other output itself."""
    if target_name(node.target) not in DEQUANTIZE:
        return node
    source = node.args[0]
    assert isinstance(source, fx.Node)
    return source


def compiled(program: ExportedProgram, *, convert: bool = True) -> bytes:
    """The blob of a delegated program."""
    spec = generate_neutron_compile_spec("imxrt700", use_neutron_for_format_conversion=convert)
    return NeutronBackend.preprocess(program, spec).processed_bytes


def run(graph: Graph, *, convert: bool = True, passes: bool = True) -> Run:
    """Compile the whole graph, run it on the simulated device, and compare with torch."""
    program = build(graph)
    expected = [codes_of(node, value) for node, value in zip(outputs(program), results(program, graph), strict=True)]
    if passes:
        program = transform_program(program, backend.passes)
    blob = compiled(delegated(program), convert=convert)
    codes = [materialise(value) for value in graph.values if not value.constant]
    runtime = NeutronRuntime()
    returned = runtime.execute(runtime.load(blob), codes)
    return Run(read(blob), tuple(returned), tuple(expected))


def results(program: ExportedProgram, graph: Graph) -> list[Tensor]:
    """What torch returns for the program on the graph's inputs."""
    return [value for value in run_program(program, model_inputs(graph)) if isinstance(value, Tensor)]


def outputs(program: ExportedProgram) -> Sequence[fx.Node]:
    """The dequantize nodes that the program returns."""
    returned = program.graph.output_node().args[0]
    assert isinstance(returned, tuple | list)
    return [node for node in returned if isinstance(node, fx.Node)]


def codes_of(node: fx.Node, value: Tensor) -> Tensor:
    """The codes that a dequantize node returned as reals."""
    scale, zero_point = node.args[1:3]
    assert isinstance(scale, float) and isinstance(zero_point, int)
    return (torch.round(value.double() / scale) + zero_point).to(torch.int8)
