"""The CPU provider of ONNX Runtime as an engine."""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import Engine, beside, onnx_bytes

ENGINES = {
    "cpu": Engine(
        name="onnxruntime:cpu",
        table="onnxruntime_cpu@1.31",
        backend_id="OnnxRuntimeCpu",
        program=beside(__file__, "cpu.py:run"),
        refused="ONNX Runtime must make a session of the model",
        distributions=("onnxruntime",),
        form=onnx_bytes,
    )
}
