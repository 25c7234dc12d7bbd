"""LiteRT's kernels as engines."""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import Engine, beside
from npu_assay.conformance.interchange.tflite_form import tflite_model

ENGINES = {
    name: Engine(
        name=f"litert:{name}",
        table=f"litert_{name}@2.3",
        backend_id=backend_id,
        program=beside(__file__, f"kernels.py:{name}"),
        refused="LiteRT must plan the model's memory",
        distributions=("ai-edge-litert",),
        form=tflite_model,
        needs=(("ai_edge_litert", "ai-edge-litert"),),
        format="TFLite",
    )
    for name, backend_id in (("reference", "LiteRtReference"), ("xnnpack", "LiteRtXnnpack"))
}
