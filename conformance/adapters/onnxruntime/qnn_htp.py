"""Device program: Qualcomm's HTP emulator of QNN 2.51, driven by the plug-in provider onnxruntime-qnn.

It runs in an interpreter that has onnxruntime and onnxruntime-qnn, and nothing of the suite. A model is taken if every
node of it is placed on the provider: nothing may fall back to the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy
import onnxruntime
import onnxruntime_qnn

NAME = "QNNExecutionProvider"
TURNED = "npu_assay.half_a_range_higher"
"""The key of a model's metadata that names the inputs and outputs that are half a range higher than what is given."""
TYPES = {"int8": "uint8", "int16": "uint16", "uint8": "int8", "uint16": "int16"}
LOWEST = -32767  # codes of 16 bits are symmetric where they come from


def run(model: bytes, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of an ONNX model; without inputs for one that has some its session is made and nothing is run."""
    session = _session(model)
    wanted = session.get_inputs()
    if wanted and not inputs:
        return []
    turned = session.get_modelmeta().custom_metadata_map.get(TURNED, "").split()
    feeds = {x.name: _turned(array, x.name in turned) for x, array in zip(wanted, inputs, strict=True)}
    outputs = zip(session.get_outputs(), session.run(None, feeds), strict=True)
    return [_turned(array, x.name in turned) for x, array in outputs]


def versions() -> dict[str, str]:
    """The version of QNN, which the provider's package brings."""
    return {"QNN": str(onnxruntime_qnn.build_and_package_info.qnn_version)}


def _turned(array: Any, turned: bool) -> Any:
    """Codes in the type of the other sign, half a range higher or lower, which flips their first bit."""
    if not turned:
        return array
    name, bits = TYPES[array.dtype.name], 8 * array.itemsize
    codes = numpy.asarray(array.view(f"uint{bits}") ^ (1 << (bits - 1))).astype(f"uint{bits}").view(name)
    return numpy.maximum(codes, LOWEST) if name == "int16" else codes


@lru_cache(2)  # as many models as one case runs in turn
def _session(model: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(_devices(), {"backend_path": onnxruntime_qnn.get_qnn_htp_path()})
    return onnxruntime.InferenceSession(model, options)


@lru_cache
def _devices() -> list[Any]:
    """The devices of the provider, which is registered once."""
    onnxruntime.register_execution_provider_library(NAME, onnxruntime_qnn.get_library_path())
    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == NAME]
