"""IREE's CPU target as an engine."""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import Engine, beside, onnx_bytes

ENGINES = {
    "cpu": Engine(
        name="iree:cpu",
        table="iree_cpu@3.13",
        backend_id="IreeCpu",
        program=beside(__file__, "cpu.py:run"),
        refused="IREE must import and compile the model",
        distributions=("iree-base-compiler", "iree-base-runtime"),
        form=onnx_bytes,
        needs=(("iree.compiler", "iree-base-compiler"), ("iree.runtime", "iree-base-runtime")),
    )
}
