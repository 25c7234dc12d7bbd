"""ExecuTorch's partitioner for eIQ Neutron, at level `tags`: against neutron@1.4, for releases before 1.4 neutron@1.3.

It imports NXP's SDK, which is not published, for the parameters of a target. Here a module stands in for that query and
for nothing else of the SDK; the certificate says so, and its level is `tags`. The vendor's edge passes are not run.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.executorch.delegation import TheirPartitioner
from npu_assay.conformance.adapters.executorch.silence import quiet
from npu_assay.partitioners.exir.backend import Backend

SDK = "eiq_neutron_sdk"
TARGET = "imxrt700"
UNIT = {"subsystem": False, "numUnits": 1, "numPipes": 8, "numMacs": 8, "hwVersion": 2}
"""The SDK's parameters of i.MX RT700, as in the tables: a Neutron-C of the third version, 8 MACs in 8 pipes."""
STOOD_IN = f"stood in for: a module of npu-assay answers what the target {TARGET} is, nothing converts models"
FOURTH = (1, 4)


def _stand_in() -> ModuleType:
    """The part of the SDK that gives the parameters of a target; releases differ in the attributes that hold them."""
    target = SimpleNamespace(name=TARGET, npu=SimpleNamespace(**UNIT), **UNIT)
    sdk: Any = ModuleType(SDK)
    sdk.neutron_converter = SimpleNamespace(getNeutronTarget=lambda name: target)
    sdk.neutron_library_utils = SimpleNamespace(
        isNeutronTarget=lambda name: name == TARGET, getNeutronTargets=lambda: [target]
    )
    return sdk  # type: ignore[no-any-return]


def partitioner(**options: Any) -> Any:
    """NeutronPartitioner for the target; the options are those of its constructor."""
    with quiet():
        from executorch.backends.nxp.backend.neutron_target_spec import NeutronTargetSpec  # optional
        from executorch.backends.nxp.neutron_partitioner import NeutronPartitioner
        from executorch.backends.nxp.nxp_backend import generate_neutron_compile_spec

    return NeutronPartitioner(generate_neutron_compile_spec(TARGET), NeutronTargetSpec(TARGET), **options)


class _AsInTheirFlow:
    """Sets the metadata `val` of the output node, as programs of `to_edge` have it and this partitioner reads it.

    The partitioner seeds torch's random numbers with 42, to see whether operators do anything (docs/reports); the state
    is restored.
    """

    def __init__(self, theirs: Any) -> None:
        self.theirs = theirs

    def partition(self, program: ExportedProgram) -> Any:
        """The partitioner's answer."""
        (output,) = (node for node in program.graph.nodes if node.op == "output")
        output.meta["val"] = tuple(node.meta["val"] for node in output.all_input_nodes)
        try:
            with torch.random.fork_rng():
                return self.theirs.partition(program)
        finally:
            del output.meta["val"]


def backend(_: str) -> Backend:
    """The backend of this module."""
    real = SDK not in sys.modules and find_spec(SDK) is not None
    if not real:
        sys.modules[SDK] = _stand_in()
    partitioner()
    release = tuple(int(part) for part in version("executorch").split(".")[:2])
    return Backend(
        name="executorch:neutron",
        table="neutron@1.4" if release >= FOURTH else "neutron@1.3",
        partitioner=lambda **options: TheirPartitioner(_AsInTheirFlow(partitioner(**options))),
        distributions=("executorch", "torchao"),
        stands_in={} if real else {SDK: STOOD_IN},
        flow=f"{__package__}.nxp_flow:NeutronFlow",
    )
