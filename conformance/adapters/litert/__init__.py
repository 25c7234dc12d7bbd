"""LiteRT, where it is installed.

litert:reference   the built-in reference kernels on a case's whole model in TFLite (`interchange.tflite_form`).
litert:xnnpack     the interpreter with its defaults: the XNNPACK delegate, and optimized kernels for all else.

Accepted means that the model has an int8 form in TFLite and that LiteRT plans its memory.
"""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import offered

__dir__, __getattr__ = offered(__name__, ("reference", "xnnpack"))
