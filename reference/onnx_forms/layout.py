"""Operators that move numbers in ONNX."""

from __future__ import annotations

import math
from collections.abc import Sequence

from npu_assay.reference.onnx_forms.site import Form, Site, X, one_per_axis


def joined(s: Site[X]) -> X:
    return s.op("Concat", *(s.tensor(x) for x in s["tensors"]), axis=s["dim"])


def widths(pad: Sequence[int], rank: int) -> tuple[list[int], list[int]]:
    """The padding before each axis, and after it; torch lists (before, after) from the last axis."""
    none = [0] * (rank - len(pad) // 2)
    return [*none, *pad[-2::-2]], [*none, *pad[-1::-2]]


def padded(s: Site[X]) -> X:
    """Negative padding crops."""
    shape, x = s.shape(), s.x()
    befores, afters = widths(s["pad"], len(shape))
    if min(s["pad"], default=0) < 0:
        ends = [size - max(0, -after) for size, after in zip(shape, afters, strict=True)]
        x = s.op("Slice", x, s.ints([max(0, -before) for before in befores]), s.ints(ends), s.ints(range(len(shape))))
    return s.op("Pad", x, s.ints([max(0, size) for size in (*befores, *afters)]), s.number(s["value"]))


def sliced(s: Site[X]) -> X:
    start = 0 if s["start"] is None else s["start"]
    end = s.shape()[s["dim"]] if s["end"] is None else s["end"]
    return s.op("Slice", s.x(), *map(s.ints, ([start], [end], [s["dim"]], [s["step"]])))


def pieces(s: Site[X]) -> tuple[X, ...]:
    sizes = s["split_sizes"] if "split_sizes" in s.given else s["split_size"]
    if isinstance(sizes, int):
        extent = s.shape()[s["dim"]]
        sizes = [min(sizes, extent - start) for start in range(0, extent, sizes)]
    return s.many("Split", len(sizes), s.x(), s.ints(sizes), axis=s["dim"])


def squeezed(s: Site[X]) -> X:
    """squeeze in all its forms. ONNX refuses to squeeze what is not 1; torch leaves it."""
    shape = s.shape()
    asked = s.given.get("dim", list(range(len(shape))))
    axes = [axis for axis in one_per_axis(asked, 1) if shape and shape[axis] == 1]
    return s.op("Squeeze", s.x(), s.ints(axes)) if axes else s.op("Identity", s.x())


def unsqueeze(s: Site[X]) -> X:
    return s.op("Unsqueeze", s.x(), s.ints([s["dim"]]))


def _reshape(name: str) -> Form:
    def form(s: Site[X]) -> X:
        size = [int(n) for n in s[name]]
        rest = math.prod(s.shape()) // max(1, math.prod(n for n in size if n >= 0))
        return s.op("Reshape", s.x(), s.ints([rest if n < 0 else n for n in size]), allowzero=1)

    return form


view, reshape = _reshape("size"), _reshape("shape")


def permute(s: Site[X]) -> X:
    return s.op("Transpose", s.x(), perm=[axis % len(s.shape()) for axis in s["dims"]])


def copied(s: Site[X]) -> X:
    """The same numbers, of another type where one is named."""
    return s.converted(s.x())


def expanded(s: Site[X]) -> X:
    """Expand, which has no word for an axis as long as it is."""
    size, shape = s["size"], s.shape()
    known = [1] * (len(size) - len(shape)) + list(shape)
    return s.op("Expand", s.x(), s.ints([n if m < 0 else int(m) for n, m in zip(known, size, strict=True)]))
