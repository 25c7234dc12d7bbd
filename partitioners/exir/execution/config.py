"""What `to_executorch` may and may not do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from npu_assay.partitioners.exir.backend import Pass
from npu_assay.partitioners.exir.constant_methods import check_known
from npu_assay.partitioners.exir.errors import ExirError
from npu_assay.partitioners.exir.execution.memory_planning import ALIGNMENT, Placement, greedy

DELEGATE_PADDING = 64
"""Bytes beyond the last tensor of an arena that delegates may read: vector kernels load whole registers."""


@dataclass(frozen=True)
class MemoryPlanningPass:
    """How tensors get their place in the arena.

    algorithm: offsets for a list of requests. alloc_graph_input, alloc_graph_output: plan memory for what the method
    takes and returns; otherwise the caller brings it. alignment: of every tensor, in bytes. delegate_padding: bytes
    added to the arena of a method that calls a delegate.
    """

    algorithm: Placement = greedy
    alloc_graph_input: bool = True
    alloc_graph_output: bool = True
    alignment: int = ALIGNMENT
    delegate_padding: int = DELEGATE_PADDING


@dataclass
class ExecutorchBackendConfig:
    """The fields of ExecuTorch's configuration that mean something here, with its defaults.

    passes: run on every method's edge graph first, as `EdgeProgramManager.transform` does. memory_planning_pass: for
    every method, or by method name (the default for those not named). remove_view_copy: let views share memory
    instead of copying. extract_delegate_segments: put blobs after the program, aligned, instead of into it. The
    alignments are in bytes; None is 16. emit_mutable_buffer_names: name the buffers that a method writes.
    emit_stacktrace: say of every instruction which lines of the model it comes from.
    """

    passes: Sequence[Pass] = field(default_factory=list)
    memory_planning_pass: MemoryPlanningPass | Mapping[str, MemoryPlanningPass] = field(
        default_factory=MemoryPlanningPass
    )
    extract_delegate_segments: bool = True
    segment_alignment: int = 128
    constant_tensor_alignment: int | None = None
    delegate_alignment: int | None = None
    remove_view_copy: bool = True
    emit_mutable_buffer_names: bool = False
    emit_stacktrace: bool = False

    def planning(self, method: str) -> MemoryPlanningPass:
        """How to plan the memory of a method."""
        if isinstance(self.memory_planning_pass, Mapping):
            return self.memory_planning_pass.get(method) or MemoryPlanningPass()
        return self.memory_planning_pass


def checked_config(config: object, methods: Collection[str] = ("forward",)) -> ExecutorchBackendConfig:
    """The configuration, or the default one, of a program with these methods. Raises ExirError for wrong values."""
    if config is None:
        return ExecutorchBackendConfig()
    if not isinstance(config, ExecutorchBackendConfig):
        raise ExirError(
            "configuration of the wrong type", type(config).__name__, "an ExecutorchBackendConfig", "config"
        )
    for name in ("segment_alignment", "constant_tensor_alignment", "delegate_alignment"):
        value = getattr(config, name)
        if value is not None:
            check_alignment(value, f"config.{name}")
    _check_type(config.passes, (list, tuple), "a list of passes", "config.passes")
    _check_planning(config.memory_planning_pass, methods)
    return config


def _check_planning(planning: object, methods: Collection[str]) -> None:
    """One for every method, or a dict by the names of methods."""
    where = "config.memory_planning_pass"
    by_name = planning if isinstance(planning, Mapping) else {}
    for name in by_name:
        check_known(name, methods, where)
        check_memory_planning(by_name[name], f"{where}[{name!r}]")
    if not isinstance(planning, Mapping):
        check_memory_planning(planning, where)


def check_memory_planning(planning: object, where: str) -> None:
    """Refuse anything but a MemoryPlanningPass of an algorithm, an alignment and a padding."""
    _check_type(planning, MemoryPlanningPass, "a MemoryPlanningPass", where)
    assert isinstance(planning, MemoryPlanningPass)
    if not callable(planning.algorithm):
        found = type(planning.algorithm).__name__
        raise ExirError("not an algorithm", found, "a function", f"{where}.algorithm")
    check_alignment(planning.alignment, f"{where}.alignment")
    _check_type(planning.delegate_padding, int, "a number of bytes", f"{where}.delegate_padding")
    if planning.delegate_padding < 0:
        found = str(planning.delegate_padding)
        raise ExirError("negative padding", found, "at least 0", f"{where}.delegate_padding")


def _check_type(value: object, kind: type | tuple[type, ...], expected: str, where: str) -> None:
    if not isinstance(value, kind):
        raise ExirError("wrong type", type(value).__name__, expected, where)


def check_alignment(value: object, where: str) -> None:
    """Refuse anything but a positive power of two."""
    if not isinstance(value, int) or value <= 0 or value & (value - 1):
        raise ExirError("invalid alignment", repr(value), "a positive power of two", where)
