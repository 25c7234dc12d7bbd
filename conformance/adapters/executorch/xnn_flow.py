"""ExecuTorch's documented steps for XNNPACK: XNNPACKQuantizer, `to_edge_transform_and_lower`, the runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.silence import quiet
from npu_assay.conformance.adapters.executorch.xnn import execute, partitioner
from npu_assay.conformance.reach.flow import Lowered, operators_of, setting
from npu_assay.partitioners.exir import Backend

with quiet():
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.exir import to_edge_transform_and_lower

SETTINGS = {
    "static_int8": {"is_per_channel": False},
    "static_int8_per_channel": {"is_per_channel": True},
    "dynamic_int8": {"is_per_channel": True, "is_dynamic": True},
}
"""The quantizer's arguments by precision."""


@dataclass(frozen=True)
class XnnpackFlow:
    """The steps on the documentation page of the XNNPACK backend."""

    backend: Backend
    strict: ClassVar[bool] = False

    def quantizer(self, kind: str) -> Any:
        found = setting(kind, SETTINGS, "XNNPACKQuantizer has no configuration")
        return None if found is None else XNNPACKQuantizer().set_global(get_symmetric_quantization_config(**found))

    def lower(self, program: ExportedProgram, options: Mapping[str, Any]) -> Lowered:
        with quiet():
            manager = to_edge_transform_and_lower(program, partitioner=[partitioner(**options)])
            found = operators_of(manager.exported_program())
            return Lowered(*found, bytes(manager.to_executorch().buffer))

    def run(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor] | None:
        return execute(handle, inputs)
