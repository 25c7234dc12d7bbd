"""Operators of homes by ONNX: each is made of ONNX operators, computed in float64 by `onnx.reference`.

What is wrong in such a form and right in the golden, or the reverse, makes the two disagree. A form is None where ONNX
computes something else; where it has nothing at all, the home says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_assay.reference.onnx_node import (
    Array,
    Given,
    Node,
    Rule,
    adaptive_pool,
    array,
    avg_pool,
    axes_of,
    evaluate,
    ints,
    max_pool,
    of_number,
    reduced,
    through,
    widths,
)

plus, less, taken_from = of_number("Add"), of_number("Sub"), of_number("Sub", reverse=True)
times, over = of_number("Mul"), of_number("Div")


def hardshrink(given: Given) -> Node | None:
    """Shrink keeps its limit in float32."""
    limit = float(given["lambd"])
    return Node("Shrink", [array(given["self"])], {"lambd": limit, "bias": 0.0}) if _single(limit) else None


def softshrink(given: Given) -> Node | None:
    """The same, less the limit."""
    limit = float(given["lambd"])
    return Node("Shrink", [array(given["self"])], {"lambd": limit, "bias": limit}) if _single(limit) else None


def _single(number: float) -> bool:
    return float(np.float32(number)) == number


def log2(given: Given) -> Node:
    """The natural logarithm over that of 2."""
    return Node("Div", [through("Log", array(given["self"])), np.asarray(math.log(2.0))])


def logit(given: Given) -> Node:
    """log(x / (1 - x)), cut off."""
    x, eps = array(given["self"]), given["eps"]
    kept = x if eps is None else through("Clip", x, float(eps), 1.0 - float(eps))
    return Node("Log", [through("Div", kept, through("Sub", 1.0, kept))])


def softplus(given: Given) -> Node | None:
    """Softplus has no threshold: compared below it."""
    x, beta = array(given["self"]), float(given["beta"])
    if x.size and float((x * beta).max()) > float(given["threshold"]):
        return None
    return Node("Div", [through("Softplus", through("Mul", x, beta)), np.asarray(beta)])


def mish(given: Given) -> Node:
    """x * tanh(log(1 + exp(x)))."""
    x = array(given["self"])
    return Node("Mul", [x, through("Tanh", through("Softplus", x))])


def trunc(given: Given) -> Node:
    """The size rounded down, with its sign."""
    x = array(given["self"])
    return Node("Mul", [through("Sign", x), through("Floor", through("Abs", x))])


def fmod(given: Given) -> Node:
    """Mod as C has it."""
    return Node("Mod", [array(given["self"]), array(given["other"])], {"fmod": 1})


def power_of(given: Given) -> Node:
    """A number to the power of a tensor."""
    return Node("Pow", [array(given["self"]), array(given["exponent"])])


# ------------------------------------------------------------------------------------ moves


def pixel_shuffle(given: Given) -> Node | None:
    """DepthToSpace, which wants a batch."""
    x = array(given["self"])
    return Node("DepthToSpace", [x], {"blocksize": given["upscale_factor"], "mode": "CRD"}) if x.ndim == 4 else None


def padded(mode: str) -> Rule:
    """Pad by what the tensor holds. torch lists (before, after) from the last axis."""

    def rule(given: Given) -> Node:
        x, pad = array(given["self"]), list(given["padding"])
        return Node("Pad", [x, ints(widths(pad, x.ndim))], {"mode": mode})

    return rule


reflected, replicated = padded("reflect"), padded("edge")


def transposed(given: Given) -> Node:
    """Two axes in each other's place; of a matrix its only two, of a line none."""
    x = array(given["self"])
    axes = list(range(x.ndim))
    a, b = (given["dim0"] % x.ndim, given["dim1"] % x.ndim) if "dim0" in given else (0, x.ndim - 1)
    axes[a], axes[b] = axes[b], axes[a]
    return Node("Transpose", [x], {"perm": axes})


def triangle(upper: int) -> Rule:
    """Trilu."""
    return lambda given: Node("Trilu", [array(given["self"]), np.asarray(given["diagonal"])], {"upper": upper})


lower_triangle, upper_triangle = triangle(0), triangle(1)


