"""Operators that move numbers by ONNX."""

from __future__ import annotations

import numpy as np
import torch

from npu_assay.reference.onnx_node import Given, Node, Rule, array, ints, one_per_axis, widths


def pixel_shuffle(given: Given) -> Node | None:
    """DepthToSpace, which wants a batch."""
    x = array(given["self"])
    return Node("DepthToSpace", [x], {"blocksize": given["upscale_factor"], "mode": "CRD"}) if x.ndim == 4 else None


def _with(mode: str) -> Rule:
    """Pad by what the tensor holds. torch lists (before, after) from the last axis."""

    def rule(given: Given) -> Node:
        x, pad = array(given["self"]), list(given["padding"])
        return Node("Pad", [x, ints(widths(pad, x.ndim))], {"mode": mode})

    return rule


reflected, replicated = _with("reflect"), _with("edge")


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


def joined(given: Given) -> Node:
    return Node("Concat", [array(x) for x in given["tensors"]], {"axis": given["dim"]})


def padded(given: Given) -> Node | None:
    x, pad = array(given["self"]), list(given["pad"])
    if min(pad, default=0) < 0:
        return None
    return Node("Pad", [x, ints(widths(pad, x.ndim)), np.asarray(float(given["value"]))])


def sliced(given: Given) -> Node:
    x = array(given["self"])
    start = 0 if given["start"] is None else given["start"]
    end = x.shape[given["dim"]] if given["end"] is None else given["end"]
    return Node("Slice", [x, *map(ints, ([start], [end], [given["dim"]], [given["step"]]))])


def pieces(given: Given) -> Node:
    x, dim = array(given["self"]), given["dim"]
    if isinstance(given.get("split_size"), int):
        each, extent = given["split_size"], x.shape[dim]
        sizes = [min(each, extent - start) for start in range(0, extent, each)]
    else:
        sizes = list(given["split_sizes"] if "split_sizes" in given else given["split_size"])
    return Node("Split", [x, ints(sizes)], {"axis": dim}, len(sizes))


def squeezed(given: Given) -> Node:
    """squeeze in all its forms. ONNX refuses to squeeze what is not 1; torch leaves it."""
    x = array(given["self"])
    asked = given.get("dim", list(range(x.ndim)))
    axes = [axis for axis in one_per_axis(asked, 1) if x.shape[axis] == 1]
    return Node("Squeeze", [x, ints(axes)]) if axes else Node("Identity", [x])


def unsqueeze(given: Given) -> Node:
    return Node("Unsqueeze", [array(given["self"]), ints([given["dim"]])])


def _reshape(name: str) -> Rule:
    return lambda given: Node("Reshape", [array(given["self"]), ints(list(given[name]))], {"allowzero": 1})


view, reshape = _reshape("size"), _reshape("shape")


def permute(given: Given) -> Node:
    x = array(given["self"])
    return Node("Transpose", [x], {"perm": [axis % x.ndim for axis in given["dims"]]})


def copied(given: Given) -> Node | None:
    """The same numbers; a conversion to another type rounds."""
    return None if given.get("dtype") not in (None, torch.float64) else Node("Identity", [array(given["self"])])


def expanded(given: Given) -> Node:
    """Expand, which has no word for an axis as long as it is."""
    x, size = array(given["self"]), list(given["size"])
    known = [1] * (len(size) - x.ndim) + list(x.shape)
    return Node("Expand", [x, ints([n if m < 0 else m for n, m in zip(known, size, strict=True)])])
