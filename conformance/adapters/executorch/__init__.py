"""Backends of an installed ExecuTorch: its partitioner, its compiler, and its runtime where there is one.

executorch:xnnpack     XnnpackPartitioner and XnnpackBackend; delegates run on ExecuTorch's own runtime.
executorch:arm-tosa    TOSAPartitioner and TOSABackend for the integer profile, against the table of Ethos-U85.
executorch:ethos-u55   EthosUPartitioner for ethos-u55-128, and the TOSA stage of EthosUBackend.
executorch:ethos-u85   The same for ethos-u85-256.
executorch:vulkan      VulkanPartitioner and VulkanBackend, which need no GPU: level compiles.
executorch:neutron     NeutronPartitioner, with a stand-in for NXP's SDK: level tags.
executorch:coreml      CoreMLPartitioner, which asks coremltools: level tags.

executorch:qualcomm, :samsung and :mediatek are names, too: each is refused with one line that says what is missing.

What the Arm backends compile runs on Arm's TOSA reference model. Vela, which compiles TOSA further for the device, is
not run, as there is no device to run its output. Without the package tosa-tools nothing runs, and every case
with a delegate fails for that reason, unless a run asks for a lower level (`--level compiles`).

Everything of ExecuTorch is imported when a backend is asked for, and runs in a process of its own: a crash there is a
result.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.memory import keep

if TYPE_CHECKING:
    from npu_assay.partitioners.exir.backend import Backend

BACKENDS = {
    "xnnpack": "xnn",
    "arm_tosa": "arm",
    "ethos_u55": "arm",
    "ethos_u85": "arm",
    "vulkan": "vk",
    "neutron": "nxp",
    "coreml": "cm",
}
"""The backends, and the module beside this one that makes each."""
NEEDED = {"xnn": "torchao", "arm": "tosa-tools", "vk": "torchao", "nxp": "torchao", "cm": "coremltools"}
"""What a module imports in addition to ExecuTorch, whose package does not require it."""

LACKING = {
    "qualcomm": "QnnPartitioner calls Qualcomm's QNN SDK, which no wheel has, and QNN_SDK_ROOT does not name one",
    "samsung": "its partitioner imports PyEnnWrapperAdaptor, which Samsung's Exynos SDK builds and no wheel has",
    "mediatek": "its partitioner imports mtk_converter and mtk_neuron, which are part of MediaTek's NeuroPilot SDK",
}
"""Backends of the package that cannot be used, and why."""


def __dir__() -> list[str]:
    return [*BACKENDS, *LACKING]


def __getattr__(name: str) -> Backend:
    """A backend by its name. Raises UsageError if ExecuTorch or a vendor's SDK is not installed."""
    if name not in __dir__():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("executorch") is None:
        raise UsageError(f"executorch:{name.replace('_', '-')} needs the package executorch: pip install executorch")
    if name in LACKING:
        raise UsageError(f"executorch:{name} cannot be used: {LACKING[name]}")
    return _backend(name)


@keep(64)
def _backend(name: str) -> Backend:
    try:
        made: Backend = import_module(f"{__name__}.{BACKENDS[name]}").backend(name)
    except ImportError as error:
        spec, extra = f"executorch:{name.replace('_', '-')}", NEEDED[BACKENDS[name]]
        raise UsageError(f"{spec} cannot be imported: {error} (it also needs {extra}: pip install {extra})") from error
    return made
