"""A second float golden that shares no code with torch: `onnx.reference`, in float64.

Each ATen operator becomes the ONNX operator of the same meaning, with the arguments written out as ONNX
wants them. A difference between the two is a fault of the golden itself, never of a backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from onnx import helper
from onnx.reference.ops import load_op
from torch import Tensor

from npu_assay.reference.golden.aten import bound, canonical

Array = npt.NDArray[Any]
Given = Mapping[str, Any]

_OPSET = 21
LOOPED = 2**14
"""Elements of a pool's operand: `onnx.reference` loops over them in Python, 10 us for each."""
AGREEMENT = 2.0**-30
"""Two float64 computations of one operator: sums of 2**20 terms, each 2**-53 off, stay within it."""

WITHOUT: Mapping[str, str] = MappingProxyType(
    {
        "aten._adaptive_avg_pool2d.default": "ONNX has no adaptive pool; compared where the output size divides the "
        "input's, as AveragePool",
        "aten.avg_pool2d.default": "AveragePool has no divisor_override; compared without one",
        "aten.max_pool2d_with_indices.default": "MaxPool counts indices over the whole tensor; values are compared",
        "aten.max_pool1d.default": "onnx.reference fails on padding of one axis, so infinities are put there; compared "
        "where the size is not rounded up besides, and like all pools where the operand has up to LOOPED elements",
        "aten.convolution.default": "onnx.reference's ConvTranspose has no groups; compared with one",
        "aten.conv1d.default": "the same",
        "aten.conv2d.default": "the same",
        "aten.elu.default": "Elu keeps alpha in float32 and has no other scales; compared where that is no difference",
        "aten.gelu.default": "onnx.reference computes erf in float32; compared in the form with tanh",
        "dim_order_ops._to_dim_order_copy.default": "conversions to another type round; compared where there is none",
        "aten.constant_pad_nd.default": "onnx.reference's Pad does not crop; compared where no padding is negative",
    }
)
"""Rows that ONNX computes only in part, or not at all, and why."""


@dataclass(frozen=True)
class _Node:
    """One ONNX operator: its name, inputs in order (None is left out), attributes, how many outputs."""

    kind: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1


Rule = Callable[[Given], _Node | None]