def unflattened(given: Given) -> Node:
    """Reshape to one axis as several."""
    x, dim = array(given["self"]), given["dim"] % array(given["self"]).ndim
    return Node("Reshape", [x, ints([*x.shape[:dim], *given["sizes"], *x.shape[dim + 1 :]])])


def itself(given: Given) -> Node | None:
    """Dropout of a model in evaluation."""
    return None if given["train"] else Node("Identity", [array(given["input"])])


def stacked(given: Given) -> Node:
    """Concat of tensors with an axis more."""
    parts = [array(x) for x in given["tensors"]]
    dim = given["dim"] % (parts[0].ndim + 1)
    return Node("Concat", [np.expand_dims(part, dim) for part in parts], {"axis": dim})


_REDUCTIONS = {"sum": "add", "amax": "max", "amin": "min"}


def scattered(reduction: str = "none") -> Rule:
    """ScatterElements, with the numbers of a tensor or one number everywhere."""

    def rule(given: Given) -> Node | None:
        x, at = array(given["self"]), array(given["index"]).astype(np.int64)
        how = _REDUCTIONS.get(given["reduce"], "") if "reduce" in given else reduction
        if not how or not given.get("include_self", True):
            return None
        src = given["src"] if "src" in given else given["value"]
        put = array(src)
        put = np.full(at.shape, float(put)) if put.ndim == 0 else put[tuple(map(slice, at.shape))]
        return Node("ScatterElements", [x, at, put], {"axis": given["dim"], "reduction": how})

    return rule


placed, summed_in = scattered(), scattered("add")


# ------------------------------------------------------------------------------------ over axes


mean, total, product = reduced("ReduceMean"), reduced("ReduceSum"), reduced("ReduceProd")
largest, smallest = reduced("ReduceMax"), reduced("ReduceMin")


def norm(given: Given) -> Node | None:
    """The norms that ONNX has."""
    kind = {1.0: "ReduceL1", 2.0: "ReduceL2"}.get(float(given["ord"]))
    return None if kind is None else reduced(kind)(given)


def variance(given: Given) -> Node | None:
    """Squares of distances from the mean, over how many there are but for the correction."""
    x = array(given["self"])
    axes = axes_of(given, x.ndim)
    correction = given.get("correction", float(given.get("unbiased", True)))
    rest = math.prod(x.shape[axis] for axis in axes) - (1.0 if correction is None else float(correction))
    if rest <= 0:
        return None
    squares = through("ReduceSumSquare", _away(x, axes), ints(axes), keepdims=int(given["keepdim"]))
    return Node("Div", [squares, np.asarray(rest)])


def _away(x: Array, axes: Sequence[int]) -> Array:
    """How far numbers are from their mean."""
    return through("Sub", x, through("ReduceMean", x, ints(axes), keepdims=1))


def smallest_place(given: Given) -> Node | None:
    """ArgMin along an axis, of equal numbers the first."""
    if given["dim"] is None:
        return None
    return Node("ArgMin", [array(given["self"])], {"axis": given["dim"], "keepdims": int(given["keepdim"])})


def sorted_(given: Given) -> Node:
    """TopK of all of them."""
    x, dim = array(given["self"]), given["dim"]
    return Node("TopK", [x, ints([x.shape[dim]])], {"axis": dim, "largest": int(given["descending"])}, 2)


def topk(given: Given) -> Node:
    """TopK."""
    x, most = array(given["self"]), int(given["largest"])
    return Node("TopK", [x, ints([given["k"]])], {"axis": given["dim"], "largest": most}, 2)


def log_softmax(given: Given) -> Node:
    """LogSoftmax."""
    return Node("LogSoftmax", [array(given["self"])], {"axis": given["dim"]})


def distances(given: Given) -> Node | None:
    """Norms of the differences of all pairs of rows."""
    kind = {1.0: "ReduceL1", 2.0: "ReduceL2"}.get(float(given["p"]))
    if kind is None:
        return None
    a, b = np.expand_dims(array(given["x1"]), -2), np.expand_dims(array(given["x2"]), -3)
    return Node(kind, [through("Sub", a, b), ints([-1])], {"keepdims": 0})


