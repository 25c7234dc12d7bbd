"""The features that follow from all arguments of an application together.

- `given`: the names of the arguments that are given; `number`: the first argument that is a number.
- `operands`, `results`, `all_tensors`: every tensor that it takes, that it makes, and both.
- `bounds`: the two of a clamp. `gaps`: how many indices are left out.
- `padded`: the dimensions that a pad makes larger or smaller. `expanded`: those of the result that are larger
  than those of the first operand.
- `reduced`: the dimensions that a reduction takes away; `spans`: of each of them its size, and the products of the
  sizes before it and after it; `leading`: the sizes before `dim`.
- `turned`: whether a permutation or a copy brings the dimensions into another order; `reordered`: whether those of more
  than one element. `flat`: whether size and stride of a view are those of a tensor whose numbers lie next to each
  other.
- `planes_read`, `rows_read`, `columns_read`: of a convolution's input, how many its windows reach.
- `image_sizes`: of the first input and the result of a convolution or pool, all sizes but the batch's and, of several
  images, the largest product of two of their sizes.
- `piece_size`: of a pool with a dilation of rows, the numbers in a row of the input; of one with a dilation of columns,
  the pixels of all images in every n-th column, n being the dilation; 0 without dilation.
- `bias_error`: the largest relative difference between a bias's scales and input scale * weight scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from npu_assay.conformance.predicates.operands import Operand


class Applied(Protocol):
    """The application from which features are derived."""

    @property
    def op(self) -> str: ...
    @property
    def arguments(self) -> Mapping[str, Any]: ...
    @property
    def operands(self) -> tuple[Operand, ...]: ...
    @property
    def results(self) -> tuple[Operand, ...]: ...
    def window(self, kind: str, direction: str) -> int | None:
        """The kernel, stride, padding or dilation in one direction."""

    def from_the_front(self, found: Any) -> Any:
        """Negative dimensions as dimensions from the front."""


def _given(use: Applied) -> tuple[str, ...]:
    return tuple(name for name, found in use.arguments.items() if found is not None and found != ())


def _number(use: Applied) -> float | None:
    return next((found for found in use.arguments.values() if type(found) in (int, float)), None)


def _bounds(use: Applied) -> tuple[Any, Any] | None:
    low, high = ("min", "max") if "min" in use.arguments else ("min_val", "max_val")
    return (use.arguments[low], use.arguments[high]) if low in use.arguments else None


def _gaps(use: Applied) -> int:
    return sum(index is None for index in use.arguments.get("indices", ()))


def _padded(use: Applied) -> tuple[int, ...] | None:
    pads = use.arguments.get("pad")
    if pads is None:
        return None
    sides = enumerate(zip(pads[::2], pads[1::2], strict=True), 1)
    return tuple(sorted(use.operands[0].rank - place for place, ends in sides if ends != (0, 0)))


def _expanded(use: Applied) -> tuple[int, ...]:
    before, after = use.operands[0].shape, use.results[0].shape
    aligned = (*(1,) * (len(after) - len(before)), *before)
    return tuple(axis for axis, (size, was) in enumerate(zip(after, aligned, strict=False)) if size > was)


def _reduced(use: Applied) -> tuple[int, ...]:
    """The dimensions from the front and in order: all of them if the reduction names none."""
    found = use.arguments.get("dim")
    if found is None or found == ():
        return tuple(range(use.operands[0].rank))
    listed = use.from_the_front(found)
    return tuple(sorted(listed)) if isinstance(listed, tuple) else (listed,)


def _spans(use: Applied) -> tuple[int, ...] | None:
    shape = use.operands[0].shape
    if any(not 0 <= at < len(shape) for at in _reduced(use)):  # of a number alone
        return None
    parts = (((shape[at],), shape[:at], shape[at + 1 :]) for at in _reduced(use))
    return tuple(math.prod(part) for three in parts for part in three)


def _leading(use: Applied) -> tuple[int, ...] | None:
    found = use.arguments.get("dim")
    return use.operands[0].shape[: use.from_the_front(found)] if type(found) is int else None


def _turned(use: Applied) -> bool:
    order = use.from_the_front(use.arguments.get("dim_order") or use.arguments.get("dims") or ())
    return tuple(order) != tuple(range(len(order)))


def _reordered(use: Applied) -> bool:
    order, shape = use.from_the_front(use.arguments.get("dims") or ()), use.operands[0].shape
    kept = [dim for dim in order if shape[dim] != 1]
    return kept != sorted(kept)


def _flat(use: Applied) -> bool | None:
    size, stride = use.arguments.get("size"), use.arguments.get("stride")
    if not isinstance(size, tuple) or not isinstance(stride, tuple):
        return None
    whole = tuple(math.prod(size[at + 1 :]) for at in range(len(size)))
    return len(stride) == len(size) and all(n == 1 or a == b for n, a, b in zip(size, stride, whole, strict=True))


def _read(use: Applied, direction: str, axis: int) -> int | None:
    kernel, stride, padding, dilation = (
        use.window(kind, direction) for kind in ("kernel", "stride", "padding", "dilation")
    )
    if None in (kernel, stride, padding, dilation) or use.arguments.get("transposed", True):
        return None
    assert kernel is not None and stride is not None and padding is not None and dilation is not None
    size, count = use.operands[0].shape[axis], use.results[0].shape[axis]
    # Taps and places are progressions: the shorter one is walked, the longer one marked at once.
    places, taps = (count, stride), (kernel, dilation)
    few, many = sorted((places, taps))
    reached = bytearray(size)
    for turn in range(few[0]):
        first, step = turn * few[1] - padding, many[1]
        start = first if first >= 0 else first % step
        marks = range(start, min(size, first + (many[0] - 1) * step + 1), step)
        if marks:
            reached[marks.start : marks.stop : step] = b"\1" * len(marks)
    return sum(reached)


def _image_sizes(use: Applied) -> tuple[int, ...]:
    weight = use.arguments.get("weight")
    dims = weight.rank - 1 if isinstance(weight, Operand) else 3
    found: list[int] = []
    for shape in (use.operands[0].shape, use.results[0].shape):
        sizes, images = shape[-dims:], math.prod(shape[:-dims])
        found += [*sizes, math.prod(sorted((images, *sizes))[-2:])] if images > 1 else sizes
    return tuple(found)


def _piece_size(use: Applied) -> int | None:
    batch, channels = (1, *use.operands[0].shape)[-4:-2]
    kinds = [use.window(kind, each) for each in "hw" for kind in ("kernel", "stride", "dilation")]
    found = [number for number in kinds if number is not None]
    if len(found) < len(kinds):
        return None
    tall, down, gap, wide, along, step = found
    high, broad = use.results[0].shape[-2:]
    rows, columns = (high - 1) * down // gap + tall, (broad - 1) * along // step + wide
    return max(columns * step * channels if gap > 1 else 0, batch * rows * gap * columns if step > 1 else 0)


def _bias_error(use: Applied) -> float | None:
    """`bias_error`: None if one of the three has no scale; infinite if the numbers of scales and outputs differ."""
    names = ("mat1", "mat2", "self") if "mat1" in use.arguments else ("input", "weight", "bias")
    x, weight, bias = (found if isinstance(found := use.arguments.get(name), Operand) else None for name in names)
    if x is None or weight is None or bias is None or x.scale is None or not weight.scales or not bias.scales:
        return None
    count = max(len(weight.scales), len(bias.scales))
    if {len(weight.scales), len(bias.scales)} - {1, count}:
        return math.inf
    weights, biases = ((each.scales * count)[:count] for each in (weight, bias))
    return max(abs(b / (x.scale * w) - 1) for w, b in zip(weights, biases, strict=True))


DERIVED: Mapping[str, Callable[[Applied], Any]] = MappingProxyType(
    {
        "all_tensors": lambda use: (*use.operands, *use.results),
        "bias_error": _bias_error,
        "bounds": _bounds,
        "columns_read": lambda use: _read(use, "w", -1),
        "expanded": _expanded,
        "flat": _flat,
        "gaps": _gaps,
        "given": _given,
        "image_sizes": _image_sizes,
        "leading": _leading,
        "number": _number,
        "operands": lambda use: use.operands,
        "padded": _padded,
        "reduced": _reduced,
        "reordered": _reordered,
        "results": lambda use: use.results,
        "piece_size": _piece_size,
        "planes_read": lambda use: _read(use, "d", -3),
        "rows_read": lambda use: _read(use, "h", -2),
        "spans": _spans,
        "turned": _turned,
    }
)
"""The features, by the names that predicates call them."""
