"""IREE's CPU target as a device program: numpy, onnx and IREE, nothing of the suite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import iree.runtime as runtime
import onnx
from iree.compiler import ir
from iree.compiler.api import Output, Session, Source
from iree.compiler.extras import onnx_importer

FLAGS = (
    "--iree-input-type=onnx",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)
DRIVER = "local-sync"
ENTRY = "case"


@lru_cache(2)  # as many models as one case runs in turn
def _function(model: bytes) -> Any:
    """The compiled model's entry function. Raises RuntimeError if it does not compile; what IREE prints says why."""
    context = runtime.SystemContext(config=runtime.Config(DRIVER))
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, _compiled(model)))
    return context.modules.module[ENTRY]


def _compiled(model: bytes) -> bytes:
    session = Session()
    session.set_flags(*FLAGS)
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    source = Source.wrap_buffer(session, _imported(model).encode() + b"\0")
    if not invocation.parse_source(source) or not invocation.execute():
        raise RuntimeError("iree-compile refuses the model")
    output = Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    return bytes(output.map_memory())


def _imported(model: bytes) -> str:
    """The model in MLIR, as `iree-import-onnx` makes it."""
    inferred = onnx.shape_inference.infer_shapes(onnx.load_from_string(model), data_prop=True)
    information = onnx_importer.ModelInfo(inferred)
    module = information.create_module(context=ir.Context()).operation
    onnx_importer.NodeImporter.define_function(information.main_graph, module).import_all()
    return str(module)


def run(model: bytes, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a model; without inputs it is compiled and nothing is run."""
    function = _function(model)
    if onnx.load_from_string(model).graph.input and not inputs:
        return []
    found = function(*inputs)
    outputs = found if isinstance(found, (tuple, list)) else [found]
    return [output.to_host() for output in outputs]
