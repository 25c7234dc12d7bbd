"""`to_backend`: compile a whole program for one backend, or the parts of it that a partitioner chooses."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from typing import Any

from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend import BackendDetails, CompileSpec, PreprocessResult
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG, Partitioner
from npu_assay.partitioners.exir.contract import tagged_nodes
from npu_assay.partitioners.exir.cutting import outer_program, submodule
from npu_assay.partitioners.exir.errors import BackendError, ExirError
from npu_assay.partitioners.exir.lowered import LoweredBackendModule
from npu_assay.partitioners.exir.plan import plan
from npu_assay.partitioners.exir.program import EdgeProgram, EdgeVerifier, copy_program

Details = Mapping[str, type[BackendDetails]]


@singledispatch
def to_backend(args: Any, *rest: Any, **keywords: Any) -> Any:
    """Lower a program to a backend. Two forms, by the type of the first argument:

    `to_backend(backend_id, edge_program, compile_specs) -> LoweredBackendModule` compiles all of it;
    `to_backend(edge_program, partitioner) -> EdgeProgram` compiles what the partitioner tags and
    returns a new program that calls the delegates. The program given stays as it is.

    Both take `details`, a mapping from backend id to compiler class, for backends that are not
    found by their class name. Raises ExirError for anything else in first place.
    """
    raise ExirError(
        "to_backend cannot lower this",
        found=type(args).__name__,
        expected="(backend_id: str, edge_program, compile_specs) or (edge_program: ExportedProgram, partitioner)",
        where="first argument",
    )


@to_backend.register
def _(
    args: str, edge_program: ExportedProgram, compile_specs: list[CompileSpec], *, details: Details | None = None
) -> LoweredBackendModule:
    check_edge(edge_program, "edge_program")
    _check_specs(compile_specs)
    return _compiled(args, edge_program, copy_program(edge_program), compile_specs, details)


def _compiled(
    backend_id: str,
    program: ExportedProgram,
    twin: ExportedProgram,
    compile_specs: list[CompileSpec],
    details: Details | None,
) -> LoweredBackendModule:
    """A program compiled: the compiler gets its `twin`, to do with as it likes."""
    result = backend_class(backend_id, details).preprocess(twin, compile_specs)
    if not isinstance(result, PreprocessResult) or not isinstance(result.processed_bytes, bytes):
        found = result.processed_bytes if isinstance(result, PreprocessResult) else result
        raise BackendError(
            "preprocess() returned something unusable",
            found=type(found).__name__,
            expected="a PreprocessResult whose processed_bytes are bytes",
            where=backend_id,
        )
    lowered = LoweredBackendModule(program, backend_id, result.processed_bytes, compile_specs, result.data_store_output)
    lowered.meta = {"debug_handle_map": result.debug_handle_map}
    return lowered


@to_backend.register
def _(args: ExportedProgram, partitioner: Partitioner, *, details: Details | None = None) -> EdgeProgram:
    check_edge(args, "first argument")
    name = check_partitioner(partitioner)
    result = partitioner(untagged(args))
    tags = tagged_nodes(args, result, name)
    tagged = result.tagged_exported_program
    cut = plan(tagged, tags)
    for tag in dict.fromkeys(p.tag for p in cut.partitions):
        backend_class(result.partition_tags[tag].backend_id, details)
    lowered = {}
    for partition in cut.partitions:
        backend_id, compile_specs = result.partition_tags[partition.tag]
        inner = submodule(tagged, partition)
        twin = copy_program(inner, verify=False)
        lowered[partition.tag] = _compiled(backend_id, inner, twin, compile_specs, details)
    return outer_program(tagged, cut, lowered)


def untagged(program: ExportedProgram) -> EdgeProgram:
    """A copy of the program without the tags that an earlier partitioner may have left on it."""
    twin = copy_program(program)
    for node in twin.graph.nodes:
        node.meta.pop(DELEGATION_TAG, None)
    return twin


def backend_class(backend_id: str, details: Details | None = None) -> type[BackendDetails]:
    """The compiler of a backend: from `details`, else the direct subclass of BackendDetails of that name."""
    if details is not None and backend_id in details:
        return details[backend_id]
    known = [c for c in BackendDetails.__subclasses__() if c.__name__ == backend_id]
    if len(known) == 1:
        return known[0]
    if known:
        raise BackendError(
            "several backends of one name",
            found=", ".join(sorted(f"{c.__module__}.{c.__qualname__}" for c in known)),
            expected="one class, or `details` that says which",
            where=backend_id,
        )
    names = sorted({c.__name__ for c in BackendDetails.__subclasses__()})
    raise BackendError(
        "unknown backend", found=repr(backend_id), expected=f"one of {names} (is it imported?)", where="backend_id"
    )


def check_edge(program: object, where: str) -> None:
    """Refuse anything but an ExportedProgram of the edge dialect."""
    if not isinstance(program, ExportedProgram):
        raise ExirError("not a program", found=type(program).__name__, expected="an ExportedProgram", where=where)
    if program.dialect != EdgeVerifier.dialect:
        raise ExirError(
            "program of another dialect", found=program.dialect, expected="EDGE, as to_edge makes it", where=where
        )


def check_partitioner(partitioner: object) -> str:
    """The partitioner's name for messages; refuse classes and objects that are no partitioners."""
    if isinstance(partitioner, Partitioner):
        return type(partitioner).__name__
    is_class = isinstance(partitioner, type)
    name = partitioner.__name__ if isinstance(partitioner, type) else type(partitioner).__name__
    raise ExirError(
        "not a partitioner",
        found=f"the class {name}" if is_class else f"an object of type {name}",
        expected=f"an instance, {name}(...)" if is_class else "an instance of a Partitioner subclass",
        where="partitioner",
    )


def _check_specs(compile_specs: object) -> None:
    if not isinstance(compile_specs, list) or not all(isinstance(s, CompileSpec) for s in compile_specs):
        raise ExirError(
            "compile_specs of the wrong type",
            found=repr(compile_specs),
            expected="a list of CompileSpec",
            where="compile_specs",
        )
