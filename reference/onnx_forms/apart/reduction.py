"""Norms, orders and normalizations by ONNX."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from npu_assay.reference.onnx_forms.reduction import axes_of
from npu_assay.reference.onnx_forms.site import Array
from npu_assay.reference.onnx_node import Evaluated


def _norm(s: Evaluated, order: float) -> str:
    kind = {1.0: "ReduceL1", 2.0: "ReduceL2"}.get(float(order))
    if kind is None:
        raise s.refuse("norm", "ONNX has the first norm and the second")
    return kind


def norm(s: Evaluated) -> Array:
    """The norms that ONNX has."""
    return s.op(_norm(s, s["ord"]), s.x(), s.ints(axes_of(s)), keepdims=int(s["keepdim"]))


def variance(s: Evaluated) -> Array:
    """Squares of distances from the mean, over how many there are but for the correction."""
    x, axes = s.x(), axes_of(s)
    correction = s.given.get("correction", float(s.given.get("unbiased", True)))
    rest = math.prod(x.shape[axis] for axis in axes) - (1.0 if correction is None else float(correction))
    if rest <= 0:
        raise s.refuse("correction", "fewer numbers than the correction")
    squares = s.op("ReduceSumSquare", _away(s, x, axes), s.ints(axes), keepdims=int(s["keepdim"]))
    return s.op("Div", squares, s.number(rest))


def _away(s: Evaluated, x: Array, axes: Sequence[int]) -> Array:
    """How far numbers are from their mean."""
    return s.op("Sub", x, s.op("ReduceMean", x, s.ints(axes), keepdims=1))


def smallest_place(s: Evaluated) -> Array:
    """ArgMin along an axis, of equal numbers the first."""
    if s["dim"] is None:
        raise s.refuse("dim", "ArgMin wants an axis")
    return s.op("ArgMin", s.x(), axis=s["dim"], keepdims=int(s["keepdim"]))


def sorted_(s: Evaluated) -> tuple[Array, ...]:
    """TopK of all of them."""
    count = s.shape()[s["dim"]]
    return s.many("TopK", 2, s.x(), s.ints([count]), axis=s["dim"], largest=int(s["descending"]))


def topk(s: Evaluated) -> tuple[Array, ...]:
    return s.many("TopK", 2, s.x(), s.ints([s["k"]]), axis=s["dim"], largest=int(s["largest"]))


def _distances(s: Evaluated, a: Array, b: Array) -> Array:
    """Norms of the differences of all pairs of rows."""
    between = s.op("Sub", np.expand_dims(a, -2), np.expand_dims(b, -3))
    return s.op(_norm(s, s["p"]), between, s.ints([-1]), keepdims=0)


def distances(s: Evaluated) -> Array:
    return _distances(s, s.x("x1"), s.x("x2"))


def distances_within(s: Evaluated) -> Array:
    """The distances of one tensor's rows, each pair once."""
    rows = _distances(s, s.x(), s.x())
    return rows[np.triu_indices(rows.shape[-1], 1)]


def _normalized(s: Evaluated, x: Array, axes: Sequence[int]) -> Array:
    away = _away(s, x, axes)
    squares = s.op("ReduceMean", s.op("Mul", away, away), s.ints(axes), keepdims=1)
    return s.op("Div", away, s.op("Sqrt", s.op("Add", squares, s.number(s["eps"]))))


def _affine(s: Evaluated, x: Array, shape: Sequence[int]) -> Array:
    for kind, name in (("Mul", "weight"), ("Add", "bias")):
        x = x if s[name] is None else s.op(kind, x, s.x(name).reshape(shape))
    return x


def _by_channel(x: Array) -> list[int]:
    return [-1, *[1] * (x.ndim - 2)]


def layer_norm(s: Evaluated) -> Array:
    """Over the last axes."""
    x, shape = s.x("input"), list(s["normalized_shape"])
    return _affine(s, _normalized(s, x, range(x.ndim - len(shape), x.ndim)), shape)


def group_norm(s: Evaluated) -> Array:
    """Over each group of channels."""
    x = s.x("input")
    parts = _normalized(s, x.reshape(s["N"], s["group"], -1), [2])
    return _affine(s, parts.reshape(x.shape), _by_channel(x))


def instance_norm(s: Evaluated) -> Array:
    """Over each channel."""
    x = s.x("input")
    return _affine(s, _normalized(s, x, [axis for axis in range(x.ndim) if axis != 1]), _by_channel(x))


def batch_norm(s: Evaluated) -> Array:
    """By numbers that are given."""
    x = s.x("input")
    mean, variance = (s.x(name).reshape(_by_channel(x)) for name in ("running_mean", "running_var"))
    root = s.op("Sqrt", s.op("Add", variance, s.number(s["eps"])))
    return _affine(s, s.op("Div", s.op("Sub", x, mean), root), _by_channel(x))
