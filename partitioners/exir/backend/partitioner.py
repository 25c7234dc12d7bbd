"""How a backend says which nodes it takes: the partitioner interface and its result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend.backend_details import enforcedmethod
from npu_assay.partitioners.exir.backend.partition_result import DELEGATION_TAG, DelegationSpec, PartitionResult

__all__ = ["DELEGATION_TAG", "DelegationSpec", "PartitionResult", "Partitioner"]


class Partitioner(ABC):
    """Decides which nodes of an edge program go to a backend, and which of them form one delegate.

    Subclasses implement `partition`; without it they cannot be instantiated.
    """

    _spec: Mapping[str | int | float | bool, object] = MappingProxyType({})

    def __init__(self, spec: Mapping[str | int | float | bool, object] = MappingProxyType({})) -> None:
        self._spec = spec

    def __call__(self, exported_program: ExportedProgram) -> PartitionResult:
        """Partition the program; the same as `partition`.

        For a program of ExecuTorch, whose `to_backend` calls this, the compilers of the tags are made known there.
        """
        found = self.partition(exported_program)
        if any(verifier.__module__.startswith("executorch.") for verifier in exported_program.verifiers):
            from npu_assay.partitioners.exir.interop import offer_compilers  # loads torch

            offer_compilers(found)
        return found

    @property
    def spec(self) -> Mapping[str | int | float | bool, object]:
        """The options that the partitioner was made with."""
        return self._spec

    @enforcedmethod
    @abstractmethod
    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes to delegate, and change nothing else.

        Every node of a partition gets `meta["delegation_tag"]`, a key of the result's
        `partition_tags`. A tag is one delegate: contracted to a single node it must not close a
        cycle. User inputs and the output node are never tagged; parameters, buffers and constants
        may be, and then move into the delegates that use them.
        """

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        """Operators that are not decomposed on the way to the edge dialect, and an optional filter of their nodes."""
        return ([], None)

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """The program to decompose, which a partitioner may rewrite before: the same one, unless overridden."""
        return exported_program
