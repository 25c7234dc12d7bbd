"""Compile a whole program for one backend, or the parts of it that a partitioner chooses; `to_backend` calls it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend.backend_details import (
    BackendDetails,
    PreprocessResult,
    compilers,
    unimplemented,
)
from npu_assay.partitioners.exir.backend.compile_spec_schema import CompileSpec
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG, DelegationSpec, Partitioner
from npu_assay.partitioners.exir.contract import tagged_nodes
from npu_assay.partitioners.exir.cutting import outer_program, submodule
from npu_assay.partitioners.exir.delegation import Plan, plan
from npu_assay.partitioners.exir.errors import BackendError, ExirError
from npu_assay.partitioners.exir.lowered import LoweredBackendModule
from npu_assay.partitioners.exir.program import EdgeProgram, EdgeVerifier, copy_program

Details = Mapping[str, type[BackendDetails]]
PartitionerOrClass = Partitioner | type[Partitioner]


def lower_whole(
    backend_id: str, edge_program: ExportedProgram, compile_specs: list[CompileSpec], *, details: Details | None = None
) -> LoweredBackendModule:
    """The whole program compiled for one backend. Raises ExirError."""
    check_edge(edge_program, "edge_program")
    _check_specs(compile_specs)
    compiler = backend_class(backend_id, details)
    result = compiler.preprocess(copy_program(edge_program), compile_specs)
    return _lowered(edge_program, DelegationSpec(backend_id, compile_specs), result)


def lower_parts(
    edge_program: ExportedProgram, partitioner: PartitionerOrClass, *, details: Details | None = None
) -> EdgeProgram:
    """A new program that calls delegates for what the partitioner tags, each compiled on its own. Raises ExirError."""
    check_edge(edge_program, "first argument")
    parts = _parts(edge_program, made_partitioner(partitioner), details)
    found = {spec.backend_id: backend_class(spec.backend_id, details) for spec in parts.specs}
    results = [
        found[spec.backend_id].preprocess(copy_program(inner, verify=False), spec.compile_specs)
        for inner, spec in zip(parts.programs, parts.specs, strict=True)
    ]
    return parts.outer([_lowered(*each) for each in zip(parts.programs, parts.specs, results, strict=True)])


def lower_methods(
    programs: Mapping[str, ExportedProgram], partitioners: Mapping[str, Partitioner], details: Details | None = None
) -> dict[str, EdgeProgram]:
    """`lower_parts` for several methods; a backend compiles all its delegates at once. Raises ExirError.

    Backends take turns in the order in which the methods first call them.
    """
    cut = {name: _parts(programs[name], one, details) for name, one in partitioners.items()}
    delegates: dict[str, list[LoweredBackendModule | None]] = {name: [None] * len(p.specs) for name, p in cut.items()}
    for backend_id in dict.fromkeys(spec.backend_id for parts in cut.values() for spec in parts.specs):
        places = {m: [i for i, s in enumerate(p.specs) if s.backend_id == backend_id] for m, p in cut.items()}
        places = {method: found for method, found in places.items() if found}
        results = _compiled_together(backend_id, cut, places, details)
        for method, found in places.items():
            for place, result in zip(found, results[method], strict=True):
                inner, spec = cut[method].programs[place], cut[method].specs[place]
                delegates[method][place] = _lowered(inner, spec, result)
    return {name: parts.outer([d for d in delegates[name] if d is not None]) for name, parts in cut.items()}


def _compiled_together(
    backend_id: str, cut: Mapping[str, Parts], places: Mapping[str, Sequence[int]], details: Details | None
) -> Mapping[str, Sequence[object]]:
    """The results of a backend for its delegates, by method. Raises BackendError for another number of results."""
    programs = {m: [copy_program(cut[m].programs[i], verify=False) for i in found] for m, found in places.items()}
    specs = {method: [cut[method].specs[i].compile_specs for i in found] for method, found in places.items()}
    results = backend_class(backend_id, details).preprocess_multimethod(programs, specs)
    wanted = {method: len(found) for method, found in places.items()}
    if not isinstance(results, Mapping) or wanted != {m: len(r) for m, r in results.items() if isinstance(r, Sequence)}:
        raise BackendError(
            "preprocess_multimethod() returned something unusable",
            repr({m: len(r) for m, r in results.items()}) if isinstance(results, dict) else repr(results),
            f"a dict with as many results for each method: {wanted}",
            backend_id,
        )
    return results


@dataclass(frozen=True)
class Parts:
    """A program that was cut into partitions and the rest: one inner program and specification per partition."""

    tagged: ExportedProgram
    plan: Plan
    programs: tuple[EdgeProgram, ...]
    specs: tuple[DelegationSpec, ...]

    def outer(self, delegates: Sequence[LoweredBackendModule]) -> EdgeProgram:
        """The program that calls these delegates, one per partition, in their order."""
        tags = [partition.tag for partition in self.plan.partitions]
        return outer_program(self.tagged, self.plan, dict(zip(tags, delegates, strict=True)))


def _parts(program: ExportedProgram, partitioner: Partitioner, details: Details | None) -> Parts:
    """Ask the partitioner, check its answer and that its backends exist, and cut."""
    tagged, cut, specs = checked_partitions(program, partitioner, details)
    return Parts(tagged, cut, tuple(submodule(tagged, p) for p in cut.partitions), specs)


def checked_partitions(
    program: ExportedProgram, partitioner: Partitioner, details: Details | None = None
) -> tuple[ExportedProgram, Plan, tuple[DelegationSpec, ...]]:
    """The tagged program, its partitions as `to_backend` would cut them, and what each is for. Compiles nothing.

    Raises ContractError for tags that break the contract, BackendError for a backend that is unknown.
    """
    result = partitioner(untagged(program))
    tags = tagged_nodes(program, result, type(partitioner).__name__)
    tagged = result.tagged_exported_program
    cut = plan(tagged, tags)
    specs = tuple(result.partition_tags[p.tag] for p in cut.partitions)
    for spec in specs:
        backend_class(spec.backend_id, details)
    return tagged, cut, specs


def _lowered(program: ExportedProgram, spec: DelegationSpec, result: object) -> LoweredBackendModule:
    """The delegate of a compiled program. Raises BackendError for an invalid result."""
    if not isinstance(result, PreprocessResult) or not isinstance(result.processed_bytes, bytes):
        found = result.processed_bytes if isinstance(result, PreprocessResult) else result
        raise BackendError(
            "preprocess() returned something unusable",
            type(found).__name__,
            "a PreprocessResult whose processed_bytes are bytes",
            spec.backend_id,
        )
    data = result.data_store_output
    lowered = LoweredBackendModule(program, spec.backend_id, result.processed_bytes, spec.compile_specs, data)
    lowered.meta = {"debug_handle_map": result.debug_handle_map}
    return lowered


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
    known = [c for c in compilers() if c.__name__ == backend_id]
    if len(known) == 1:
        return _complete(known[0])
    if known:
        raise BackendError(
            "several backends of one name",
            ", ".join(sorted(f"{c.__module__}.{c.__qualname__}" for c in known)),
            "one class, or `details` that says which",
            backend_id,
        )
    names = sorted({c.__name__ for c in compilers()})
    raise BackendError("unknown backend", repr(backend_id), f"one of {names} (is it imported?)", "backend_id")


def _complete(compiler: type[BackendDetails]) -> type[BackendDetails]:
    """The compiler itself. Raises BackendError for one without a method that it has to implement."""
    missing = unimplemented(compiler)
    if missing:
        raise BackendError("incomplete backend", f"no {missing[0]}()", "an implementation of it", compiler.__name__)
    return compiler


def check_edge(program: object, where: str) -> None:
    """Refuse anything but an ExportedProgram of the edge dialect."""
    if not isinstance(program, ExportedProgram):
        raise ExirError("not a program", type(program).__name__, "an ExportedProgram", where)
    if program.dialect != EdgeVerifier.dialect:
        raise ExirError("program of another dialect", program.dialect, "EDGE, as to_edge makes it", where)


def made_partitioner(partitioner: object) -> Partitioner:
    """The partitioner, or one made of a class that takes no arguments. Raises ExirError for anything else."""
    if isinstance(partitioner, Partitioner):
        return partitioner
    if not isinstance(partitioner, type) or not issubclass(partitioner, Partitioner):
        kind = f"the class {partitioner.__name__}" if isinstance(partitioner, type) else None
        found = kind or f"an object of type {type(partitioner).__name__}"
        raise _no_partitioner(found, "an instance of a Partitioner subclass, or the subclass")
    missing, name = unimplemented(partitioner), partitioner.__name__
    if missing:
        raise _no_partitioner(f"the class {name} without {missing[0]}()", "a subclass that implements it")
    try:
        inspect.signature(partitioner).bind()
    except TypeError as error:
        raise _no_partitioner(f"the class {name}, which takes arguments", f"an instance, {name}(...)") from error
    return partitioner()


def _no_partitioner(found: str, expected: str) -> ExirError:
    return ExirError("not a partitioner", found, expected, "partitioner")


def _check_specs(compile_specs: object) -> None:
    if not isinstance(compile_specs, list) or not all(isinstance(s, CompileSpec) for s in compile_specs):
        raise ExirError(
            "compile_specs of the wrong type", repr(compile_specs), "a list of CompileSpec", "compile_specs"
        )
