"""The common part of adapters for engines that take a whole model in a file format, or none of it.

A case is one delegate or none. Accepted means that the model has a form in the format and that the engine compiles it.
Compiling and running are done in a child process: a crash there is a result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from torch.export import ExportedProgram

from npu_assay.conformance.common.memory import keep
from npu_assay.conformance.devices.machine import Machine, MachineError
from npu_assay.conformance.interchange.onnx_form import OPSET, onnx_model
from npu_assay.conformance.interchange.whole import Whole, inner_nodes
from npu_assay.partitioners.exir import DelegationSpec, PartitionResult, to_backend
from npu_assay.partitioners.exir.backend import Backend, BackendDetails, CompileSpec, PreprocessResult, Rejection
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.reference.onnx_forms.site import FormError

Form = Callable[[ExportedProgram], bytes]
"""Writes a program as a model, or raises FormError."""
REFUSED = "engine"
"""The constraint's id of a rejection where a model has a form and the engine refuses it."""


@dataclass(frozen=True)
class Engine:
    """One engine as an adapter describes it.

    form: writes a program as a model's bytes. format: the name of the format.
    refused: the constraint, in a sentence, that a model breaks if the engine refuses it.
    program: the device program that compiles and runs a model (`devices.worker`), `FILE.py:function`.
    needs: the modules that the program imports, each with the distribution to install beside the suite; "" for one of
        an environment of its own.
    """

    name: str
    table: str
    backend_id: str
    program: str
    refused: str
    distributions: tuple[str, ...]
    form: Form
    needs: tuple[tuple[str, str], ...]
    format: str = "ONNX"

    def backend(self) -> Backend:
        """The engine as a backend."""
        machine = Machine(self.program, needs=self.needs)
        return Backend(
            name=self.name,
            table=self.table,
            partitioner=partial(WholeModel, self, machine),
            details=_details(self),
            runtime=machine,
            distributions=self.distributions,
            processes=1,
        )


class WholeModel(Whole):
    """Tags all of a model that has a form and that the engine compiles; else `rejections` says why it does not."""

    def __init__(self, engine: Engine, machine: Machine, **_: Any) -> None:
        super().__init__(DelegationSpec(engine.backend_id, []), self._taken)
        self.engine, self.machine = engine, machine
        self.rejections: list[Rejection] = []

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the whole program, or nothing and add the reason to `rejections`."""
        self.rejections = []
        return super().partition(exported_program)

    def _taken(self, program: ExportedProgram) -> bool:
        try:
            self.machine.run(self._delegated(program), [])
        except FormError as error:
            self._reject(program, error.code, str(error), f"the operator must have a form in {self.engine.format}")
        except MachineError as error:
            self._reject(program, REFUSED, str(error), self.engine.refused)
        return not self.rejections

    def _delegated(self, program: ExportedProgram) -> bytes:
        """The model's bytes. The child process has compiled it and keeps it, so that it is compiled once."""
        found: list[bytes | FormError] = []
        details = {self.engine.backend_id: _details(replace(self.engine, form=_recording(self.engine.form, found)))}
        to_backend(program, Whole(self.delegation_spec), details=details)
        (model,) = found
        if isinstance(model, FormError):
            raise model
        return model

    def _reject(self, program: ExportedProgram, code: str, found: str, sentence: str) -> None:
        """Add one reason for the whole model."""
        for node in inner_nodes(program):
            self.rejections.append(Rejection(node.name, target_name(node.target), code, found, sentence))


def _details(engine: Engine) -> type[BackendDetails]:
    """A compiler class that writes a delegated program as a model; it raises FormError if there is no form."""

    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        return PreprocessResult(engine.form(edge_program))

    return type(engine.backend_id, (BackendDetails,), {"preprocess": staticmethod(preprocess)})


def _recording(form: Form, found: list[bytes | FormError]) -> Form:
    """A form that also appends to `found` the bytes that it wrote, or its FormError."""

    def recorded(program: ExportedProgram) -> bytes:
        try:
            found.append(form(program))
        except FormError as error:
            found.append(error)
        return b"model"

    return recorded


def beside(file: str, program: str) -> str:
    """The path of a device program that lies beside a module's file."""
    return str(Path(file).with_name(program))


def onnx_bytes(program: ExportedProgram, opset: int = OPSET) -> bytes:
    """A program in the ONNX form. Raises FormError."""
    return bytes(onnx_model(program, "case", opset).SerializeToString(deterministic=True))


def offered(adapter: str, names: Sequence[str]) -> tuple[Callable[[], list[str]], Callable[[str], Backend]]:
    """`__dir__` and `__getattr__` of an adapter, whose module `provider` makes the backends of these names."""

    def made(name: str) -> Backend:
        if name not in names:
            raise AttributeError(f"module {adapter!r} has no attribute {name!r}")
        return _made(f"{adapter}.provider", name)

    return lambda: list(names), made


@keep(64)
def _made(module: str, name: str) -> Backend:
    """The backend, made once per process, and with it one child process."""
    engine: Engine = import_module(module).ENGINES[name]
    return engine.backend()
