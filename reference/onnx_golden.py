"""A second float golden that shares no code with torch: `onnx.reference`, in float64.

Each ATen operator becomes the ONNX operator of the same meaning, with the arguments written out as ONNX
wants them. A difference between the two is a fault of the golden itself, never of a backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
    array,
    evaluate,
    ints,
    one_per_axis,
    through,
    widths,
)
from npu_assay.reference.operators.home import loaded
from npu_assay.reference.operators.lookup import home

FORMS = "npu_assay.reference"
"""Where homes name forms from, as module:function."""
AGREEMENT = 2.0**-30
"""Two float64 computations of one operator: sums of 2**20 terms, each 2**-53 off, stay within it."""


def run(op: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> tuple[Tensor, ...] | None:
    """An ATen operator by ONNX: float64 outputs, or None where ONNX has no such operator.

    Tensors in `args` are torch tensors. Raises GoldenError for arguments that the operator does not have.
    """
    name = canonical(op)
    rule = _of_home(name)
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
    return _plain(own.onnx) if ":" not in own.onnx else loaded(own.onnx, FORMS)


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


# ------------------------------------------------------------------------------------ arguments


def _self(given: Given) -> Array:
    return array(given["self"])


def _plain(form: str) -> Rule:
    """An operator without attributes, of the arguments that are named behind it, or of the first."""
    kind, _, listed = form.removesuffix(")").partition("(")
    names = [name.strip() for name in listed.split(",") if name]
    return lambda given: Node(kind, [array(given[name]) for name in names or list(given)[:1]])


# ------------------------------------------------------------------------------------ rules


def addmm(given: Given) -> Node:
    inputs = [array(given[name]) for name in ("mat1", "mat2", "self")]
    return Node("Gemm", inputs, {"alpha": float(given["alpha"]), "beta": float(given["beta"])})


def linear(given: Given) -> Node | None:
    """Gemm, which takes matrices only."""
    x, weight = array(given["input"]), array(given["weight"])
    bias = None if given["bias"] is None else array(given["bias"])
    return Node("Gemm", [x, weight, bias], {"transB": 1}) if x.ndim == 2 else None


def convolution(given: Given) -> Node | None:
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


hardtanh, clamp = _clip("min_val", "max_val"), _clip("min", "max")


def relu6(given: Given) -> Node:
    return Node("Clip", [_self(given), np.asarray(0.0), np.asarray(6.0)])


def prelu(given: Given) -> Node:
    """Slopes broadcast from the right in ONNX; in torch they lie along dim 1."""
    x, slope = _self(given), array(given["weight"])
    return Node("PRelu", [x, slope.reshape(-1, *[1] * (x.ndim - 2))])


def joined(given: Given) -> Node:
    return Node("Concat", [array(x) for x in given["tensors"]], {"axis": given["dim"]})


def padded(given: Given) -> Node | None:
    x, pad = _self(given), list(given["pad"])
    if min(pad, default=0) < 0:
        return None
    return Node("Pad", [x, ints(widths(pad, x.ndim)), np.asarray(float(given["value"]))])


def sliced(given: Given) -> Node:
    x = _self(given)
    start = 0 if given["start"] is None else given["start"]
    end = x.shape[given["dim"]] if given["end"] is None else given["end"]
    return Node("Slice", [x, *map(ints, ([start], [end], [given["dim"]], [given["step"]]))])


def pieces(given: Given) -> Node:
    x, dim = _self(given), given["dim"]
    if isinstance(given.get("split_size"), int):
        each, extent = given["split_size"], x.shape[dim]
        sizes = [min(each, extent - start) for start in range(0, extent, each)]
    else:
        sizes = list(given["split_sizes"] if "split_sizes" in given else given["split_size"])
    return Node("Split", [x, ints(sizes)], {"axis": dim}, len(sizes))


def squeezed(given: Given) -> Node:
    """squeeze in all its forms. ONNX refuses to squeeze what is not 1; torch leaves it."""
    x = _self(given)
    asked = given.get("dim", list(range(x.ndim)))
    axes = [axis for axis in one_per_axis(asked, 1) if x.shape[axis] == 1]
    return Node("Squeeze", [x, ints(axes)]) if axes else Node("Identity", [x])


def unsqueeze(given: Given) -> Node:
    return Node("Unsqueeze", [_self(given), ints([given["dim"]])])


def _reshape(name: str) -> Rule:
    return lambda given: Node("Reshape", [_self(given), ints(list(given[name]))], {"allowzero": 1})


view, reshape = _reshape("size"), _reshape("shape")


def permute(given: Given) -> Node:
    x = _self(given)
    return Node("Transpose", [x], {"perm": [axis % x.ndim for axis in given["dims"]]})


def softmax(given: Given) -> Node:
    return Node("Softmax", [_self(given)], {"axis": given["dim"]})


def leaky_relu(given: Given) -> Node:
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


bilinear, nearest = _resize(_bilinear), _resize(_nearest)


def elu(given: Given) -> Node | None:
    """alpha is an attribute, which ONNX keeps in float32, and there are no other scales."""
    alpha = float(given["alpha"])
    if float(np.float32(alpha)) != alpha or (given["scale"], given["input_scale"]) != (1, 1):
        return None
    return Node("Elu", [_self(given)], {"alpha": alpha})


def gelu(given: Given) -> Node | None:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))."""
    if given["approximate"] != "tanh":
        return None
    x = _self(given)
    inner = through("Add", x, through("Mul", through("Pow", x, 3.0), 0.044715))
    bent = through("Tanh", through("Mul", inner, math.sqrt(2 / math.pi)))
    return Node("Mul", [through("Mul", x, 0.5), through("Add", bent, 1.0)])


def hardswish(given: Given) -> Node:
    """x / 6 * clip(x + 3, 0, 6): HardSwish's own sixth is a float32 number."""
    x = _self(given)
    return Node("Mul", [through("Div", x, 6.0), through("Clip", through("Add", x, 3.0), 0.0, 6.0)])


def _pow(given: Given) -> Node:
    return Node("Pow", [_self(given), array(given["exponent"])])


def rsqrt(given: Given) -> Node:
    return Node("Pow", [_self(given), array(-0.5)])


def copied(given: Given) -> Node | None:
    """The same numbers; a conversion to another type rounds."""
    return None if given.get("dtype") not in (None, torch.float64) else Node("Identity", [_self(given)])


def silu(given: Given) -> Node:
    """x * sigmoid(x)."""
    x = _self(given)
    return Node("Mul", [x, through("Sigmoid", x)])


def log10(given: Given) -> Node:
    """The natural logarithm over that of 10."""
    return Node("Div", [through("Log", _self(given)), np.asarray(math.log(10.0))])


def cumsum(given: Given) -> Node:
    """CumSum."""
    return Node("CumSum", [_self(given), np.asarray(given["dim"])])


def expanded(given: Given) -> Node:
    """Expand, which has no word for an axis as long as it is."""
    x, size = _self(given), list(given["size"])
    known = [1] * (len(size) - x.ndim) + list(x.shape)
    return Node("Expand", [x, ints([n if m < 0 else m for n, m in zip(known, size, strict=True)])])
