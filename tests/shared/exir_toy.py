"""A toy backend for the export API's tests: elementwise float operators, and a JSON blob that its runtime executes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from npu_assay.partitioners.exir import (
    BackendDetails,
    CompileSpec,
    DelegationSpec,
    Partitioner,
    PartitionResult,
    PreprocessResult,
    edge_program,
    tag_constant_data,
    tag_mutated_buffer,
)
from npu_assay.partitioners.exir.constants import placeholders
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.program import EdgeProgram, call
from npu_assay.partitioners.exir.run import constant_value

KERNELS: Mapping[str, Callable[..., Tensor]] = {
    "aten.add.Tensor": lambda a, b: a + b,
    "aten.mul.Tensor": lambda a, b: a * b,
    "aten.neg.default": lambda a: -a,
    "aten.relu.default": lambda a: a.clamp_min(0),
}


class ToyBackend(BackendDetails):
    """Writes names, constants and operator applications as JSON; the compile specs are recorded too."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Compile the program; raises KeyError for an operator without a kernel."""
        constants = {
            node.name: constant_value(edge_program, spec).tolist()
            for node, spec in placeholders(edge_program)
            if spec.kind != InputKind.USER_INPUT
        }
        specs = edge_program.graph_signature.output_specs
        blob = {
            "inputs": [n.name for n, s in placeholders(edge_program) if s.kind == InputKind.USER_INPUT],
            "constants": constants,
            "steps": [
                [n.name, _kernel_name(n), [a.name for a in n.args if isinstance(a, fx.Node)]]
                for n in edge_program.graph.nodes
                if n.op == "call_function"
            ],
            "outputs": [s.arg.name for s in specs if s.kind == OutputKind.USER_OUTPUT],
            "specs": {s.key: s.value.decode() for s in compile_specs},
        }
        return PreprocessResult(json.dumps(blob).encode())


def _kernel_name(node: fx.Node) -> str:
    name = target_name(node.target)
    if name not in KERNELS:
        raise KeyError(f"{node.name}: the toy backend has no kernel for {name}")
    return name


class ToyRuntime:
    """Runs the blobs, and counts what it did."""

    def __init__(self) -> None:
        self.loads = 0
        self.runs = 0

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        """Parse a blob."""
        self.loads += 1
        return json.loads(processed_bytes)

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Apply the kernels in order."""
        self.runs += 1
        values = {name: torch.tensor(data) for name, data in handle["constants"].items()}
        values.update(zip(handle["inputs"], inputs, strict=True))
        for name, kernel, args in handle["steps"]:
            values[name] = KERNELS[kernel](*(values[a] for a in args))
        return [values[name] for name in handle["outputs"]]


class TagNodes(Partitioner):
    """Tags nodes by name: {tag: names}. Every tag goes to `backend_id`; constants follow on demand."""

    def __init__(
        self,
        tags: Mapping[str, Iterable[str]],
        backend_id: str = "ToyBackend",
        constants: bool = False,
        compile_specs: Sequence[CompileSpec] = (),
    ) -> None:
        super().__init__({"tags": tags})
        self.tags = {name: tag for tag, names in tags.items() for name in names}
        self.delegation = DelegationSpec(backend_id, list(compile_specs))
        self.constants = constants

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes."""
        for node in exported_program.graph.nodes:
            if node.name in self.tags:
                node.meta["delegation_tag"] = self.tags[node.name]
        if self.constants:
            tag_constant_data(exported_program)
            tag_mutated_buffer(exported_program)
        return PartitionResult(exported_program, dict.fromkeys(self.tags.values(), self.delegation))


class TagOperators(Partitioner):
    """Tags every operator that the toy backend has a kernel for, one partition each, constants with it."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes."""
        tags: dict[str, DelegationSpec] = {}
        for node in exported_program.graph.nodes:
            if node.op == "call_function" and target_name(node.target) in KERNELS:
                node.meta["delegation_tag"] = f"toy_{len(tags)}"
                tags[f"toy_{len(tags)}"] = DelegationSpec("ToyBackend", [])
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, tags)


class Cnn(nn.Module):
    """Convolution, batch norm, relu, pooling, linear: two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8 * 4 * 4, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(1, 3, 8, 8) -> (1, 5) logits and (1, 8, 4, 4) features."""
        features = torch.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.linear(features.flatten(1)), -features


def seeded(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module in eval mode with weights and statistics drawn from a generator of its own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.1)
    return module.eval()


def random(*shape: int, seed: int = 1) -> Tensor:
    """Normal numbers from a generator of their own."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def diamond(shape: tuple[int, ...] = (2, 3)) -> EdgeProgram:
    """x -> relu -> {neg, neg} -> add, and a weight that both the mul behind it and the last add use."""
    graph = fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    relu = call(graph, "aten.relu.default", (x,))
    left, right = call(graph, "aten.neg.default", (relu,)), call(graph, "aten.neg.default", (relu,))
    total = call(graph, "aten.add.Tensor", (left, right))
    scaled = call(graph, "aten.mul.Tensor", (total, w))
    shifted = call(graph, "aten.add.Tensor", (scaled, w))
    graph.output((shifted, left))
    return edge_program(graph, {"w": random(*shape, seed=2)}, {"x": torch.empty(shape)})


def names(program: ExportedProgram) -> list[str]:
    """The names of the program's nodes in order."""
    return [n.name for n in program.graph.nodes]


def targets(program: ExportedProgram) -> list[str]:
    """The names of the operators that the program calls, in order."""
    return [target_name(n.target) for n in program.graph.nodes if n.op == "call_function"]


def dump(program: ExportedProgram) -> str:
    """Everything about a program that a test may want unchanged, as text."""
    nodes = [(n.name, n.op, str(n.target), str(n.args), str(n.kwargs), sorted(n.meta)) for n in program.graph.nodes]
    return "\n".join(map(str, [*nodes, program.graph_signature, sorted(program.state_dict), sorted(program.constants)]))
