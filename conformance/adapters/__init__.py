"""Backends of other projects, by the names of an adapter and of its backend: `executorch:xnnpack`."""

from __future__ import annotations

ADAPTERS = {
    "executorch": "npu_assay.conformance.adapters.executorch",
    "iree": "npu_assay.conformance.adapters.iree",
    "litert": "npu_assay.conformance.adapters.litert",
    "onnxruntime": "npu_assay.conformance.adapters.onnxruntime",
    "openvino": "npu_assay.conformance.adapters.openvino",
    "rknn": "npu_assay.conformance.adapters.rknn",
}
"""The module of each adapter. Its attributes are the backends; a - in their names becomes _."""


def adapted(spec: str) -> str | None:
    """`module:attribute` of an adapter's backend, None for any other spec."""
    adapter, _, name = spec.partition(":")
    return f"{ADAPTERS[adapter]}:{name.replace('-', '_')}" if adapter in ADAPTERS else None