def run(op: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> tuple[Tensor, ...] | None:
    """An ATen operator by ONNX: float64 outputs, or None where ONNX has no such operator (see `WITHOUT`).

    Tensors in `args` are torch tensors. Raises GoldenError for arguments that the operator does not have.
    """
    name = canonical(op)
    if name not in _RULES:
        return None
    node = _RULES[name](bound(name, args, kwargs or {}))
    return None if node is None else tuple(torch.from_numpy(np.asarray(y)) for y in _evaluate(node))


def disagreement(op: str, args: Sequence[Any], outputs: Sequence[Tensor], kwargs: Given | None = None) -> str | None:
    """Where ONNX and these outputs differ by more than float64's noise; None when they agree or ONNX has none.

    Numbers that are not finite in one of them are not compared: they say differently what a division by 0 is.

    args: float64 tensors and constants, as for `run`. outputs: what the float golden computed.
    """
    second = run(op, args, kwargs)
    for index, (y, other) in enumerate(zip(outputs, second or (), strict=False)):
        if y.shape != other.shape:
            return f"{op}: golden output {index} has shape {list(y.shape)}, onnx.reference {list(other.shape)}"
        compared = y.isfinite() & other.isfinite()
        distance, largest = torch.where(compared, y - other, 0.0).abs(), torch.where(compared, y, 0.0).abs()
        if y.numel() and bool(distance.max() > AGREEMENT * max(1.0, float(largest.max()))):
            at = int(distance.argmax())
            found, expected = float(y.flatten()[at]), float(other.flatten()[at])
            return f"{op}: golden output {index} is {found:.12g} at {at}, onnx.reference {expected:.12g}"
    return None


def _evaluate(node: _Node) -> list[Array]:
    """Runs one node; constants are inputs too. A model around it takes ten times as long."""
    names = [f"x{index}" if array is not None else "" for index, array in enumerate(node.inputs)]
    results = [f"y{index}" for index in range(node.outputs)]
    written = helper.make_node(node.kind, names, results, **node.attributes)
    settings = {"opsets": {"": _OPSET}, "log": _silent, "verbose": 0, "new_ops": None}
    operator = load_op("", node.kind, _OPSET)(written, settings)
    with np.errstate(all="ignore"):  # what is not finite is not compared
        return list(operator.run(*(None if array is None else np.asarray(array) for array in node.inputs)))


def _silent(*_: object) -> None:
    """Where an operator of `onnx.reference` would tell what it does."""


# ------------------------------------------------------------------------------------ arguments


def _array(x: Any) -> Array:
    return np.asarray(x.to(torch.float64) if isinstance(x, Tensor) else x, dtype=np.float64)


def _ints(numbers: Sequence[int]) -> Array:
    return np.asarray(numbers, dtype=np.int64)


def _list(numbers: int | Sequence[int], rank: int) -> list[int]:
    """One number per axis, from a number or a list of one or `rank`."""
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    return listed * rank if len(listed) == 1 else listed


def _self(given: Given) -> Array:
    return _array(given["self"])


def _plain(kind: str, *names: str) -> Rule:
    """An operator whose inputs are the named arguments and which has no attributes."""
    return lambda given: _Node(kind, [_array(given[name]) for name in names or ("self",)])


def _scaled(kind: str) -> Rule:
    """add, sub: the second operand times alpha."""
    return lambda given: _Node(kind, [_self(given), _array(given["other"]) * given["alpha"]])


# ------------------------------------------------------------------------------------ rules


def _addmm(given: Given) -> _Node:
    inputs = [_array(given[name]) for name in ("mat1", "mat2", "self")]
    return _Node("Gemm", inputs, {"alpha": float(given["alpha"]), "beta": float(given["beta"])})


def _linear(given: Given) -> _Node | None:
    """Gemm, which takes matrices only."""
    x, weight = _array(given["input"]), _array(given["weight"])
    bias = None if given["bias"] is None else _array(given["bias"])
    return _Node("Gemm", [x, weight, bias], {"transB": 1}) if x.ndim == 2 else None


def _convolution(given: Given) -> _Node | None:
    x, weight = _array(given["input"]), _array(given["weight"])
    bias = None if given["bias"] is None else _array(given["bias"])
    rank = x.ndim - 2
    padding = _list(given["padding"], rank)
    attributes = {
        "strides": _list(given["stride"], rank),
        "dilations": _list(given["dilation"], rank),
        "pads": [*padding, *padding],
        "group": given["groups"],
        "kernel_shape": list(weight.shape[2:]),
    }
    if not given.get("transposed"):
        return _Node("Conv", [x, weight, bias], attributes)
    if given["groups"] != 1:
        return None
    return _Node("ConvTranspose", [x, weight, bias], attributes | {"output_padding": list(given["output_padding"])})


def _window(given: Given, rank: int) -> dict[str, Any]:
    """The attributes that pools share; an empty stride is the kernel."""
    kernel, padding = _list(given["kernel_size"], rank), _list(given["padding"], rank)
    stride = _list(given["stride"], rank) if given["stride"] else kernel
    return {
        "kernel_shape": kernel,
        "strides": stride,
        "pads": [*padding, *padding],
        "ceil_mode": int(given["ceil_mode"]),
    }


def _avg_pool(rank: int) -> Rule:
    def rule(given: Given) -> _Node | None:
        if given.get("divisor_override") is not None:
            return None
        count = {"count_include_pad": int(given["count_include_pad"])}
        return _pool("AveragePool", _self(given), _window(given, rank) | count)

    return rule


def _max_pool(rank: int) -> Rule:
    def rule(given: Given) -> _Node | None:
        dilations = {"dilations": _list(given["dilation"], rank)}
        return _pool("MaxPool", _self(given), _window(given, rank) | dilations)

    return rule


def _pool(kind: str, x: Array, window: Mapping[str, Any]) -> _Node | None:
    """A pool over the last axes, of two at least, which is what `onnx.reference` has; ONNX wants a batch as well."""
    rank = len(window["kernel_shape"])
    if x.size > LOOPED:
        return None
    if kind == "MaxPool" and rank == 1 and any(window["pads"]):
        if window["ceil_mode"]:
            return None
        x = np.pad(x, [*[(0, 0)] * (x.ndim - 1), tuple(window["pads"])], constant_values=-np.inf)
        window = {**window, "pads": [0, 0]}
    axes = [0] * (x.ndim < rank + 2) + [2] * (rank == 1)
    if not axes:
        return _Node(kind, [x], window)
    fill = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 0}
    wide = {name: [fill[name], *value] if name in fill else value for name, value in window.items()}
    if rank == 1:
        before, after = window["pads"]
        window = wide | {"pads": [0, before, 0, after]}
    (pooled,) = _evaluate(_Node(kind, [np.expand_dims(x, tuple(axes))], window))
    return _Node("Squeeze", [pooled, _ints(axes)])


