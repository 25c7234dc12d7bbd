"""Broken copies of a backend, each with one fault that a vendor could ship, and the records that list them.

A catalogue is a function that takes the right backend and returns its faults. `Backend.faults` names it, and
`assay mutate` shows whether the suite notices each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from npu_assay.partitioners.exir.backend import (
    Backend,
    BackendDetails,
    CompileSpec,
    PreprocessResult,
    Rejection,
    Runtime,
)

# Found as a neighbor of the current directory, it would be a second copy of every class in it.
if __name__ != "npu_assay.faults":
    raise ImportError(f"module {__name__}: expected npu_assay.faults, of which this is the folder")

STAGES = ("partitioner", "compiler", "device")
Patch = Callable[[], AbstractContextManager[Any]]
Found = tuple[Rejection, ...]


@dataclass(frozen=True)
class Fault:
    """A broken backend, and where it must come to light.

    stage: what is broken, one of STAGES. kind: how, in a word or two (dropped, wrong_axis, rounding, ...).
    cases: ids of the cases that show it; an id may stop early and have * for any text. They are run first.
    checks: all that must notice it; empty where any may.
    """

    name: str
    stage: str
    kind: str
    backend: Backend
    cases: tuple[str, ...]
    checks: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.stage not in STAGES:
            raise ValueError(f"stage of the fault {self.name!r}: found {self.stage!r}, expected one of {STAGES}")

    @property
    def id(self) -> str:
        """Stage, kind and name: what `-k` selects by."""
        return f"{self.stage}/{self.kind}/{self.name}"


def together(*patches: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
    """Several patches as one."""
    stack = ExitStack()
    for each in patches:
        stack.enter_context(each)
    return stack


def _under(patched: Patch, function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*given: Any) -> Any:
        with patched():
            return function(*given)

    return apply


def partitioning_with(backend: Backend, patched: Patch) -> Backend:
    """A backend whose partitioner judges under a patch."""

    def partitioner(**options: Any) -> Any:
        made = backend.partitioner(**options)
        preserved = made.ops_to_not_decompose

        def ops_to_not_decompose(program: Any) -> Any:
            ops, keep = preserved(program)
            return ops, None if keep is None else _under(patched, keep)

        vars(made).update(partition=_under(patched, made.partition), ops_to_not_decompose=ops_to_not_decompose)
        return made

    return replace(backend, partitioner=partitioner)


# ------------------------------------------------------------------------------------ compilers


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
    return with_compiler(backend, _under(patched, backend.details.preprocess))


# ------------------------------------------------------------------------------------ devices


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
    """A backend with a broken device. Only the device is: what the suite expects is computed without the patch."""
    return replace(backend, runtime=Broken(backend.runtime, patched, after))


# ------------------------------------------------------------------------------------ partitioners


def less(code: str, target: str | None = None) -> Callable[[Found], Found]:
    """Rejections without those of a code, of one operator or of any."""
    return lambda found: tuple(one for one in found if one.code != code or target not in (None, one.target))


def renamed(code: str, other: str = "mood") -> Callable[[Found], Found]:
    """Rejections of which some give another reason."""
    return lambda found: tuple(replace(one, code=other) if one.code == code else one for one in found)
