"""NXP's documented steps: NeutronQuantizer, NXP's edge passes, `to_edge_transform_and_lower` with NeutronPartitioner.

Without NXP's SDK, the flow ends after NXP's converter in Python, which writes the SDK's input: nothing converts that
further or runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest import mock

from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.nxp import TARGET, partitioner
from npu_assay.conformance.adapters.executorch.silence import quiet
from npu_assay.conformance.reach.flow import STATIC, Lowered, operators_of, setting
from npu_assay.partitioners.exir import Backend

with quiet():
    from executorch.backends.nxp import nxp_backend
    from executorch.backends.nxp.backend.neutron_target_spec import NeutronTargetSpec
    from executorch.backends.nxp.edge_passes.neutron_edge_pass_manager import NeutronEdgePassManager
    from executorch.backends.nxp.quantizer.neutron_quantizer import NeutronQuantizer
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower


class _Converter:
    """Stands in for the manager of the SDK's converter."""

    def __init__(self, *_: Any) -> None: ...

    def convert(self, model: Any, *_: Any) -> bytes:
        return bytes(model)


def _unconverted() -> AbstractContextManager[Any]:
    """Let NXP's compiler end where it would call the SDK. Release 1.3 has no NeutronMap."""
    stood_in: dict[str, Any] = {
        "NeutronConverterManager": _Converter,
        "NeutronMap": lambda *_: SimpleNamespace(get_neutron_to_edge_map=dict),
        "PayloadComposer": lambda: SimpleNamespace(get_binary_payload=lambda formats, model: model),
    }
    found = {name: value for name, value in stood_in.items() if hasattr(nxp_backend, name)}
    patched: AbstractContextManager[Any] = mock.patch.multiple(nxp_backend, **found)
    return patched


@dataclass(frozen=True)
class NeutronFlow:
    """The steps as NXP's example takes them."""

    backend: Backend
    strict: ClassVar[bool] = True

    def quantizer(self, kind: str) -> Any:
        wanted = setting(kind, dict.fromkeys(STATIC, True), "NeutronQuantizer has no configuration")
        return NeutronQuantizer(NeutronTargetSpec(TARGET)) if wanted else None

    def lower(self, program: ExportedProgram, options: Mapping[str, Any]) -> Lowered:
        config = EdgeCompileConfig(
            _check_ir_validity=False, _core_aten_ops_exception_list=nxp_backend.core_aten_ops_exception_list
        )
        chosen = partitioner(post_quantization_state_dict=program.state_dict, **options)
        with quiet(), _unconverted() if self.backend.stands_in else nullcontext():
            manager = to_edge_transform_and_lower(
                program, transform_passes=NeutronEdgePassManager(), partitioner=[chosen], compile_config=config
            )
        lowered = manager.exported_program()
        return Lowered(*operators_of(lowered), lowered)

    def run(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor] | None:
        return None
