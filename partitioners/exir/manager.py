"""A set of edge programs, one per method, that is transformed and lowered as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx.passes.infra.pass_manager import PassManager

from npu_assay.partitioners.exir.config import EdgeCompileConfig, check_config, check_overloads
from npu_assay.partitioners.exir.constant_methods import check_constant_methods, check_known, check_method_name
from npu_assay.partitioners.exir.errors import ExirError
from npu_assay.partitioners.exir.execution.config import ExecutorchBackendConfig, checked_config
from npu_assay.partitioners.exir.execution.writer import to_execution
from npu_assay.partitioners.exir.executorch_manager import ExecutorchProgramManager, MethodManager
from npu_assay.partitioners.exir.lowering import (
    Details,
    PartitionerOrClass,
    check_edge,
    lower_methods,
    made_partitioner,
)
from npu_assay.partitioners.exir.program import EdgeProgram, check_program, copy_program
from npu_assay.partitioners.exir.transform import GraphPass, transform_program
from npu_assay.partitioners.exir.verifier import verify


class EdgeProgramManager(MethodManager):
    """One or more edge programs, and the constants that methods without a graph return.

    Managers do not change: `transform` and `to_backend` return new ones that share tensors with
    the old, but no graph.
    """

    def __init__(
        self,
        edge_programs: ExportedProgram | Mapping[str, ExportedProgram],
        constant_methods: Mapping[str, Any] | None = None,
        compile_config: EdgeCompileConfig | None = None,
        core_aten_ops_exception_list: Sequence[OpOverload] | None = None,
        preserve_ops: Sequence[OpOverload] | None = None,
    ) -> None:
        """Check the programs. A single program becomes the method "forward". Raises ExirError.

        `compile_config` says how strictly: operators of core ATen, the exceptions, and types of tensors. The last two
        arguments are further exceptions.
        """
        self.compile_config = with_exceptions(check_config(compile_config), core_aten_ops_exception_list, preserve_ops)
        programs = by_method(edge_programs, "edge_programs")
        for name, program in programs.items():
            check_edge(program, f"method {name!r}")
            check_program(program)
            verify(program, self.compile_config)
        self._programs = programs
        self._constants = check_constant_methods(constant_methods, programs)

    @property
    def constant_methods(self) -> dict[str, Any]:
        """What each config method returns."""
        return dict(self._constants)

    def transform(
        self,
        passes: Sequence[GraphPass] | PassManager | Mapping[str, Sequence[GraphPass] | PassManager],
        compile_config: EdgeCompileConfig | None = None,
    ) -> EdgeProgramManager:
        """A new manager with `passes` applied: a list to every method, a dict to those it names.

        See `transform_program` for what a pass may do. What comes out is checked as `compile_config` says, by default
        as this manager's own. Raises ExirError.
        """
        config = self.compile_config if compile_config is None else check_config(compile_config)
        if isinstance(passes, Mapping):
            self._check_methods(passes, "passes")
            chosen = {name: check_passes(passes[name]) for name in passes}
        else:
            chosen = dict.fromkeys(self._programs, check_passes(passes))
        return self._with(
            {name: transform_program(program, chosen.get(name, ())) for name, program in self._programs.items()},
            config,
        )

    def to_backend(
        self, partitioner: PartitionerOrClass | Mapping[str, PartitionerOrClass], *, details: Details | None = None
    ) -> EdgeProgramManager:
        """A new manager with the parts that the partitioner chooses lowered: in every method, or in those named.

        A partitioner is an instance, or a class that can be called without arguments. `details` maps backend ids to
        compilers that are not found by class name. Raises ExirError.
        """
        if isinstance(partitioner, Mapping):
            self._check_methods(partitioner, "partitioner")
            chosen = {name: made_partitioner(one) for name, one in partitioner.items()}
        else:
            chosen = dict.fromkeys(self._programs, made_partitioner(partitioner))
        lowered = lower_methods(self._programs, chosen, details)
        # What is left was checked before, and a delegate's insides are the backend's business.
        unchecked = replace(self.compile_config, _check_ir_validity=False)
        return self._with({m: lowered.get(m) or copy_program(p) for m, p in self._programs.items()}, unchecked)

    def to_executorch(self, config: ExecutorchBackendConfig | None = None) -> ExecutorchProgramManager:
        """The programs in the execution dialect, with memory planned, ready to be written as a file.

        The edge programs stay as they are. Raises ExirError, naming the node, for what no program can hold.
        """
        chosen = checked_config(config, self._programs)
        edge = self.transform(list(chosen.passes)) if chosen.passes else self
        programs = {
            name: to_execution(program, remove_view_copy=chosen.remove_view_copy)
            for name, program in edge._programs.items()
        }
        return ExecutorchProgramManager(programs, self._constants, chosen)

    def _with(self, programs: Mapping[str, EdgeProgram], config: EdgeCompileConfig) -> EdgeProgramManager:
        return EdgeProgramManager(programs, self._constants, config)

    def _check_methods(self, names: Iterable[str], where: str) -> None:
        for name in names:
            check_known(name, self._programs, where)


def with_exceptions(
    config: EdgeCompileConfig, exceptions: Sequence[OpOverload] | None, preserved: Sequence[OpOverload] | None
) -> EdgeCompileConfig:
    """The configuration with further operators to let pass. Raises ExirError for a value that is not an operator."""
    if not exceptions and not preserved:
        return config
    check_overloads(tuple(exceptions or ()), "core_aten_ops_exception_list")
    check_overloads(tuple(preserved or ()), "preserve_ops")
    return replace(
        config,
        _core_aten_ops_exception_list=[*config._core_aten_ops_exception_list, *(exceptions or ())],
        preserve_ops=[*config.preserve_ops, *(preserved or ())],
    )


def by_method(programs: object, where: str) -> dict[str, ExportedProgram]:
    """Programs by method name; a single one is called "forward". Raises ExirError."""
    if not isinstance(programs, Mapping):
        programs = {"forward": programs}
    if not programs:
        raise ExirError("no programs", "an empty dict", "at least one ExportedProgram", where)
    for name, program in programs.items():
        check_method_name(name, where)
        if not isinstance(program, ExportedProgram):
            raise ExirError(
                "not a program",
                f"{type(program).__name__} for method {name!r}",
                "an ExportedProgram, as torch.export.export returns",
                where,
            )
    return dict(programs)


def check_passes(passes: object) -> Sequence[GraphPass]:
    """The passes; a PassManager of torch is one pass. Refuse anything but that, a list or a tuple."""
    if isinstance(passes, PassManager):
        return [passes]
    if not isinstance(passes, (list, tuple)):
        raise ExirError(
            "passes of the wrong type",
            type(passes).__name__,
            "a list of passes, or a dict of such lists by method",
            "passes",
        )
    return passes