def _adaptive_avg_pool(given: Given) -> _Node | None:
    x, size = _self(given), _list(given["output_size"], 2)
    if any(n % m for n, m in zip(x.shape[-2:], size, strict=True)):
        return None
    kernel = [n // m for n, m in zip(x.shape[-2:], size, strict=True)]
    return _pool("AveragePool", x, {"kernel_shape": kernel, "strides": kernel})


def _mean(given: Given) -> _Node:
    x, dims = _self(given), given["dim"]
    axes = [dims] if isinstance(dims, int) else list(dims or range(x.ndim))
    return _Node("ReduceMean", [x, _ints(axes)], {"keepdims": int(given["keepdim"])})


def _clip(lower: str, upper: str) -> Rule:
    def rule(given: Given) -> _Node:
        limits = [None if given[name] is None else np.asarray(float(given[name])) for name in (lower, upper)]
        return _Node("Clip", [_self(given), *limits])

    return rule


def _relu6(given: Given) -> _Node:
    return _Node("Clip", [_self(given), np.asarray(0.0), np.asarray(6.0)])


def _prelu(given: Given) -> _Node:
    """Slopes broadcast from the right in ONNX; in torch they lie along dim 1."""
    x, slope = _self(given), _array(given["weight"])
    return _Node("PRelu", [x, slope.reshape(-1, *[1] * (x.ndim - 2))])


def _cat(given: Given) -> _Node:
    return _Node("Concat", [_array(x) for x in given["tensors"]], {"axis": given["dim"]})


def _pad(given: Given) -> _Node | None:
    """torch lists (before, after) from the last dim; ONNX all befores, then all afters, from the first."""
    x, pad = _self(given), list(given["pad"])
    if min(pad, default=0) < 0:
        return None
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[-2::-2], pad[-1::-2], strict=True))
    widths = [before for before, _ in pairs] + [after for _, after in pairs]
    return _Node("Pad", [x, _ints(widths), np.asarray(float(given["value"]))])


def _slice(given: Given) -> _Node:
    x = _self(given)
    start = 0 if given["start"] is None else given["start"]
    end = x.shape[given["dim"]] if given["end"] is None else given["end"]
    return _Node("Slice", [x, *map(_ints, ([start], [end], [given["dim"]], [given["step"]]))])


def _split(given: Given) -> _Node:
    x, dim = _self(given), given["dim"]
    if "split_size" in given:
        each, extent = given["split_size"], x.shape[dim]
        sizes = [min(each, extent - start) for start in range(0, extent, each)]
    else:
        sizes = list(given["split_sizes"])
    return _Node("Split", [x, _ints(sizes)], {"axis": dim}, len(sizes))


def _squeeze(given: Given) -> _Node:
    """ONNX refuses to squeeze what is not 1; torch leaves it."""
    x = _self(given)
    asked = given.get("dim", list(range(x.ndim)))
    axes = [axis for axis in _list(asked, 1) if x.shape[axis] == 1]
    return _Node("Squeeze", [x, _ints(axes)]) if axes else _Node("Identity", [x])


def _unsqueeze(given: Given) -> _Node:
    return _Node("Unsqueeze", [_self(given), _ints([given["dim"]])])


def _reshape(name: str) -> Rule:
    return lambda given: _Node("Reshape", [_self(given), _ints(list(given[name]))], {"allowzero": 1})


def _permute(given: Given) -> _Node:
    x = _self(given)
    return _Node("Transpose", [x], {"perm": [axis % x.ndim for axis in given["dims"]]})


def _softmax(given: Given) -> _Node:
    return _Node("Softmax", [_self(given)], {"axis": given["dim"]})


def _leaky_relu(given: Given) -> _Node:
    """The slope is an attribute, which ONNX keeps in float32; PRelu takes the same slope as a tensor."""
    return _Node("PRelu", [_self(given), np.asarray(float(given["negative_slope"]))])


def _resize(attributes: Callable[[Given], dict[str, str]]) -> Rule:
    def rule(given: Given) -> _Node:
        x, size, factors = _array(given["input"]), given["output_size"], given["scale_factors"]
        if given.get("align_corners") and not size:  # which has no use for the factors themselves
            size = [int(n * f) for n, f in zip(x.shape[-2:], factors, strict=True)]
        if size:
            return _Node("Resize", [x, None, None, _ints([*x.shape[:2], *size])], attributes(given))
        return _Node("Resize", [x, None, np.asarray([1.0, 1.0, *factors]), None], attributes(given))

    return rule


def _bilinear(given: Given) -> dict[str, str]:
    corners = "align_corners" if given["align_corners"] else "half_pixel"
    return {"mode": "linear", "coordinate_transformation_mode": corners}


