"""A second float golden that shares no code with torch: `onnx.reference`, in float64.

Each ATen operator becomes the ONNX operator of the same meaning, with the arguments written out as ONNX
wants them. A difference between the two is a fault of the golden itself, never of a backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from npu_assay.reference.golden.aten import bound, canonical
from npu_assay.reference.onnx_node import (
    Array,
    Given,
    Node,
    Rule,
    adaptive_pool,
    array,
    avg_pool,
    evaluate,
    ints,
    max_pool,
    of_number,
    one_per_axis,
    reduced,
    through,
    widths,
)
from npu_assay.reference.operators.lookup import home

FORMS = "npu_assay.reference"
"""Where homes name forms from, as module:function."""
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
        "aten.max_pool2d.default": "MaxPool does not say what becomes of NaN; compared without any",
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


def run(op: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> tuple[Tensor, ...] | None:
    """An ATen operator by ONNX: float64 outputs, or None where ONNX has no such operator (see `WITHOUT`).

    Tensors in `args` are torch tensors. Raises GoldenError for arguments that the operator does not have.
    """
    name = canonical(op)
    rule = _RULES.get(name) or _of_home(name)
    if rule is None:
        return None
    node = rule(bound(name, args, kwargs or {}))
    return None if node is None else tuple(torch.from_numpy(_numbers(y)) for y in evaluate(node))


def _numbers(y: Array) -> Array:
    """Truths as 0 and 1, everything else as it is."""
    found = np.asarray(y)
    return found.astype(np.float64) if found.dtype == np.bool_ else found


def _of_home(name: str) -> Rule | None:
    """What an operator's home says: the ONNX operator of the same meaning, or a form made of several."""
    own = home(name)
    if own is None or not own.onnx:
        return None
    if ":" not in own.onnx:
        return lambda given: Node(own.onnx, [array(next(iter(given.values())))])
    form: Rule = own.loaded(own.onnx, FORMS)
    return form


def disagreement(
    op: str,
    args: Sequence[Any],
    outputs: Sequence[Tensor],
    kwargs: Given | None = None,
    open_: Sequence[Tensor] | None = None,
) -> str | None:
    """Where ONNX and these outputs differ by more than float64's noise; None when they agree or ONNX has none.

    NaN and infinities are the same in both, but where the golden leaves open what an element is (`open_`).

    args: float64 tensors and constants, as for `run`. outputs: what the float golden computed.
    """
    second = run(op, args, kwargs)
    for index, (y, other) in enumerate(zip(outputs, second or (), strict=False)):
        if y.shape != other.shape:
            return f"{op}: golden output {index} has shape {list(y.shape)}, onnx.reference {list(other.shape)}"
        compared = y.isfinite() & other.isfinite()
        unlike = ~compared & (y != other) & ~(y.isnan() & other.isnan())
        if open_ is not None:
            unlike &= ~open_[index]
        if bool(unlike.any()):
            at = int(unlike.flatten().to(torch.uint8).argmax())
            found, expected = float(y.flatten()[at]), float(other.flatten()[at])
            return f"{op}: golden output {index} is {found} at {at}, onnx.reference {expected}"
        distance, largest = torch.where(compared, y - other, 0.0).abs(), torch.where(compared, y, 0.0).abs()
        if y.numel() and bool(distance.max() > AGREEMENT * max(1.0, float(largest.max()))):
            at = int(distance.argmax())
            found, expected = float(y.flatten()[at]), float(other.flatten()[at])
            return f"{op}: golden output {index} is {found:.12g} at {at}, onnx.reference {expected:.12g}"
    return None


# ------------------------------------------------------------------------------------ arguments


def _self(given: Given) -> Array:
    return array(given["self"])


def _plain(kind: str, *names: str) -> Rule:
    """An operator whose inputs are the named arguments and which has no attributes."""
    return lambda given: Node(kind, [array(given[name]) for name in names or ("self",)])


# ------------------------------------------------------------------------------------ rules


