"""Operators that move or pick elements, and reductions."""

from __future__ import annotations

from math import prod
from typing import Final

from npu_assay.partitioners.ethosu.tosa_rules.elementwise import Rule
from npu_assay.partitioners.ethosu.tosa_rules.use import DATA, RANK_LIMIT, Result, Use

LIST_LIMIT: Final = 64
"""Operands of one CONCAT."""


def _some_axes(use: Use) -> tuple[int, ...]:
    shape = use.x.shape
    use.require(len(shape) > 0, "rank", 0, "at least 1")
    return shape


def concat(use: Use, _: str) -> Result:
    dtype, axis, shapes = use.types(*DATA), use.axis(), [tensor.shape for tensor in use.tensors]
    use.within("number of operands", len(shapes), 1, LIST_LIMIT)
    rests = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    holds = len(rests) == 1 and len({len(shape) for shape in shapes}) == 1
    use.require(holds, "shapes", [list(shape) for shape in shapes], f"equal but for axis {axis}")
    return dtype, (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])


def pad(use: Use, _: str) -> Result:
    dtype, shape, padding = use.same_type(use.tensors, DATA), _some_axes(use), use.shape(1)
    use.constant(2, dtype, (1,))
    holds = len(padding) == 2 * len(shape) and min(padding) >= 0
    use.require(holds, "padding", padding, f"{2 * len(shape)} numbers from 0")
    return dtype, tuple(n + before + after for n, before, after in zip(shape, padding[::2], padding[1::2], strict=True))


def reshape(use: Use, _: str) -> Result:
    dtype, shape = use.same_type(use.tensors, DATA), use.shape(1)
    holds = len(shape) <= RANK_LIMIT and prod(shape) == prod(use.x.shape)
    use.require(holds, "shape", list(shape), f"{prod(use.x.shape)} elements in at most {RANK_LIMIT} axes")
    return dtype, shape


def reverse(use: Use, _: str) -> Result:
    use.axis()
    return use.types(*DATA), use.x.shape


def slice_(use: Use, _: str) -> Result:
    dtype, shape, start, size = use.same_type(use.tensors, DATA), _some_axes(use), use.shape(1), use.shape(2)
    holds = len(start) == len(size) == len(shape) and all(
        0 <= begin < begin + count <= n for begin, count, n in zip(start, size, shape, strict=True)
    )
    use.require(holds, "start and size", [list(start), list(size)], f"within {list(shape)}")
    return dtype, size


def tile(use: Use, _: str) -> Result:
    dtype, shape, multiples = use.same_type(use.tensors, DATA), _some_axes(use), use.shape(1)
    holds = len(multiples) == len(shape) and min(multiples) >= 1
    use.require(holds, "multiples", list(multiples), f"{len(shape)} numbers from 1")
    return dtype, tuple(n * times for n, times in zip(shape, multiples, strict=True))


def transpose(use: Use, _: str) -> Result:
    dtype, shape, perms = use.types(*DATA), _some_axes(use), use.attribute("perms")
    use.require(sorted(perms) == list(range(len(shape))), "perms", perms, f"of {len(shape)} axes")
    return dtype, tuple(shape[axis] for axis in perms)


def gather(use: Use, _: str) -> Result:
    values, indices = use.tensors
    _check_indices(use, 1)
    batch, channels = values.shape[0], values.shape[2]
    use.require(indices.shape[0] == batch, "batch of the indices", indices.shape[0], str(batch))
    return use.same_type([values], DATA), (batch, indices.shape[1], channels)


def scatter(use: Use, _: str) -> Result:
    values, indices, source = use.tensors
    _check_indices(use, 1)
    batch, count, channels = values.shape
    use.require(indices.shape[0] == batch, "batch of the indices", indices.shape[0], str(batch))
    use.require(indices.shape[1] <= count, "number of indices", indices.shape[1], f"at most {count}")
    expected = (batch, indices.shape[1], channels)
    use.require(source.shape == expected, "shape of the input", list(source.shape), str(list(expected)))
    return use.same_type([values, source], DATA), values.shape


def _check_indices(use: Use, position: int) -> None:
    indices = use.tensors[position]
    use.rank(use.x, 3)
    use.rank(indices, 2)
    use.require(indices.dtype == "INT32", "type of the indices", indices.dtype, "INT32")


def reduction(*allowed: str) -> Rule:
    """The axis stays, with size 1."""

    def rule(use: Use, _: str) -> Result:
        axis, shape = use.axis(), use.x.shape
        return use.types(*allowed), (*shape[:axis], 1, *shape[axis + 1 :])

    return rule


def argmax(use: Use, _: str) -> Result:
    use.types("INT8", "INT16")
    axis, shape = use.axis(), use.x.shape
    return "INT32", (*shape[:axis], *shape[axis + 1 :])


RULES: Final[dict[str, Rule]] = {
    "ARGMAX": argmax,
    "CONCAT": concat,
    "GATHER": gather,
    "PAD": pad,
    "REDUCE_ALL": reduction("BOOL"),
    "REDUCE_ANY": reduction("BOOL"),
    "REDUCE_MAX": reduction("INT8", "INT16", "INT32"),
    "REDUCE_MIN": reduction("INT8", "INT16", "INT32"),
    "REDUCE_SUM": reduction("INT32"),
    "RESHAPE": reshape,
    "REVERSE": reverse,
    "SCATTER": scatter,
    "SLICE": slice_,
    "TILE": tile,
    "TRANSPOSE": transpose,
}
