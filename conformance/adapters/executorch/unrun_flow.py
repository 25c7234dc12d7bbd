"""ExecuTorch's documented steps for a backend whose delegates nothing runs here: Vulkan, Core ML.

Their tables have rows in float32 alone, so no quantizer is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.silence import quiet
from npu_assay.conformance.reach.flow import Lowered, operators_of, setting
from npu_assay.partitioners.exir import Backend

with quiet():
    from executorch.exir import to_edge_transform_and_lower


@dataclass(frozen=True)
class UnrunFlow:
    """The steps up to the file, with the vendor's own partitioner and compiler."""

    backend: Backend
    strict: ClassVar[bool] = False

    def quantizer(self, kind: str) -> Any:
        return setting(kind, {}, f"the flow of {self.backend.name} has no quantizer")

    def lower(self, program: ExportedProgram, options: Mapping[str, Any]) -> Lowered:
        chosen: Any = self.backend.partitioner(**options)
        with quiet():
            manager = to_edge_transform_and_lower(program, partitioner=[chosen.theirs])
            found = operators_of(manager.exported_program())
            return Lowered(*found, bytes(manager.to_executorch().buffer))

    def run(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor] | None:
        return None
