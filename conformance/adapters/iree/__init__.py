"""IREE, where its compiler and its runtime are installed.

iree:cpu   the llvm-cpu target on the QDQ form of a case's whole model (`interchange.onnx_form`), run on `local-sync`.

Accepted means that the model has a form in ONNX, and that IREE imports and compiles it.
"""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import offered

__dir__, __getattr__ = offered(__name__, ("cpu",))
