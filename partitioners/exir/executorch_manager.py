"""A program in its last form: the execution dialect of every method, and the file made of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from torch.export import ExportedProgram

from npu_assay.files import write_whole
from npu_assay.partitioners.exir.constant_methods import check_constant_methods, check_known, check_method_name
from npu_assay.partitioners.exir.errors import ExirError
from npu_assay.partitioners.exir.execution.config import ExecutorchBackendConfig, checked_config
from npu_assay.partitioners.exir.execution.dialect import ExecutionVerifier
from npu_assay.partitioners.exir.execution.dump import dump, dump_file
from npu_assay.partitioners.exir.execution.emit import emit
from npu_assay.partitioners.exir.execution.memory_planning import MemoryPlan
from npu_assay.partitioners.exir.execution.serial import recorded, serialised
from npu_assay.partitioners.exir.pte.model import Program


class MethodManager:
    """Programs, one per method, and the constants that other methods return."""

    _programs: Mapping[str, ExportedProgram]
    _constants: Mapping[str, Any]

    @property
    def methods(self) -> set[str]:
        """The names of the methods that have a program."""
        return set(self._programs)

    @property
    def config_methods(self) -> set[str]:
        """The names of the methods that return a constant."""
        return set(self._constants)

    def exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """The program of a method. Raises ExirError for an unknown one."""
        check_known(method_name, self._programs, "method_name")
        return self._programs[method_name]


class ExecutorchProgramManager(MethodManager):
    """Programs of the execution dialect, one per method, and the constants that other methods return.

    Memory is planned and instructions are emitted on construction, so what no program can hold is found there.
    """

    def __init__(
        self,
        execution_programs: Mapping[str, ExportedProgram],
        config_methods: Mapping[str, Any] | None = None,
        backend_config: ExecutorchBackendConfig | None = None,
    ) -> None:
        """Emit the programs, as `EdgeProgramManager.to_executorch` makes them. Raises ExirError."""
        _check_programs(execution_programs)
        for name, program in execution_programs.items():
            if program.dialect != ExecutionVerifier.dialect:
                raise ExirError(
                    "program of another dialect",
                    program.dialect,
                    "EXECUTION, as to_executorch makes it",
                    f"method {name!r}",
                )
        self._programs = dict(execution_programs)
        self._constants = check_constant_methods(config_methods, execution_programs)
        self._config = checked_config(backend_config, execution_programs)
        self._emission = emit(self._programs, self._constants, self._config)

    def memory_plan(self, method_name: str = "forward") -> MemoryPlan:
        """Where the tensors of a method live. Raises ExirError for an unknown one."""
        check_known(method_name, self._programs, "method_name")
        return self._emission.memory[method_name]

    @property
    def executorch_program(self) -> Program:
        """What the file holds, as plain records."""
        return self._emission.program

    @cached_property
    def buffer(self) -> bytes:
        """The file, a `.pte`."""
        return serialised(self._emission.program, self._config)

    def dump_executorch_program(self, verbose: bool = False, out: TextIO | None = None) -> None:
        """Print the program to `out`, or standard output: its instructions, or if verbose, the file's whole table.

        That one has the names of ExecuTorch's schema (`program.fbs`), and every field.
        """
        program = self._emission.program
        print(dump_file(recorded(program, self._config)) if verbose else dump(program), file=out)

    def write_to_file(self, open_file: BinaryIO) -> None:
        """Write the file to one that is open for binary writing."""
        open_file.write(self.buffer)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all. Raises ValueError unless the path ends with .pte."""
        target = Path(path)
        if target.suffix != ".pte":
            raise ExirError("file of another kind", target.name, "a name that ends with .pte", "path")
        write_whole(target, self.buffer)


def _check_programs(programs: object) -> None:
    """Refuse anything but programs by method name."""
    if not isinstance(programs, Mapping):
        raise ExirError(
            "programs of the wrong type",
            type(programs).__name__,
            "a dict from method name to its program",
            "execution_programs",
        )
    for name, program in programs.items():
        check_method_name(name, "execution_programs")
        if not isinstance(program, ExportedProgram):
            found = type(program).__name__
            raise ExirError("not a program", found, "an ExportedProgram", f"method {name!r}")
