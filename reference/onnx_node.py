"""One ONNX operator, computed by `onnx.reference` in float64: what the second float golden is made of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from onnx import helper
from onnx.reference.ops import load_op
from torch import Tensor

Array = npt.NDArray[Any]
Given = Mapping[str, Any]  # arguments by their schema names

_OPSET = 21
LOOPED = 2**14
"""Elements of a pool's operand: `onnx.reference` loops over them in Python, 10 us for each."""


@dataclass(frozen=True)
class Node:
    """One ONNX operator: its name, inputs in order (None is left out), attributes, how many outputs."""

    kind: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1


Rule = Callable[[Given], Node | None]


def evaluate(node: Node) -> list[Array]:
    """Runs one node; constants are inputs too. A model around it takes ten times as long."""
    names = [f"x{index}" if array is not None else "" for index, array in enumerate(node.inputs)]
    results = [f"y{index}" for index in range(node.outputs)]
    written = helper.make_node(node.kind, names, results, **node.attributes)
    settings = {"opsets": {"": _OPSET}, "log": _silent, "verbose": 0, "new_ops": None}
    operator = load_op("", node.kind, _OPSET)(written, settings)
    with np.errstate(all="ignore"), warnings.catch_warnings():  # what is not finite is not compared
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's, of the mean of nothing
        return list(operator.run(*(None if array is None else np.asarray(array) for array in node.inputs)))


def _silent(*_: object) -> None:
    """Where an operator of `onnx.reference` would tell what it does."""


def array(x: Any) -> Array:
    return np.asarray(x.to(torch.float64) if isinstance(x, Tensor) else x, dtype=np.float64)


def ints(numbers: Sequence[int]) -> Array:
    return np.asarray(numbers, dtype=np.int64)


def one_per_axis(numbers: int | Sequence[int], rank: int) -> list[int]:
    """One number per axis, from a number or a list of one or `rank`."""
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    return listed * rank if len(listed) == 1 else listed


def window(given: Given, rank: int) -> dict[str, Any]:
    """The attributes that pools share; an empty stride is the kernel."""
    kernel, padding = one_per_axis(given["kernel_size"], rank), one_per_axis(given["padding"], rank)
    stride = one_per_axis(given["stride"], rank) if given["stride"] else kernel
    return {
        "kernel_shape": kernel,
        "strides": stride,
        "pads": [*padding, *padding],
        "ceil_mode": int(given["ceil_mode"]),
    }


def pool(kind: str, x: Array, window: Mapping[str, Any]) -> Node | None:
    """A pool over the last axes, of two at least, which is what `onnx.reference` has; ONNX wants a batch as well.

    ONNX does not say what becomes of NaN, which onnx.reference passes over.
    """
    rank = len(window["kernel_shape"])
    if x.size > LOOPED or np.isnan(x).any():
        return None
    rounds_up = bool(window.get("ceil_mode")) and max(window["strides"]) > 1
    if kind == "MaxPool" and any(window["pads"]) and not (rounds_up and rank == 2):
        # Only those are right in onnx.reference: others it swaps between the axes, or fails.
        if rounds_up:
            return None
        widths = list(zip(window["pads"][:rank], window["pads"][rank:], strict=True))
        x = np.pad(x, [*[(0, 0)] * (x.ndim - rank), *widths], constant_values=-np.inf)
        window = {**window, "pads": [0] * (2 * rank), "ceil_mode": 0}
    axes = [0] * (x.ndim < rank + 2) + [2] * (rank == 1)
    if not axes:
        return Node(kind, [x], window)
    fill = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 0}
    wide = {name: [fill[name], *value] if name in fill else value for name, value in window.items()}
    if rank == 1:
        before, after = window["pads"]
        window = wide | {"pads": [0, before, 0, after]}
    (pooled,) = evaluate(Node(kind, [np.expand_dims(x, tuple(axes))], window))
    return Node("Squeeze", [pooled, ints(axes)])


def adaptive_pool(given: Given, rank: int) -> Node | None:
    """AveragePool, where the result's size divides the operand's; nothing elsewhere."""
    x, size = array(given["self"]), one_per_axis(given["output_size"], rank)
    if any(n % m for n, m in zip(x.shape[-rank:], size, strict=True)):
        return None
    kernel = [n // m for n, m in zip(x.shape[-rank:], size, strict=True)]
    return pool("AveragePool", x, {"kernel_shape": kernel, "strides": kernel, "pads": [0] * (2 * rank)})


def through(kind: str, *inputs: Array | float, **attributes: Any) -> Array:
    """One result on the way to another; numbers are float64, whole ones stay."""
    given = [np.asarray(one, None if _is_whole(one) else np.float64) for one in inputs]
    return evaluate(Node(kind, given, attributes))[0]


def _is_whole(one: Array | float) -> bool:
    return isinstance(one, np.ndarray) and one.dtype == np.int64


# ------------------------------------------------------------------------------------ forms of many operators


def of_number(kind: str, *, reverse: bool = False) -> Rule:
    """A number and a tensor; `alpha` times the one that is taken off or added."""

    def rule(given: Given) -> Node:
        a, b, alpha = array(given["self"]), array(given["other"]), given.get("alpha", 1)
        return Node(kind, [b, a * alpha]) if reverse else Node(kind, [a, b * alpha])

    return rule


def axes_of(given: Given, rank: int) -> list[int]:
    """The axes that are named, all where none is."""
    dim = given.get("dim")
    listed = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return listed or list(range(rank))


def reduced(kind: str) -> Rule:
    """Over some axes, or all."""

    def rule(given: Given) -> Node:
        x = array(given["self"])
        return Node(kind, [x, ints(axes_of(given, x.ndim))], {"keepdims": int(given.get("keepdim", False))})

    return rule


def avg_pool(rank: int) -> Rule:
    """AveragePool, without a divisor of its own.

    onnx.reference gets windows wrong that end more than one element past the padding, as `ceil_mode` has them.
    """

    def rule(given: Given) -> Node | None:
        x, sides = array(given["self"]), window(given, rank)
        if given.get("divisor_override") is not None or (sides["ceil_mode"] and _behind(x, sides, rank) > 1):
            return None
        return pool("AveragePool", x, sides | {"count_include_pad": int(given["count_include_pad"])})

    return rule


def _behind(x: Array, window: Mapping[str, Any], rank: int) -> int:
    """How far past the padding windows end that begin before it, in elements, on the axis with the most."""
    axes = zip(x.shape[-rank:], window["kernel_shape"], window["strides"], window["pads"], strict=False)
    found = ((-(size + 2 * pad - kernel) % stride, kernel - pad) for size, kernel, stride, pad in axes)
    return max(behind if behind < within else 0 for behind, within in found)


def max_pool(rank: int) -> Rule:
    """MaxPool: the values."""

    def rule(given: Given) -> Node | None:
        dilations = {"dilations": one_per_axis(given["dilation"], rank)}
        return pool("MaxPool", array(given["self"]), window(given, rank) | dilations)

    return rule


def widths(pad: Sequence[int], rank: int) -> list[int]:
    """The padding before each axis, and after it; torch lists (before, after) from the last axis."""
    pairs = [(0, 0)] * (rank - len(pad) // 2) + list(zip(pad[-2::-2], pad[-1::-2], strict=True))
    return [before for before, _ in pairs] + [after for _, after in pairs]