def distances_within(given: Given) -> Node | None:
    """The same of one tensor's rows, each pair once."""
    x = given["self"]
    found = distances({"x1": x, "x2": x, "p": given["p"]})
    if found is None:
        return None
    rows = evaluate(found)[0]
    return Node("Identity", [rows[np.triu_indices(rows.shape[-1], 1)]])


# ------------------------------------------------------------------------------------ normalisations


def _normalised(x: Array, axes: Sequence[int], eps: float) -> Array:
    away = _away(x, axes)
    squares = through("ReduceMean", through("Mul", away, away), ints(axes), keepdims=1)
    return through("Div", away, through("Sqrt", through("Add", squares, eps)))


def _affine(x: Array, weight: Any, bias: Any, shape: Sequence[int]) -> Node:
    scaled = x if weight is None else through("Mul", x, array(weight).reshape(shape))
    return Node("Identity", [scaled]) if bias is None else Node("Add", [scaled, array(bias).reshape(shape)])


def _by_channel(x: Array) -> list[int]:
    return [-1, *[1] * (x.ndim - 2)]


def layer_norm(given: Given) -> Node:
    """Over the last axes."""
    x, shape = array(given["input"]), list(given["normalized_shape"])
    axes = list(range(x.ndim - len(shape), x.ndim))
    return _affine(_normalised(x, axes, given["eps"]), given["weight"], given["bias"], shape)


def group_norm(given: Given) -> Node:
    """Over each group of channels."""
    x = array(given["input"])
    parts = _normalised(x.reshape(given["N"], given["group"], -1), [2], given["eps"])
    return _affine(parts.reshape(x.shape), given["weight"], given["bias"], _by_channel(x))


def instance_norm(given: Given) -> Node:
    """Over each channel."""
    x = array(given["input"])
    axes = [axis for axis in range(x.ndim) if axis != 1]
    return _affine(_normalised(x, axes, given["eps"]), given["weight"], given["bias"], _by_channel(x))


def batch_norm(given: Given) -> Node:
    """By numbers that are given."""
    x = array(given["input"])
    shape = _by_channel(x)
    away = through("Sub", x, array(given["running_mean"]).reshape(shape))
    root = through("Sqrt", through("Add", array(given["running_var"]).reshape(shape), given["eps"]))
    return _affine(through("Div", away, root), given["weight"], given["bias"], shape)


def attention(given: Given) -> Node | None:
    """Softmax of products, times values."""
    if given["dropout_p"] or given["enable_gqa"]:
        return None
    q, k, v = (array(given[name]) for name in ("query", "key", "value"))
    scale = 1.0 / math.sqrt(q.shape[-1]) if given["scale"] is None else float(given["scale"])
    scores = through("Mul", through("MatMul", q, np.swapaxes(k, -1, -2)), scale)
    if given["attn_mask"] is not None:
        scores = through("Add", scores, array(given["attn_mask"]))
    if given["is_causal"]:
        later = np.triu(np.ones(scores.shape[-2:]), 1) > 0
        scores = np.where(later, -np.inf, scores)
    return Node("MatMul", [through("Softmax", scores, axis=-1), v])


# ------------------------------------------------------------------------------------ windows

avg_pool1d, avg_pool2d, avg_pool3d = avg_pool(1), avg_pool(2), avg_pool(3)
max_pool1d, max_pool2d, max_pool3d = max_pool(1), max_pool(2), max_pool(3)


def adaptive_avg_pool1d(given: Given) -> Node | None:
    """AveragePool where the size divides."""
    return adaptive_pool(given, 1)


def adaptive_avg_pool2d(given: Given) -> Node | None:
    """AveragePool where the size divides."""
    return adaptive_pool(given, 2)


def adaptive_avg_pool3d(given: Given) -> Node | None:
    """AveragePool where the size divides."""
    return adaptive_pool(given, 3)


def col2im(given: Given) -> Node:
    """Col2Im, which wants a batch."""
    x = array(given["self"])
    batch = x if x.ndim == 3 else x[None]
    padding = list(given["padding"])
    attributes = {"dilations": list(given["dilation"]), "strides": list(given["stride"]), "pads": [*padding, *padding]}
    made = through("Col2Im", batch, ints(given["output_size"]), ints(given["kernel_size"]), **attributes)
    return Node("Identity", [made if x.ndim == 3 else made[0]])
