"""The simulator of RKNN Toolkit 2 as a device program: it compiles an ONNX model (opset 17) and runs it.

It needs the toolkit, with the packages that it needs itself (numpy and onnx among them), and nothing of the suite. Each
chip that is simulated is a function of that name.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from rknn.api import RKNN

Arrays = list[np.ndarray[Any, Any]]
Compiled = tuple[Any, int, list[np.dtype[Any]]]
"""The simulator of a model, how many inputs it has, and the dtypes of its outputs."""
KEPT = 2
"""The number of compiled models that are kept."""
OPTIMIZATION_LEVEL = 2
"""Level 3, the default, gives results codes of another scale, and says so; it says to use 2 for quantized models."""
LIMIT = 10.0
"""Seconds of processor time for a step of the toolkit; 0.3 are usual. Some of its loops end with the process alone."""
_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_LAYER = re.compile(r"\d+ +(?P<kind>\w+) +\w+ +(?P<target>CPU|GPU|NPU) .* \w+:(?P<name>\S*)")
_ENDS = ("InputOperator", "OutputOperator")

_models: OrderedDict[bytes, Compiled] = OrderedDict()


def _on(chip: str) -> Callable[[bytes, Arrays], Arrays]:
    """The function that runs a model on a simulated chip."""

    def run(model: bytes, inputs: Arrays) -> Arrays:
        return _outputs(chip, model, inputs)

    return run


rk3588, rk3576, rk3562, rv1106 = map(_on, ("rk3588", "rk3576", "rk3562", "rv1106"))


def _outputs(chip: str, model: bytes, inputs: Arrays) -> Arrays:
    """The outputs of a model; without inputs, for a model that has some, it is only compiled.

    Raises RuntimeError that says why the toolkit refuses the model, or what of it is placed on the CPU.
    """
    simulator, count, dtypes = _compiled(chip, model)
    if count and not inputs:
        return []
    given = [np.ascontiguousarray(array) for array in inputs]
    found, text = _quietly(lambda: simulator.inference(inputs=given, data_format=["nchw"] * len(given)))
    if found is None or len(found) != len(dtypes):
        raise RuntimeError(f"inference gave no results: {_reason(text)}")
    return [np.asarray(array).astype(dtype) for array, dtype in zip(found, dtypes, strict=True)]


def _compiled(chip: str, model: bytes) -> Compiled:
    """A model's simulator; those of the last models are kept."""
    if model not in _models:
        while len(_models) >= KEPT:
            _quietly(_models.popitem(last=False)[1][0].release)
        _models[model] = _built(chip, model)
    _models.move_to_end(model)
    return _models[model]


def _built(chip: str, model: bytes) -> Compiled:
    """Build a model. Raises RuntimeError if the toolkit refuses it or places some of it on the CPU."""
    graph = onnx.load_from_string(model).graph
    simulator, _ = _quietly(lambda: RKNN(verbose=True))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model)
        for step in (
            lambda: simulator.config(target_platform=chip, optimization_level=OPTIMIZATION_LEVEL),
            lambda: simulator.load_onnx(model=path),
            lambda: simulator.build(do_quantization=False),
        ):
            text = _done(step)
    elsewhere = _not_on_npu(text)
    if elsewhere:
        raise RuntimeError(f"not placed on the NPU: {', '.join(elsewhere)}")
    _done(simulator.init_runtime)
    dtypes = [onnx.helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type) for each in graph.output]
    return simulator, len(graph.input), dtypes


def _done(step: Callable[[], int]) -> str:
    """What a step of the toolkit printed. Raises RuntimeError with the last line of what it says if it fails.

    SIGPROF ends the process after `LIMIT`.
    """
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        code, text = _quietly(step)
    except Exception as error:  # noqa: BLE001  (the toolkit raises whatever its own code does, as text)
        raise RuntimeError((str(error).strip().splitlines() or [type(error).__name__])[-1][:300]) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if code != 0:
        raise RuntimeError(_reason(text))
    return text


def _not_on_npu(text: str) -> list[str]:
    """The layers that the toolkit places elsewhere, as "CPU: Exp", without what it puts at the ends itself.

    The NPU has tensors of four dimensions: inputs and outputs of others are reshaped by layers of the toolkit's own.
    """
    layers = [found for line in text.splitlines() if (found := _LAYER.search(line))]
    if not layers:
        raise RuntimeError("the toolkit lists no layers of the model that it built")
    elsewhere = (each for each in layers if each["target"] != "NPU" and each["kind"] not in _ENDS)
    return [f"{each['target']}: {each['kind']}" for each in elsewhere if not _is_added(each["kind"], each["name"])]


def _is_added(kind: str, name: str) -> bool:
    return kind == "Reshape" and re.search(r"[_-]rs\b", name) is not None


def _reason(text: str) -> str:
    """The first error that the toolkit printed, without times and places."""
    lines = [line for line in _COLORS.sub("", text).splitlines() if re.match(r"E |\w+Error|Exception", line)]
    return re.sub(r"^E (RKNN: )?(\[[\d:.]+\] )?", "", lines[0])[:300] if lines else "the toolkit gives no reason"


def _quietly(call: Callable[[], Any]) -> tuple[Any, str]:
    """The result of a call, and the text that it printed, also from code that is not Python."""
    with tempfile.TemporaryFile() as file, _redirected(file.fileno()):
        found = call()
        _flush()
        file.seek(0)
        return found, file.read().decode("utf-8", "replace")


def _flush() -> None:
    """Write what Python and C have buffered."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)


@contextmanager
def _redirected(to: int) -> Iterator[None]:
    """Standard output and errors go to a file for a while."""
    _flush()
    kept = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(to, number)
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
