"""Backends of an installed ExecuTorch: its partitioner, its compiler, and its runtime where there is one.

executorch:xnnpack     XnnpackPartitioner and XnnpackBackend; delegates run on ExecuTorch's own runtime.
executorch:arm-tosa    TOSAPartitioner and TOSABackend for the integer profile, against the table of Ethos-U85.
executorch:ethos-u55   EthosUPartitioner for ethos-u55-128, and the TOSA stage of EthosUBackend.
executorch:ethos-u85   The same for ethos-u85-256.

What the Arm backends compile runs on Arm's TOSA reference model. Vela, which compiles TOSA further for the device, is
not asked, as no device is there to run what it makes. Without the package tosa-tools nothing runs, and every case
with a delegate fails for that reason, unless a run asks for a lower level (`--level compiles`).

Everything of ExecuTorch is imported when a backend is asked for, and runs in a process of its own: a crash there is a
result.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from npu_assay.conformance.common.errors import UsageError

if TYPE_CHECKING:
    from npu_assay.partitioners.exir.backend import Backend

BACKENDS = {"xnnpack": "xnn", "arm_tosa": "arm", "ethos_u55": "arm", "ethos_u85": "arm", "vulkan": "vk"}
"""The backends, and the module beside this one that makes each."""
NEEDED = {"xnn": "torchao", "arm": "tosa-tools", "vk": "torchao"}
"""What a module imports besides ExecuTorch, whose package does not require it."""


def __dir__() -> list[str]:
    return list(BACKENDS)


def __getattr__(name: str) -> Backend:
    """A backend by its name. Raises UsageError when ExecuTorch is not installed."""
    if name not in BACKENDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("executorch") is None:
        raise UsageError(f"executorch:{name.replace('_', '-')} needs the package executorch: pip install executorch")
    return _backend(name)


@cache
def _backend(name: str) -> Backend:
    try:
        made: Backend = import_module(f"{__name__}.{BACKENDS[name]}").backend(name)
    except ImportError as error:
        spec, extra = f"executorch:{name.replace('_', '-')}", NEEDED[BACKENDS[name]]
        raise UsageError(f"{spec} cannot be imported: {error} (it also needs {extra}: pip install {extra})") from error
    return made
