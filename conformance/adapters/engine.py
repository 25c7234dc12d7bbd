"""An engine that takes a whole model in a file format or none of it: what its adapters share.

A case is one delegate or none. Accepted means that the model has a form in the format and that the engine makes
something it can run of it; that, and running, is done in a child process: a crash there is a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch.export import ExportedProgram

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.interchange.onnx_form import onnx_model
from npu_assay.conformance.interchange.onnx_writer import FormError
from npu_assay.conformance.interchange.whole import Whole, inner_nodes
from npu_assay.conformance.isolation.machine import Machine, MachineError
from npu_assay.partitioners.exir import DelegationSpec, PartitionResult, to_backend
from npu_assay.partitioners.exir.backend import Backend, BackendDetails, CompileSpec, PreprocessResult, Rejection
from npu_assay.partitioners.exir.ops import target_name

Form = Callable[[ExportedProgram], bytes]
"""Writes a program as a model, or raises FormError."""
REFUSED = "engine"
"""The reason's code where a model has a form and the engine does not take it."""
KEPT = 2
"""Compiled models that a child process keeps: as many as a case lets run in turn."""


@dataclass(frozen=True)
class Engine:
    """One engine as an adapter describes it.

    form: what writes a program as a model's bytes; format: the name of what it writes.
    refused: the rule, in a sentence, that a model breaks which the engine does not take.
    execute: `module:function` of what runs in the child process; without inputs it compiles and runs nothing.
    """

    name: str
    table: str
    backend_id: str
    execute: str
    refused: str
    distributions: tuple[str, ...]
    form: Form
    format: str = "ONNX"

    def backend(self) -> Backend:
        """The engine as a backend."""
        machine = Machine(self.execute)
        return Backend(
            name=self.name,
            table=self.table,
            partitioner=partial(WholeModel, self, machine),
            details=_details(self),
            runtime=Models(machine),
            distributions=self.distributions,
            processes=1,
        )


class WholeModel(Whole):
    """Tags all of a model that has a form and that the engine takes; `rejections` says why not another one."""

    def __init__(self, engine: Engine, machine: Machine, **_: Any) -> None:
        super().__init__(DelegationSpec(engine.backend_id, []), self._taken)
        self.engine, self.machine = engine, machine
        self.rejections: list[Rejection] = []

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the program or leave it; see `rejections` for the reason."""
        self.rejections = []
        return super().partition(exported_program)

    def _taken(self, program: ExportedProgram) -> bool:
        try:
            self.machine.run(self._delegated(program), [])
        except FormError as error:
            self._reject(program, error.code, str(error), f"{self.engine.format} must have a form of the operator")
        except MachineError as error:
            self._reject(program, REFUSED, str(error), self.engine.refused)
        return not self.rejections

    def _delegated(self, program: ExportedProgram) -> bytes:
        """The model of what would be delegated: the child process keeps it, so that it is compiled once."""
        found: list[bytes | FormError] = []
        details = {self.engine.backend_id: _details(replace(self.engine, form=_recording(self.engine.form, found)))}
        to_backend(program, Whole(self.delegation_spec), details=details)
        (model,) = found
        if isinstance(model, FormError):
            raise model
        return model

    def _reject(self, program: ExportedProgram, code: str, found: str, sentence: str) -> None:
        """One reason for all of the model."""
        for node in inner_nodes(program):
            self.rejections.append(Rejection(node.name, target_name(node.target), code, found, sentence))


def _details(engine: Engine) -> type[BackendDetails]:
    """What writes a delegated program as a model; it raises FormError for what has no form."""

    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        return PreprocessResult(engine.form(edge_program))

    return type(engine.backend_id, (BackendDetails,), {"preprocess": staticmethod(preprocess)})


def _recording(form: Form, found: list[bytes | FormError]) -> Form:
    """A form that notes what it wrote, or why there was nothing to write."""

    def recorded(program: ExportedProgram) -> bytes:
        try:
            found.append(form(program))
        except FormError as error:
            found.append(error)
        return b"model"

    return recorded


@dataclass(frozen=True)
class Models:
    """The engine in its child process, as a device."""

    machine: Machine

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec] = ()) -> bytes:
        """The model itself: the child process keeps what was compiled last."""
        return processed_bytes

    def execute(self, handle: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs. Raises MachineError when the engine refuses the model or dies of it."""
        return self.machine.run(handle, inputs)


kept = lru_cache(maxsize=KEPT)
"""For the function that compiles a model in the child process."""


def onnx_bytes(program: ExportedProgram) -> bytes:
    """A program in the ONNX form. Raises FormError."""
    return bytes(onnx_model(program, "case").SerializeToString(deterministic=True))


def installed(adapter: str, packages: Sequence[tuple[str, str]], name: str) -> Backend:
    """The backend that an adapter's module `provider` makes of a name.

    packages: what must be importable, and the distribution that has it. Raises UsageError when one is missing.
    """
    for module, distribution in packages:
        if not _is_there(module):
            spec = f"{adapter.rpartition('.')[2]}:{name.replace('_', '-')}"
            raise UsageError(f"{spec} needs the package {distribution}: pip install {distribution}")
    return _made(f"{adapter}.provider", name)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False


@cache
def _made(module: str, name: str) -> Backend:
    """One backend a process, and with it one child process."""
    engine: Engine = import_module(module).ENGINES[name]
    return engine.backend()
