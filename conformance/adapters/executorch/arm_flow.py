"""ExecuTorch's documented steps for Arm: TOSAQuantizer, `to_edge_transform_and_lower` with TOSAPartitioner.

The stages after TOSA (Vela, a device) are not run. Delegates run on Arm's reference model if that is installed, all
other operators in torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.arm import MODEL, SPECIFICATION, flatbuffer
from npu_assay.conformance.adapters.executorch.silence import quiet
from npu_assay.conformance.reach.flow import Lowered, operators_of, setting
from npu_assay.partitioners.exir import Backend, Runtime

with quiet():
    from executorch.backends.arm.quantizer import TOSAQuantizer
    from executorch.backends.arm.quantizer.arm_quantizer import (
        get_symmetric_a16w8_quantization_config,
        get_symmetric_quantization_config,
    )
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
    from executorch.exir.delegate import executorch_call_delegate

SPECIFICATIONS = {"executorch:ethos-u55": "TOSA-1.0+INT+int16+int4+u55"}
"""The TOSA specification by backend; backends that are not listed have `SPECIFICATION`."""
SETTINGS = {
    "int8": (get_symmetric_quantization_config, False),
    "int8_per_channel": (get_symmetric_quantization_config, True),
    "int16": (get_symmetric_a16w8_quantization_config, False),
    "int16_per_channel": (get_symmetric_a16w8_quantization_config, True),
}
"""The quantizer's settings by precision."""


@dataclass(frozen=True)
class ArmFlow:
    """The steps up to TOSA for the backend's target."""

    backend: Backend
    strict: ClassVar[bool] = False

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
            config = EdgeCompileConfig(_check_ir_validity=False)  # as Arm's recipes have it
            manager = to_edge_transform_and_lower(program, partitioner=[chosen], compile_config=config)
            lowered = manager.exported_program()
            return Lowered(*operators_of(lowered), lowered)

    def run(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor] | None:
        if find_spec(MODEL) is None:
            return None
        return list(_Lowered(handle.module(), self.backend.runtime).run(*inputs))


class _Lowered(fx.Interpreter):
    """A lowered program whose delegates run on a runtime."""

    def __init__(self, program: fx.GraphModule, runtime: Runtime) -> None:
        super().__init__(program)
        self.runtime, self.extra_traceback = runtime, False

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is not executorch_call_delegate:
            return super().call_function(target, args, kwargs)
        lowered, *inputs = args
        blob = flatbuffer(lowered.original_module, lowered.processed_bytes)
        return self.runtime.execute(self.runtime.load(blob, ()), inputs)