def _addmm(given: Given) -> Node:
    inputs = [array(given[name]) for name in ("mat1", "mat2", "self")]
    return Node("Gemm", inputs, {"alpha": float(given["alpha"]), "beta": float(given["beta"])})


def _linear(given: Given) -> Node | None:
    """Gemm, which takes matrices only."""
    x, weight = array(given["input"]), array(given["weight"])
    bias = None if given["bias"] is None else array(given["bias"])
    return Node("Gemm", [x, weight, bias], {"transB": 1}) if x.ndim == 2 else None


def _convolution(given: Given) -> Node | None:
    x, weight = array(given["input"]), array(given["weight"])
    bias = None if given["bias"] is None else array(given["bias"])
    rank = x.ndim - 2
    padding = one_per_axis(given["padding"], rank)
    attributes = {
        "strides": one_per_axis(given["stride"], rank),
        "dilations": one_per_axis(given["dilation"], rank),
        "pads": [*padding, *padding],
        "group": given["groups"],
        "kernel_shape": list(weight.shape[2:]),
    }
    if not given.get("transposed"):
        return Node("Conv", [x, weight, bias], attributes)
    if given["groups"] != 1:
        return None
    return Node("ConvTranspose", [x, weight, bias], attributes | {"output_padding": list(given["output_padding"])})


def _clip(lower: str, upper: str) -> Rule:
    def rule(given: Given) -> Node:
        limits = [None if given[name] is None else np.asarray(float(given[name])) for name in (lower, upper)]
        return Node("Clip", [_self(given), *limits])

    return rule


def _relu6(given: Given) -> Node:
    return Node("Clip", [_self(given), np.asarray(0.0), np.asarray(6.0)])


def _prelu(given: Given) -> Node:
    """Slopes broadcast from the right in ONNX; in torch they lie along dim 1."""
    x, slope = _self(given), array(given["weight"])
    return Node("PRelu", [x, slope.reshape(-1, *[1] * (x.ndim - 2))])


def _cat(given: Given) -> Node:
    return Node("Concat", [array(x) for x in given["tensors"]], {"axis": given["dim"]})


def _pad(given: Given) -> Node | None:
    x, pad = _self(given), list(given["pad"])
    if min(pad, default=0) < 0:
        return None
    return Node("Pad", [x, ints(widths(pad, x.ndim)), np.asarray(float(given["value"]))])


def _slice(given: Given) -> Node:
    x = _self(given)
    start = 0 if given["start"] is None else given["start"]
    end = x.shape[given["dim"]] if given["end"] is None else given["end"]
    return Node("Slice", [x, *map(ints, ([start], [end], [given["dim"]], [given["step"]]))])


def _split(given: Given) -> Node:
    x, dim = _self(given), given["dim"]
    if "split_size" in given:
        each, extent = given["split_size"], x.shape[dim]
        sizes = [min(each, extent - start) for start in range(0, extent, each)]
    else:
        sizes = list(given["split_sizes"])
    return Node("Split", [x, ints(sizes)], {"axis": dim}, len(sizes))


def squeezed(given: Given) -> Node:
    """squeeze in all its forms. ONNX refuses to squeeze what is not 1; torch leaves it."""
    x = _self(given)
    asked = given.get("dim", list(range(x.ndim)))
    axes = [axis for axis in one_per_axis(asked, 1) if x.shape[axis] == 1]
    return Node("Squeeze", [x, ints(axes)]) if axes else Node("Identity", [x])


def _unsqueeze(given: Given) -> Node:
    return Node("Unsqueeze", [_self(given), ints([given["dim"]])])


def _reshape(name: str) -> Rule:
    return lambda given: Node("Reshape", [_self(given), ints(list(given[name]))], {"allowzero": 1})


def _permute(given: Given) -> Node:
    x = _self(given)
    return Node("Transpose", [x], {"perm": [axis % x.ndim for axis in given["dims"]]})


def _softmax(given: Given) -> Node:
    return Node("Softmax", [_self(given)], {"axis": given["dim"]})


