"""IREE's CPU target: the part that is not common to all engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npu_assay.conformance.adapters.engine import Engine, kept, onnx_bytes

FLAGS = (
    "--iree-input-type=onnx",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)
DRIVER = "local-sync"
ENTRY = "case"


@kept
def _function(blob: bytes) -> Any:
    """The compiled model's entry function. Raises RuntimeError if it does not compile; what IREE prints says why."""
    import iree.runtime as runtime  # optional

    context = runtime.SystemContext(config=runtime.Config(DRIVER))
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, _compiled(blob)))
    return context.modules.module[ENTRY]


def _compiled(blob: bytes) -> bytes:
    from iree.compiler.api import Output, Session, Source  # optional

    session = Session()
    session.set_flags(*FLAGS)
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    source = Source.wrap_buffer(session, _imported(blob).encode() + b"\0")
    if not invocation.parse_source(source) or not invocation.execute():
        raise RuntimeError("iree-compile refuses the model")
    output = Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    return bytes(output.map_memory())


def _imported(blob: bytes) -> str:
    """The model in MLIR, as `iree-import-onnx` makes it."""
    import onnx  # optional
    from iree.compiler import ir
    from iree.compiler.extras import onnx_importer

    model = onnx.shape_inference.infer_shapes(onnx.load_from_string(blob), data_prop=True)
    information = onnx_importer.ModelInfo(model)
    module = information.create_module(context=ir.Context()).operation
    onnx_importer.NodeImporter.define_function(information.main_graph, module).import_all()
    return str(module)


def execute(blob: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of a model in this process; without inputs it is compiled and nothing is run."""
    import onnx  # optional

    function = _function(blob)
    if onnx.load_from_string(blob).graph.input and not inputs:
        return []
    found = function(*(x.numpy() for x in inputs))
    outputs = found if isinstance(found, (tuple, list)) else [found]
    return [torch.from_numpy(output.to_host().copy()) for output in outputs]


ENGINES = {
    "cpu": Engine(
        name="iree:cpu",
        table="iree_cpu@3.13",
        backend_id="IreeCpu",
        execute=f"{__name__}:execute",
        refused="IREE must import and compile the model",
        distributions=("iree-base-compiler", "iree-base-runtime"),
        form=onnx_bytes,
    )
}
