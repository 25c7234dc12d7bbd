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
TYPES = {"tensor(uint8)": "uint8", "tensor(uint16)": "uint16"}
SIGNED = {"uint8": "int8", "uint16": "int16"}
"""The type in which codes of an unsigned type go in and come out: those are half a range lower."""
LOWEST = -32767  # codes of 16 bits are symmetric where they come from


def run(model: bytes, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of an ONNX model; without inputs for one that has some its session is made and nothing is run."""
    session = _session(model)
    wanted = session.get_inputs()
    if wanted and not inputs:
        return []
    feeds = {x.name: _turned(array, TYPES.get(x.type)) for x, array in zip(wanted, inputs, strict=True)}
    return [_turned(output, SIGNED.get(output.dtype.name)) for output in session.run(None, feeds)]


def versions() -> dict[str, str]:
    """The version of QNN, which the provider's package brings."""
    return {"QNN": str(onnxruntime_qnn.build_and_package_info.qnn_version)}


def _turned(array: Any, name: str | None) -> Any:
    """Codes in the type of the other sign, half a range higher or lower; as they are where they have this type."""
    if name is None or array.dtype.name == name:
        return array
    unsigned = array.view(f"uint{8 * array.itemsize}")
    codes = (unsigned ^ unsigned.dtype.type(1 << (8 * array.itemsize - 1))).view(name)
    return numpy.maximum(codes, numpy.int16(LOWEST)) if name == "int16" else codes


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