def _leaky_relu(given: Given) -> Node:
    """The slope is an attribute, which ONNX keeps in float32; PRelu takes the same slope as a tensor."""
    return Node("PRelu", [_self(given), np.asarray(float(given["negative_slope"]))])


def _resize(attributes: Callable[[Given], dict[str, str]]) -> Rule:
    def rule(given: Given) -> Node:
        x, size, factors = array(given["input"]), given["output_size"], given["scale_factors"]
        if given.get("align_corners") and not size:  # which has no use for the factors themselves
            size = [int(n * f) for n, f in zip(x.shape[-2:], factors, strict=True)]
        if size:
            return Node("Resize", [x, None, None, ints([*x.shape[:2], *size])], attributes(given))
        return Node("Resize", [x, None, np.asarray([1.0, 1.0, *factors]), None], attributes(given))

    return rule


def _bilinear(given: Given) -> dict[str, str]:
    corners = "align_corners" if given["align_corners"] else "half_pixel"
    return {"mode": "linear", "coordinate_transformation_mode": corners}


def _nearest(given: Given) -> dict[str, str]:
    return {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def _elu(given: Given) -> Node | None:
    """alpha is an attribute, which ONNX keeps in float32, and there are no other scales."""
    alpha = float(given["alpha"])
    if float(np.float32(alpha)) != alpha or (given["scale"], given["input_scale"]) != (1, 1):
        return None
    return Node("Elu", [_self(given)], {"alpha": alpha})


def _gelu(given: Given) -> Node | None:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))."""
    if given["approximate"] != "tanh":
        return None
    x = _self(given)
    inner = through("Add", x, through("Mul", through("Pow", x, 3.0), 0.044715))
    bent = through("Tanh", through("Mul", inner, math.sqrt(2 / math.pi)))
    return Node("Mul", [through("Mul", x, 0.5), through("Add", bent, 1.0)])


def _hardswish(given: Given) -> Node:
    """x / 6 * clip(x + 3, 0, 6): HardSwish's own sixth is a float32 number."""
    x = _self(given)
    return Node("Mul", [through("Div", x, 6.0), through("Clip", through("Add", x, 3.0), 0.0, 6.0)])


def _pow(given: Given) -> Node:
    return Node("Pow", [_self(given), array(given["exponent"])])


def _rsqrt(given: Given) -> Node:
    """By way of the root: the power of -0 would be +inf, where IEEE 754's rSqrt is -inf."""
    return Node("Reciprocal", [through("Sqrt", _self(given))])


def _copy(given: Given) -> Node | None:
    """The same numbers; a conversion to another type rounds."""
    return None if given.get("dtype") not in (None, torch.float64) else Node("Identity", [_self(given)])


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
        "aten.add.Tensor": of_number("Add"),
        "aten.sub.Tensor": of_number("Sub"),
        "aten.mul.Tensor": _plain("Mul", "self", "other"),
        "aten.div.Tensor": _plain("Div", "self", "other"),
        "aten.mm.default": _plain("MatMul", "self", "mat2"),
        "aten.bmm.default": _plain("MatMul", "self", "mat2"),
        "aten.addmm.default": _addmm,
        "aten.linear.default": _linear,
        "aten.convolution.default": _convolution,
        "aten.conv1d.default": _convolution,
        "aten.conv2d.default": _convolution,
        "aten.avg_pool1d.default": avg_pool(1),
        "aten.avg_pool2d.default": avg_pool(2),
        "aten._adaptive_avg_pool2d.default": lambda given: adaptive_pool(given, 2),
        "aten.max_pool1d.default": max_pool(1),
        "aten.max_pool2d.default": max_pool(2),
        "aten.max_pool2d_with_indices.default": max_pool(2),
        "aten.mean.dim": reduced("ReduceMean"),
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
        "aten.squeeze.default": squeezed,
        "aten.squeeze.dim": squeezed,
        "aten.squeeze.dims": squeezed,
        "aten.unsqueeze.default": _unsqueeze,
        "aten.view_copy.default": _reshape("size"),
        "aten.reshape.default": _reshape("shape"),
    }
)
OPERATORS = frozenset(_RULES)
