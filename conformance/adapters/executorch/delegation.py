"""A partitioner and a compiler of ExecuTorch in the classes of our export API."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.lazy_codegen import unwritten
from npu_assay.conformance.adapters.executorch.lazy_passes import idle
from npu_assay.conformance.adapters.executorch.memoize import lighter
from npu_assay.conformance.adapters.executorch.silence import quiet
from npu_assay.partitioners.exir import (
    BackendDetails,
    CompileSpec,
    DelegationSpec,
    Partitioner,
    PartitionResult,
    edge_program,
)
from npu_assay.partitioners.exir.backend import PreprocessResult
from npu_assay.partitioners.exir.contract import check_unchanged
from npu_assay.partitioners.exir.interop import executorch_program
from npu_assay.partitioners.exir.program import call

import_module("tqdm").tqdm.monitor_interval = 0  # the progress bars of ExecuTorch's passes would start a thread

Compile = Callable[[ExportedProgram, list[Any]], bytes]


class TheirPartitioner(Partitioner):
    """Runs a partitioner of ExecuTorch on a copy of the program, and copies its tags and metadata to the program."""

    def __init__(self, theirs: Any) -> None:
        super().__init__()
        self.theirs = theirs

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """The partitioner's tags. Raises ContractError if it changes anything else."""
        with quiet(), unwritten(), idle(), lighter():
            result = self.theirs.partition(executorch_program(exported_program))
            check_unchanged(executorch_program(exported_program), result.tagged_exported_program)
        _copy_marks(result.tagged_exported_program.graph, exported_program.graph)
        specs = {str(tag): _spec(found) for tag, found in result.partition_tags.items()}
        return PartitionResult(exported_program, specs)

    def ops_to_not_decompose(self, ep: ExportedProgram) -> Any:
        """The operators that their partitioner takes before torch decomposes them, and a filter of nodes."""
        with quiet():
            return self.theirs.ops_to_not_decompose(ep)


def _copy_marks(source: fx.Graph, graph: fx.Graph) -> None:
    """Copy tags, and other metadata that a partitioner writes for its compiler."""
    for theirs, ours in zip(source.nodes, graph.nodes, strict=True):
        ours.meta.update({key: found for key, found in theirs.meta.items() if key != "val"})


def _spec(found: Any) -> DelegationSpec:
    return DelegationSpec(str(found.backend_id), [CompileSpec(s.key, bytes(s.value)) for s in found.compile_specs])


def _copyable(program: ExportedProgram) -> ExportedProgram:
    """The program without inputs that are called like Python's builtins, as `input`: fx renames those in copies."""
    specs = (*program.graph_signature.input_specs, *program.graph_signature.output_specs)
    for node in program.graph.find_nodes(op="placeholder"):
        if hasattr(builtins, old := node.name):
            node._rename(f"{old}_1")
            for spec in (spec for spec in specs if getattr(spec.arg, "name", None) == old):
                spec.arg.name = node.name
    return program


def warm_up(*uses: Callable[[ExportedProgram], object]) -> None:
    """Use a program: the first time, ExecuTorch imports further modules and draws random numbers."""
    graph = fx.Graph()
    graph.output((call(graph, "aten.abs.default", (graph.placeholder("x"),)),))
    program = edge_program(graph, inputs={"x": torch.zeros(1)})
    with quiet(), torch.random.fork_rng():
        for use in uses:
            use(executorch_program(program))


class _Compiler(BackendDetails):
    """The base class of the compilers below, apart from this project's compilers, which may have the same names."""


def compiler(backend_id: str, compile_: Compile) -> type[BackendDetails]:
    """A compiler class of that name, which gives `compile_` a program and compile specs of ExecuTorch's classes."""

    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        from executorch.exir.backend.compile_spec_schema import CompileSpec as TheirSpec  # optional

        specs = [TheirSpec(spec.key, spec.value) for spec in compile_specs]
        with quiet(), unwritten(), idle(), lighter():
            return PreprocessResult(compile_(_copyable(executorch_program(edge_program)), specs))

    return type(backend_id, (_Compiler,), {"preprocess": staticmethod(preprocess)})
