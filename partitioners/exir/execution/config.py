"""What `to_executorch` may and may not do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from partitioners.exir.backend import Pass
from partitioners.exir.errors import ExirError
from partitioners.exir.execution.planning import ALIGNMENT, Placement, greedy

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
    instead of copying. extract_delegate_segments: put blobs behind the program, aligned, instead of into it. The
    alignments are in bytes; None is 16. emit_mutable_buffer_names: name the buffers that a method writes.
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

    def planning(self, method: str) -> MemoryPlanningPass:
        """How to plan the memory of a method."""
        if isinstance(self.memory_planning_pass, Mapping):
            return self.memory_planning_pass.get(method) or MemoryPlanningPass()
        return self.memory_planning_pass


def checked_config(config: object) -> ExecutorchBackendConfig:
    """The configuration, or the default one. Raises ExirError for anything else and for wrong alignments."""
    if config is None:
        return ExecutorchBackendConfig()
    if not isinstance(config, ExecutorchBackendConfig):
        raise ExirError(
            "configuration of the wrong type",
            found=type(config).__name__,
            expected="an ExecutorchBackendConfig",
            where="config",
        )
    for name in ("segment_alignment", "constant_tensor_alignment", "delegate_alignment"):
        value = getattr(config, name)
        if value is not None:
            check_alignment(value, f"config.{name}")
    return config


def check_alignment(value: object, where: str) -> None:
    """Refuse anything but a positive power of two."""
    if not isinstance(value, int) or value <= 0 or value & (value - 1):
        raise ExirError("alignment that is none", found=repr(value), expected="a positive power of two", where=where)