def _nearest(given: Given) -> dict[str, str]:
    return {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def _elu(given: Given) -> _Node | None:
    """alpha is an attribute, which ONNX keeps in float32, and there are no other scales."""
    alpha = float(given["alpha"])
    if float(np.float32(alpha)) != alpha or (given["scale"], given["input_scale"]) != (1, 1):
        return None
    return _Node("Elu", [_self(given)], {"alpha": alpha})


def _through(kind: str, *inputs: Array | float) -> Array:
    """One result on the way to another."""
    (made,) = _evaluate(_Node(kind, [np.asarray(one, np.float64) for one in inputs]))
    return made


def _gelu(given: Given) -> _Node | None:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))."""
    if given["approximate"] != "tanh":
        return None
    x = _self(given)
    inner = _through("Add", x, _through("Mul", _through("Pow", x, 3.0), 0.044715))
    bent = _through("Tanh", _through("Mul", inner, math.sqrt(2 / math.pi)))
    return _Node("Mul", [_through("Mul", x, 0.5), _through("Add", bent, 1.0)])


def _hardswish(given: Given) -> _Node:
    """x / 6 * clip(x + 3, 0, 6): HardSwish's own sixth is a float32 number."""
    x = _self(given)
    return _Node("Mul", [_through("Div", x, 6.0), _through("Clip", _through("Add", x, 3.0), 0.0, 6.0)])


def _pow(given: Given) -> _Node:
    return _Node("Pow", [_self(given), _array(given["exponent"])])


def _rsqrt(given: Given) -> _Node:
    return _Node("Pow", [_self(given), _array(-0.5)])


def _copy(given: Given) -> _Node | None:
    """The same numbers; a conversion to another type rounds."""
    return None if given.get("dtype") not in (None, torch.float64) else _Node("Identity", [_self(given)])


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "aten.abs.default": _plain("Abs"),
        "aten.neg.default": _plain("Neg"),
        "aten.relu.default": _plain("Relu"),
        "aten.relu6.default": _relu6,
        "aten.sigmoid.default": _plain("Sigmoid"),
        "aten.tanh.default": _plain("Tanh"),
        "aten.hardtanh.default": _clip("min_val", "max_val"),
        "aten.clamp.default": _clip("min", "max"),
        "aten.ceil.default": _plain("Ceil"),
        "aten.cos.default": _plain("Cos"),
        "aten.elu.default": _elu,
        "aten.exp.default": _plain("Exp"),
        "aten.floor.default": _plain("Floor"),
        "aten.gelu.default": _gelu,
        "aten.hardswish.default": _hardswish,
        "aten.log.default": _plain("Log"),
        "aten.maximum.default": _plain("Max", "self", "other"),
        "aten.minimum.default": _plain("Min", "self", "other"),
        "aten.pow.Tensor_Scalar": _pow,
        "aten.rsqrt.default": _rsqrt,
        "aten.sin.default": _plain("Sin"),
        "aten.sqrt.default": _plain("Sqrt"),
        "aten.leaky_relu.default": _leaky_relu,
        "aten.prelu.default": _prelu,
        "aten._softmax.default": _softmax,
        "aten.add.Tensor": _scaled("Add"),
        "aten.sub.Tensor": _scaled("Sub"),
        "aten.mul.Tensor": _plain("Mul", "self", "other"),
        "aten.div.Tensor": _plain("Div", "self", "other"),
        "aten.mm.default": _plain("MatMul", "self", "mat2"),
        "aten.bmm.default": _plain("MatMul", "self", "mat2"),
        "aten.addmm.default": _addmm,
        "aten.linear.default": _linear,
        "aten.convolution.default": _convolution,
        "aten.conv1d.default": _convolution,
        "aten.conv2d.default": _convolution,
        "aten.avg_pool1d.default": _avg_pool(1),
        "aten.avg_pool2d.default": _avg_pool(2),
        "aten._adaptive_avg_pool2d.default": _adaptive_avg_pool,
        "aten.max_pool1d.default": _max_pool(1),
        "aten.max_pool2d.default": _max_pool(2),
        "aten.max_pool2d_with_indices.default": _max_pool(2),
        "aten.mean.dim": _mean,
        "aten.upsample_bilinear2d.vec": _resize(_bilinear),
        "aten.upsample_nearest2d.vec": _resize(_nearest),
        "aten.cat.default": _cat,
        "aten.constant_pad_nd.default": _pad,
        "aten.clone.default": _plain("Identity"),
        "dim_order_ops._clone_dim_order.default": _plain("Identity"),
        "dim_order_ops._to_dim_order_copy.default": _copy,
        "aten.permute_copy.default": _permute,
        "aten.slice_copy.Tensor": _slice,
        "aten.split.Tensor": _split,
        "aten.split.default": _split,
        "aten.split_with_sizes.default": _split,
        "aten.squeeze.default": _squeeze,
        "aten.squeeze.dim": _squeeze,
        "aten.squeeze.dims": _squeeze,
        "aten.unsqueeze.default": _unsqueeze,
        "aten.view_copy.default": _reshape("size"),
        "aten.reshape.default": _reshape("shape"),
    }
)
OPERATORS = frozenset(_RULES)
