"""Operators that move numbers, and attention, by ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from npu_assay.reference.onnx_forms.layout import widths
from npu_assay.reference.onnx_forms.site import Array, batched
from npu_assay.reference.onnx_node import Evaluated

Form = Callable[[Evaluated], Array]


def pixel_shuffle(s: Evaluated) -> Array:
    """DepthToSpace, which wants a batch."""
    if len(s.shape()) != 4:
        raise s.refuse("batch", "DepthToSpace wants a batch")
    return s.op("DepthToSpace", s.x(), blocksize=s["upscale_factor"], mode="CRD")


def _with(mode: str) -> Form:
    """Pad by what the tensor holds."""

    def form(s: Evaluated) -> Array:
        befores, afters = widths(s["padding"], len(s.shape()))
        return s.op("Pad", s.x(), s.ints([*befores, *afters]), mode=mode)

    return form


reflected, replicated = _with("reflect"), _with("edge")


def transposed(s: Evaluated) -> Array:
    """Two axes in each other's place; of a matrix its only two, of a line none."""
    axes = list(range(len(s.shape())))
    a, b = (s["dim0"], s["dim1"]) if "dim0" in s.given else (0, -1)
    axes[a], axes[b] = axes[b], axes[a]
    return s.op("Transpose", s.x(), perm=axes)


def _triangle(upper: int) -> Form:
    return lambda s: s.op("Trilu", s.x(), np.asarray(s["diagonal"]), upper=upper)


lower_triangle, upper_triangle = _triangle(0), _triangle(1)


def unflattened(s: Evaluated) -> Array:
    """Reshape to one axis as several."""
    shape, dim = s.shape(), s["dim"] % len(s.shape())
    return s.op("Reshape", s.x(), s.ints([*shape[:dim], *s["sizes"], *shape[dim + 1 :]]))


def itself(s: Evaluated) -> Array:
    """Dropout of a model in evaluation."""
    if s["train"]:
        raise s.refuse("train", "its numbers are random")
    return s.op("Identity", s.x("input"))


def stacked(s: Evaluated) -> Array:
    """Concat of tensors with an axis more."""
    return s.op("Concat", *(s.op("Unsqueeze", s.tensor(x), s.ints([s["dim"]])) for x in s["tensors"]), axis=s["dim"])


_REDUCTIONS = {"sum": "add", "amax": "max", "amin": "min"}


def scattered(reduction: str = "none") -> Form:
    """ScatterElements, with the numbers of a tensor or one number everywhere."""

    def form(s: Evaluated) -> Array:
        how = _REDUCTIONS.get(s["reduce"], "") if "reduce" in s.given else reduction
        if not how or not s.given.get("include_self", True):
            raise s.refuse("reduce", "ScatterElements has no such reduction")
        at, put = s.x("index").astype(np.int64), s.x("src" if "src" in s.given else "value")
        put = np.full(at.shape, put) if put.ndim == 0 else put[tuple(map(slice, at.shape))]
        return s.op("ScatterElements", s.x(), at, put, axis=s["dim"], reduction=how)

    return form


placed, summed_in = scattered(), scattered("add")


def col2im(s: Evaluated) -> Array:
    """Col2Im, which wants a batch."""
    pads = [*s["padding"], *s["padding"]]
    sides, attributes = (s["output_size"], s["kernel_size"]), {"dilations": s["dilation"], "strides": s["stride"]}
    return batched(s, 1, "self", lambda x: (s.op("Col2Im", x, *map(s.ints, sides), pads=pads, **attributes),))[0]


def attention(s: Evaluated) -> Array:
    """Softmax of products, times values."""
    if s["dropout_p"] or s["enable_gqa"]:
        raise s.refuse("attention", "is computed without dropout and groups")
    q, k, v = map(s.x, ("query", "key", "value"))
    scale = 1.0 / math.sqrt(q.shape[-1]) if s["scale"] is None else s["scale"]
    scores = s.op("Mul", s.op("MatMul", q, np.swapaxes(k, -1, -2)), s.number(scale))
    if s["attn_mask"] is not None:
        scores = s.op("Add", scores, s.x("attn_mask"))
    if s["is_causal"]:
        scores = np.where(np.triu(np.ones(scores.shape[-2:]), 1) > 0, -np.inf, scores)
    return s.op("MatMul", s.op("Softmax", scores, axis=-1), v)
