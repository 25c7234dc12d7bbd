"""ExecuTorch's documented steps for Arm: TOSAQuantizer, `to_edge_transform_and_lower` with TOSAPartitioner.

What stands behind TOSA (Vela, a device) is not asked, and nothing runs the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.arm import SPECIFICATION
from npu_assay.conformance.adapters.executorch.quiet import quiet
from npu_assay.conformance.reach.flow import Lowered, operators_of, setting
from npu_assay.partitioners.exir import Backend

with quiet():
    from executorch.backends.arm.quantizer import TOSAQuantizer
    from executorch.backends.arm.quantizer.arm_quantizer import (
        get_symmetric_a16w8_quantization_config,
        get_symmetric_quantization_config,
    )
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
    from executorch.exir import to_edge_transform_and_lower

SPECIFICATIONS = {"executorch:ethos-u55": "TOSA-1.0+INT+int16+int4+u55"}
"""Those of Ethos-U85 and of TOSA itself are the other one."""
SETTINGS = {
    "int8": (get_symmetric_quantization_config, False),
    "int8_per_channel": (get_symmetric_quantization_config, True),
    "int16": (get_symmetric_a16w8_quantization_config, False),
    "int16_per_channel": (get_symmetric_a16w8_quantization_config, True),
}
"""Number types, and the quantizer's settings for them."""


@dataclass(frozen=True)
class ArmFlow:
    """The steps up to TOSA for the backend's target."""

    backend: Backend

    def _specification(self) -> Any:
        return TosaCompileSpec(SPECIFICATIONS.get(self.backend.name, SPECIFICATION))

    def quantizer(self, kind: str) -> Any:
        found = setting(kind, SETTINGS, "TOSAQuantizer has no configuration")
        if found is None:
            return None
        settings, per_channel = found
        return TOSAQuantizer(self._specification()).set_global(settings(is_per_channel=per_channel))

    def lower(self, program: ExportedProgram, options: Mapping[str, Any]) -> Lowered:
        with quiet():
            chosen = TOSAPartitioner(self._specification(), **options)
            lowered = to_edge_transform_and_lower(program, partitioner=[chosen]).exported_program()
            return Lowered(*operators_of(lowered), lowered)

    def run(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor] | None:
        return None
