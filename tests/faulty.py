"""What makes a broken backend of a right one, and what a test says of a fault. Shared by the modules of faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from conformance.certify import run_case
from conformance.graph import Case
from conformance.results import CaseResult
from conformance.table import Table
from partitioners.exir import Backend, CompileSpec, PreprocessResult, Runtime
from partitioners.exir.backend import BackendDetails

Patch = Callable[[], AbstractContextManager[Any]]


# ------------------------------------------------------------------------------------ broken backends


def with_compiler(backend: Backend, preprocess: Callable[[Any, list[CompileSpec]], PreprocessResult]) -> Backend:
    """A backend with another compiler of the same name.

    It is no direct subclass of BackendDetails, so programs that name no compiler never find it.
    """
    right = backend.details
    details: type[BackendDetails] = type(right.__name__, (right,), {"preprocess": staticmethod(preprocess)})
    return replace(backend, details=details)


def rewriting(backend: Backend, change: Callable[[bytes], bytes]) -> Backend:
    """A backend whose compiler changes every blob that it writes."""

    def preprocess(program: torch.export.ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        return PreprocessResult(change(backend.details.preprocess(program, specs).processed_bytes))

    return with_compiler(backend, preprocess)


def compiling_with(backend: Backend, patched: Patch) -> Backend:
    """A backend whose compiler runs under a patch."""

    def preprocess(program: torch.export.ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        with patched():
            return backend.details.preprocess(program, specs)

    return with_compiler(backend, preprocess)


class Broken:
    """A device that loads and runs under a patch; `after` changes what it returns."""

    def __init__(self, right: Runtime, patched: Patch, after: Callable[[Any, list[Tensor]], list[Tensor]]) -> None:
        self.right, self.patched, self.after = right, patched, after

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec] = ()) -> Any:
        with self.patched():
            return self.right.load(processed_bytes, compile_specs)

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        with self.patched():
            return self.after(handle, self.right.execute(handle, inputs))


def with_device(
    backend: Backend, patched: Patch, after: Callable[[Any, list[Tensor]], list[Tensor]] = lambda _, outputs: outputs
) -> Backend:
    """A backend with a broken device."""
    return replace(backend, runtime=Broken(backend.runtime, patched, after))


# ------------------------------------------------------------------------------------ what they come to light as


@dataclass(frozen=True)
class Fault:
    """A fault and what it must come to light as.

    cases: beginnings of the ids of cases that are run. checks: those that fail. constraints: those that the failing
    cases are about, where the fault is about one.
    """

    name: str
    cases: tuple[str, ...]
    checks: frozenset[str]
    constraints: frozenset[str] | None = None


def tagged(name: str, row: str, constraint: str, check: str = "tag") -> Fault:
    """A fault of the partitioner: cases of one constraint, and no others of a row and precision, fail."""
    cases = (f"{row}/{constraint}/", f"{row}/operator/accept/", f"{row}/nonempty/")
    return Fault(name, cases, frozenset({check}), frozenset({constraint}))


def wrong(name: str, row: str, *checks: str) -> Fault:
    """A fault of the compiler or the device: tags are right, numbers are not. `row` may go on to some cases."""
    cases = (row,) if row.count("/") > 2 else (f"{row}/operator/accept/", f"{row}/operator/value/")
    return Fault(name, cases, frozenset(checks))


def selected(fault: Fault, cases: Sequence[Case]) -> list[Case]:
    """The cases that are run for a fault."""
    return [case for case in cases if case.id.startswith(fault.cases)]


def results_of(broken: Backend, table: Table, cases: Sequence[Case]) -> tuple[CaseResult, ...]:
    """The cases on a broken backend."""
    return tuple(run_case(case, broken, table) for case in cases)


def checks_of(results: Sequence[CaseResult]) -> dict[str, int]:
    """How often each check failed."""
    names = [failure.check for result in results for failure in result.failures]
    return {name: names.count(name) for name in names}
