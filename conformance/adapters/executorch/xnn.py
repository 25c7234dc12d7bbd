"""ExecuTorch's XNNPACK delegate: XnnpackPartitioner, XnnpackBackend and the real runtime.

A delegate's blob here is the `.pte` program that ExecuTorch writes around it: the delegate alone does not hold the
dtypes of its results, nor its weights.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from npu_assay.conformance.adapters.executorch.delegation import TheirPartitioner, compiler, warm_up
from npu_assay.conformance.adapters.executorch.silence import quiet
from npu_assay.conformance.common.memory import once
from npu_assay.conformance.devices.machine import Machine
from npu_assay.partitioners.exir.backend import Backend

with quiet():
    from executorch.backends.xnnpack.partition import config as configs
    from executorch.backends.xnnpack.partition.config.generic_node_configs import EluConfig
    from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
    from executorch.exir.lowered_backend_module import LoweredBackendModule
    from executorch.exir.passes import MemoryPlanningPass
    from executorch.exir.passes.sym_shape_eval_pass import HintBasedSymShapeEvalPass
    from executorch.exir.tensor import stride_from_dim_order

logging.getLogger("executorch").setLevel(logging.ERROR)

BACKEND_ID = "XnnpackBackend"
CONFIGS = {config.__name__: config for config in (*configs.ALL_PARTITIONER_CONFIGS, EluConfig)}


def partitioner(**options: Any) -> Any:
    """ExecuTorch's partitioner from plain data: configs and precisions by name, one or several."""
    given: dict[str, Any] = dict(options)
    names, asked = given.pop("configs", ()), given.pop("config_precisions", ())
    chosen = [CONFIGS[name] for name in ((names,) if isinstance(names, str) else names)]
    kinds = [ConfigPrecisionType[name] for name in ((asked,) if isinstance(asked, str) else asked)]
    made = XnnpackPartitioner(configs=chosen or None, config_precisions=kinds or None, **given)
    # It looks up the source of every caller, to warn of a deprecated one, which this is not.
    made._check_if_called_from_to_backend = lambda: False
    return made


def compiled(program: ExportedProgram, specs: list[Any]) -> bytes:
    """The `.pte` file of a program that only calls the delegate."""
    copied: Any = getattr(XnnpackBackend, "copy_exported_program_for_preprocess", None)  # since 1.5
    result = XnnpackBackend.preprocess(copied(program, specs) if copied else deepcopy(program), specs)
    module = LoweredBackendModule(program, BACKEND_ID, result.processed_bytes, specs, result.data_store_output)
    return bytes(module.buffer(memory_planning=_with_room))


ROOM = 4  # times the size of a case's input, above what later runs have where a size is dynamic


def _with_room(module: fx.GraphModule) -> Any:
    """Plan the memory of the program around a delegate, with room for the dynamic sizes of later runs."""
    specs = [spec for node in module.graph.nodes for spec in tree_leaves(node.meta.get("spec", ()))]
    dynamic = [(spec, [isinstance(size, torch.SymInt) for size in spec.shape]) for spec in specs if spec is not None]
    HintBasedSymShapeEvalPass()(module)
    for spec, among in dynamic:
        if any(among):
            spec.shape = [size * ROOM if grows else size for size, grows in zip(spec.shape, among, strict=True)]
            spec.stride = stride_from_dim_order(spec.shape, list(spec.dim_order))
    return MemoryPlanningPass()(module)


@once
def _runtime() -> Any:
    with quiet():
        from executorch.runtime import Runtime  # optional

        return Runtime.get()


def execute(program: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of the method forward of a `.pte` file, on ExecuTorch's runtime in this process."""
    loaded = _runtime().load_program(program)
    return [x.clone() for x in loaded.load_method("forward").execute(list(inputs))]


def device(program: bytes, inputs: Sequence[Any]) -> list[Any]:
    """The outputs likewise, of arrays and as arrays: a device program."""
    return [x.numpy() for x in execute(program, [*map(torch.from_numpy, inputs)])]


def backend(_: str) -> Backend:
    """The backend of this module."""
    warm_up(lambda program: compiled(program, []))
    return Backend(
        name="executorch:xnnpack",
        table="xnnpack@1.5",
        partitioner=lambda **options: TheirPartitioner(partitioner(**options)),
        details=compiler(BACKEND_ID, compiled),
        runtime=Machine(f"{__name__}:device"),
        distributions=("executorch", "torchao"),
        processes=1,
        flow=f"{__package__}.xnn_flow:XnnpackFlow",
    )
