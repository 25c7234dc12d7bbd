"""npu-assay: measures whether an NPU backend does what its operator support table says.

`npu_assay.conformance` holds tables, cases, gates, certificates and the command, `npu_assay.reference` what the numbers
must be, `npu_assay.partitioners` the export API and four backends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npu_assay.conformance.explain import explain as explain

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`explain`, which is loaded when it is asked for: it needs torch, and the package does not."""
    if name == "explain":
        from npu_assay.conformance.explain import explain

        return explain
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
