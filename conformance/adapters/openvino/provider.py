"""The CPU plugin of OpenVINO as an engine."""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import Engine, beside, onnx_bytes

ENGINES = {
    "cpu": Engine(
        name="openvino:cpu",
        table="openvino_cpu@2026.4",
        backend_id="OpenVinoCpu",
        program=beside(__file__, "cpu.py:run"),
        refused="OpenVINO must read and compile the model",
        distributions=("openvino",),
        form=onnx_bytes,
        needs=(("openvino", "openvino"),),
    )
}
