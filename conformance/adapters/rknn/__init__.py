"""Rockchip's RKNN Toolkit 2, where a Python that has it is named: its simulator of a chip.

rknn:rk3588   the simulator of RK3588 on the QDQ form of a case's whole model (`interchange.onnx_form`, opset 17).

Accepted means that the model has a form in ONNX, that the toolkit builds it, and that all of it is placed on the NPU.
"""

from __future__ import annotations

from npu_assay.conformance.adapters.engine import offered

__dir__, __getattr__ = offered(__name__, ("rk3588",))
