"""An operator whose ONNX form is computed at once, by `onnx.reference` in float64: what the second golden is made of.

Where `onnx.reference` is wrong, or keeps numbers in float32, it is gone around here, or the operator is refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from onnx import helper
from onnx.reference.ops import load_op
from torch import Tensor

from npu_assay.reference.onnx_forms.site import Array, FormError, Site

_OPSET = 21
LOOPED = 2**14
"""Elements of a pool's operand: `onnx.reference` loops over them in Python, 10 us for each."""


@dataclass(frozen=True)
class Evaluated(Site[Array]):
    """An operator with float64 numbers; each ONNX operator is computed as soon as it is written."""

    given: Mapping[str, Any]

    def tensor(self, given: Any) -> Array:
        return np.asarray(given.to(torch.float64) if isinstance(given, Tensor) else given, dtype=np.float64)

    def operand(self, name: str) -> Array:
        return self.x(name)

    def converted(self, x: Array) -> Array:
        if self.given.get("dtype") not in (None, torch.float64):
            raise self.refuse("dtype", "a conversion to another type rounds")
        return self.op("Identity", x)

    def shape(self, name: str = "self") -> tuple[int, ...]:
        return tuple(self.given[name].shape)

    def many(self, kind: str, count: int, *inputs: Array | None, **attributes: Any) -> tuple[Array, ...]:
        _check(kind, inputs, attributes)
        if kind in ("AveragePool", "MaxPool"):
            return (_pool(kind, np.asarray(inputs[0]), attributes),)
        return _evaluate(kind, inputs, attributes, count)

    def constant(self, array: Array, hint: str = "constant") -> Array:
        return array

    def number(self, number: float, dtype: torch.dtype | None = None) -> Array:
        return np.asarray(number, np.int64 if dtype == torch.int64 else np.float64)

    def numbers(self, numbers: Sequence[float], hint: str) -> Array:
        return np.asarray(numbers, np.float64)

    def refuse(self, code: str, message: str) -> FormError:
        return FormError(code, message)


def _evaluate(
    kind: str, inputs: Sequence[Array | None], attributes: Mapping[str, Any], count: int = 1
) -> tuple[Array, ...]:
    """Runs one operator; constants are inputs too. A model around it takes ten times as long."""
    names = [f"x{index}" if array is not None else "" for index, array in enumerate(inputs)]
    written = helper.make_node(kind, names, [f"y{index}" for index in range(count)], **attributes)
    settings = {"opsets": {"": _OPSET}, "log": _silent, "verbose": 0, "new_ops": None}
    operator = load_op("", kind, _OPSET)(written, settings)
    with np.errstate(all="ignore"), warnings.catch_warnings():  # what is not finite is not compared
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's, of the mean of nothing
        return tuple(operator.run(*(None if array is None else np.asarray(array) for array in inputs)))


def _silent(*_: object) -> None:
    """Where an operator of `onnx.reference` would tell what it does."""


def _check(kind: str, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> None:
    """Raise FormError for what `onnx.reference` does not compute in float64."""
    with np.errstate(all="ignore"):
        if any(isinstance(number, float) and float(np.float32(number)) != number for number in attributes.values()):
            raise FormError("float32", f"{kind} keeps its constants in float32")
    spread = {*attributes.get("dilations", ())} - {1} and not np.isfinite(np.asarray(inputs[0])).all()
    if kind.startswith("Conv") and spread:
        raise FormError("zeros", "kernels are spread with zeros, which make NaN of infinities")
    if kind == "ConvTranspose" and attributes["group"] != 1:
        raise FormError("groups", "ConvTranspose has no groups")


# ------------------------------------------------------------------------------------ pools


def _pool(kind: str, x: Array, attributes: Mapping[str, Any]) -> Array:
    """A pool over the last axes. Raises FormError where `onnx.reference` is wrong, or slow.

    ONNX does not say what becomes of NaN, which onnx.reference passes over.
    """
    rank = len(attributes["kernel_shape"])
    window: dict[str, Any] = {"pads": [0] * (2 * rank), "ceil_mode": 0, **attributes}
    rounds_up = bool(window["ceil_mode"]) and max(window["strides"]) > 1
    # Windows that end more than one element past the padding, as `ceil_mode` has them, it gets wrong.
    beyond = kind == "AveragePool" and window["ceil_mode"] and _behind(x, window, rank) > 1
    # Of padding, only that of two axes is right where sizes are rounded up: other it swaps, or fails.
    swapped = kind == "MaxPool" and any(window["pads"]) and not (rounds_up and rank == 2)
    if x.size > LOOPED or np.isnan(x).any() or beyond or (swapped and rounds_up):
        raise FormError("pool", f"onnx.reference does not compute this {kind}")
    if swapped:
        widths = list(zip(window["pads"][:rank], window["pads"][rank:], strict=True))
        x = np.pad(x, [*[(0, 0)] * (x.ndim - rank), *widths], constant_values=-np.inf)
        window |= {"pads": [0] * (2 * rank), "ceil_mode": 0}
    if rank > 1:
        return _evaluate(kind, [x], window)[0]
    fill, (before, after) = {"kernel_shape": 1, "strides": 1, "dilations": 1}, window["pads"]
    wide = {name: [fill[name], *value] if name in fill else value for name, value in window.items()}
    return _evaluate(kind, [np.expand_dims(x, 2)], wide | {"pads": [0, before, 0, after]})[0].squeeze(2)


def _behind(x: Array, window: Mapping[str, Any], rank: int) -> int:
    """How far past the padding windows end that begin before it, in elements, on the axis with the most."""
    axes = zip(x.shape[-rank:], window["kernel_shape"], window["strides"], window["pads"], strict=False)
    found = ((-(size + 2 * pad - kernel) % stride, kernel - pad) for size, kernel, stride, pad in axes)
    return max(behind if behind < within else 0 for behind, within in found)
