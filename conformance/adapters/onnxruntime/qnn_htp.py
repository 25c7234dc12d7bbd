"""Device program: Qualcomm's HTP emulator (QNN 2.51), driven by the plug-in provider onnxruntime-qnn.

Runs in an interpreter that has onnxruntime and onnxruntime-qnn and nothing of this project. Accepted means that every
node of the model is placed on the provider: nothing may fall back to the CPU.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import numpy

NAME = "QNNExecutionProvider"
KEPT = 2
"""The number of sessions that are kept: as many as one case runs alternately."""

TYPES = {"tensor(uint8)": "uint8", "tensor(uint16)": "uint16"}
SIGNED = {"uint8": "int8", "uint16": "int16"}
"""The type in which codes of an unsigned type go in and come out: those are half a range lower."""

_sessions: OrderedDict[bytes, Any] = OrderedDict()


def run(model: bytes, inputs: list[numpy.ndarray[Any, Any]]) -> list[numpy.ndarray[Any, Any]]:
    """Compute the outputs of an ONNX model; without inputs for one that has some, only make its session."""
    session = _session(model)
    wanted = session.get_inputs()
    if wanted and not inputs:
        return []
    feeds = {x.name: _turned(array, TYPES.get(x.type)) for x, array in zip(wanted, inputs, strict=True)}
    return [_turned(output, SIGNED.get(output.dtype.name)) for output in session.run(None, feeds)]


def versions() -> dict[str, str]:
    """The distributions that compute, and QNN's own version."""
    found = {name: version(name) for name in ("onnxruntime", "onnxruntime-qnn", "numpy")}
    return {**found, "QNN": _qnn().build_and_package_info.qnn_version}


def _turned(array: numpy.ndarray[Any, Any], name: str | None) -> numpy.ndarray[Any, Any]:
    """Codes in the type of the other sign, half a range higher or lower; as they are where they have this type."""
    if name is None or array.dtype.name == name:
        return numpy.array(array)
    half = 1 << (8 * array.itemsize - 1)
    unsigned = array.view(f"uint{8 * array.itemsize}")
    return (unsigned ^ unsigned.dtype.type(half)).view(name)


def _session(model: bytes) -> Any:
    """The session of a model, made once; the last ones are kept."""
    key = sha256(model).digest()
    if key not in _sessions:
        while len(_sessions) >= KEPT:
            _sessions.popitem(last=False)
        _sessions[key] = _made(model)
    _sessions.move_to_end(key)
    return _sessions[key]


def _made(model: bytes) -> Any:
    runtime, devices = _runtime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices, {"backend_path": _qnn().get_qnn_htp_path()})
    return runtime.InferenceSession(model, options)


@cache
def _runtime() -> tuple[Any, Any]:
    """ONNX Runtime with the provider registered, and the provider's devices."""
    runtime = _imported("onnxruntime", lambda: __import__("onnxruntime"))
    runtime.register_execution_provider_library(NAME, _qnn().get_library_path())
    return runtime, [device for device in runtime.get_ep_devices() if device.ep_name == NAME]


def _qnn() -> Any:
    return _imported("onnxruntime-qnn", lambda: __import__("onnxruntime_qnn"))


def _imported(distribution: str, load: Callable[[], Any]) -> Any:
    """A package of the stack; ModuleNotFoundError names the distribution to install."""
    try:
        return load()
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"the device needs {distribution}: {error}") from error
