"""What a partitioner returns: a tagged program, and what its tags mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend.compile_spec_schema import CompileSpec

DELEGATION_TAG = "delegation_tag"
"""The key in `node.meta` under which a partitioner writes a node's tag."""


class DelegationSpec(NamedTuple):
    """Which backend compiles a partition, and with which compile specs."""

    backend_id: str
    compile_specs: list[CompileSpec]


@dataclass
class PartitionResult:
    """What a partitioner returns.

    tagged_exported_program: the program it got, with `meta["delegation_tag"]` set on the nodes it wants delegated.
    partition_tags: the meaning of every tag used.
    """

    tagged_exported_program: ExportedProgram
    partition_tags: dict[str, DelegationSpec]
