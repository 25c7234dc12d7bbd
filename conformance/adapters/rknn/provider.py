"""The simulator of RKNN Toolkit 2 as an engine, one for each chip."""

from __future__ import annotations

from functools import partial

from npu_assay.conformance.adapters.engine import Engine, beside, onnx_bytes

OPSET = 17
"""Models of later ones are not read well: the toolkit's documents name 19 as the last."""
CHIPS = ("rk3588", "rk3576", "rk3562", "rv1106")


def _engine(chip: str) -> Engine:
    return Engine(
        name=f"rknn:{chip}",
        table="rknn@2.5",
        backend_id="Rknn",
        program=beside(__file__, f"device.py:{chip}"),
        refused="the toolkit must build the model, and place all of it on the NPU",
        distributions=("rknn-toolkit2", "onnx", "onnxruntime", "torch"),
        form=partial(onnx_bytes, opset=OPSET),
        needs=(("rknn", ""),),
    )


ENGINES = {chip: _engine(chip) for chip in CHIPS}
