"""A backend's compiler, and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend.compile_spec_schema import CompileSpec


@dataclass(frozen=True)
class PreprocessResult:
    """What a backend's compiler returns: the blob its runtime loads, and optional debug data."""

    processed_bytes: bytes = b""
    debug_handle_map: dict[int, tuple[int, ...]] | None = None
    data_store_output: Any = None


class BackendDetails(ABC):
    """A backend's compiler. Subclass it directly; the class name is the backend id."""

    @staticmethod
    @abstractmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Compile one delegated subgraph (edge dialect) to bytes."""
