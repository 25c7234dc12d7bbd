"""Sums, extremes, orders and normalizations by ONNX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_assay.reference.onnx_node import Array, Given, Node, array, axes_of, evaluate, ints, reduced, through

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


def distances(given: Given) -> Node | None:
    """Norms of the differences of all pairs of rows."""
    kind = {1.0: "ReduceL1", 2.0: "ReduceL2"}.get(float(given["p"]))
    if kind is None:
        return None
    a, b = np.expand_dims(array(given["x1"]), -2), np.expand_dims(array(given["x2"]), -3)
    return Node(kind, [through("Sub", a, b), ints([-1])], {"keepdims": 0})


def distances_within(given: Given) -> Node | None:
    """The distances of one tensor's rows, each pair once."""
    x = given["self"]
    found = distances({"x1": x, "x2": x, "p": given["p"]})
    if found is None:
        return None
    rows = evaluate(found)[0]
    return Node("Identity", [rows[np.triu_indices(rows.shape[-1], 1)]])


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


def cumsum(given: Given) -> Node:
    """CumSum, which wants a dimension."""
    x = array(given["self"])
    return Node("Reshape", [through("CumSum", np.atleast_1d(x), np.asarray(given["dim"])), ints(x.shape)])
