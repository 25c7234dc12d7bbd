"""Compiles whole case graphs for Ethos-U, without a partitioner, and says what torch makes of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from delegated import delegated, outputs, results
from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.conformance.programs.build import build, materialise
from npu_assay.conformance.programs.graph import Graph
from npu_assay.partitioners.ethosu.backend import EthosUBackend
from npu_assay.partitioners.ethosu.tosa_format import read
from npu_assay.partitioners.ethosu.tosa_model import TModel
from npu_assay.partitioners.exir import CompileSpec
from npu_assay.partitioners.exir.ops import DEQUANTIZE, target_name

SPECIFICATIONS = {"u55": "TOSA-1.0+INT+int16+int4+u55", "u85": "TOSA-1.0+INT+int16+int4+cf"}
WHOLE = ("aten.linear.default", "aten.pad.default")
"""Operators that the vendor's flow keeps whole between quantized tensors."""


@dataclass(frozen=True)
class Compiled:
    """A blob, its inputs in its order, and the integers that torch returns for them."""

    blob: bytes
    inputs: tuple[Tensor, ...]
    expected: tuple[Tensor, ...]

    @property
    def model(self) -> TModel:
        """The graph in the blob."""
        return read(self.blob)

    @property
    def operators(self) -> list[str]:
        """The operators' codes in execution order."""
        return [operator.code for operator in self.model.operators]

    def steps(self, returned: Sequence[Tensor]) -> int:
        """The largest distance between a returned integer and an expected one; the shapes must be equal."""
        pairs = list(zip(returned, self.expected, strict=True))
        assert [tuple(a.shape) for a, _ in pairs] == [tuple(b.shape) for _, b in pairs]
        return max(int((a.to(torch.int64) - b.to(torch.int64)).abs().max()) for a, b in pairs)


def compiled(graph: Graph, device: str) -> Compiled:
    """The whole graph for "u55" or "u85"."""
    program = build(graph, WHOLE)
    part = delegated(program)
    numbers = {value.name: materialise(value) for value in graph.values if not value.constant}
    inputs = [numbers[name.removesuffix("_codes")] for name in part.graph_signature.user_inputs]
    return Compiled(blob_of(part, device), tuple(inputs), tuple(_expected(program, graph)))


def blob_of(part: ExportedProgram, device: str) -> bytes:
    """The blob of a delegated program."""
    spec = CompileSpec("tosa_spec", SPECIFICATIONS[device].encode())
    return EthosUBackend.preprocess(part, [spec]).processed_bytes


def _expected(program: ExportedProgram, graph: Graph) -> list[Tensor]:
    """What torch returns: codes of quantized outputs, integers as they are."""
    found = []
    for node, value in zip(outputs(program), results(program, graph), strict=True):
        if target_name(node.target) in DEQUANTIZE:
            scale, zero_point, dtype = node.args[1], node.args[2], node.args[5]
            assert isinstance(scale, float) and isinstance(zero_point, int) and isinstance(dtype, torch.dtype)
            value = (torch.round(value.double() / scale) + zero_point).to(dtype)
        found.append(value)
    return found
