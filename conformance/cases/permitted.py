"""What constraints permit, in the terms of case functions: shapes, bounds, strides, quantizations."""

from __future__ import annotations

from math import prod
from typing import Any

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import quant
from npu_assay.conformance.programs.graph import Quant

Shape = tuple[int, ...]
Bounds = tuple[float | None, float | None]
INFINITY = float("inf")
MACS = (4, 6, 8, 12, 16, 24, 32)  # multiples that transpositions are tried with


# ------------------------------------------------------------------------------------ shapes


def image(multiple: int = 8) -> Shape:
    """A batch of one with every code in it, that fits channels-first and channels-last readings alike."""
    return (1, multiple, max(8, _rows(multiple)), multiple)


def wide(multiple: int = 8) -> Shape:
    """The smallest such image."""
    return (1, multiple, _rows(multiple), multiple)


def _rows(multiple: int) -> int:
    """Rows of `multiple` times `multiple` that hold 256 elements."""
    return -(-256 // multiple**2)


def least_rank(limits: Limits) -> int:
    """The smallest rank that is permitted."""
    return limits.number("min_rank", 2, 2, 4)


def deep(shape: Shape, rank: int) -> Shape:
    """The shape with dimensions of size 1 in front, so that it has at least this rank."""
    return (*(1,) * (rank - len(shape)), *shape)


def deepest(limits: Limits, default: int = 8, least: int = 1) -> int:
    """The largest permitted rank of an output, at least the `least` one that the operator's cases need."""
    return limits.number("max_rank", default, least, 16)


def of_rank(rank: int, last: int = 8) -> Shape:
    """A shape of this rank, with sizes other than 1 all over it; the last one is given."""
    return deep((2, 1, 3, 1, 2, 2, 2, last)[-rank:] if rank else (), rank)


def sizes_of_rank(rank: int) -> Shape:
    """A shape of this rank with few elements."""
    return deep((1, 2, 1, 3, 1, 2, 1, 2)[:rank], rank)


def inner_ranks(most: int) -> range:
    """The ranks between those of images, matrices and vectors, and a limit."""
    return range(3, most)


def sliced_size(limits: Limits) -> int:
    """The smallest permitted size, from 8 on, of a dimension to slice."""
    m = limits.multiple("sliced_dim_multiple_of")
    return m * -(-8 // m)


def most_positions(limits: Limits, channels: int) -> int:
    """How many channel vectors are permitted. The other cases, with multiples of `channels`, need those of an image."""
    return limits.number("positions", 4096, max(64, prod(image(channels)) // channels), 2**16)


def divisor(number: int, most: int) -> int:
    """The largest divisor that is not above `most`."""
    return next(size for size in range(most, 0, -1) if number % size == 0)


def split_sizes(length: int, size: int) -> Shape:
    """Equal pieces of a length, and what remains."""
    return tuple(min(size, length - start) for start in range(0, length, size))


def vertical_strides(limits: Limits) -> tuple[int, ...]:
    """The permitted vertical strides of a pool."""
    return limits.numbers("stride_h", (1, 2), 1, 16)


def growth(limits: Limits) -> tuple[int, ...]:
    """The permitted factors of an upsampling."""
    return limits.numbers("scale", (2, 4), 1, 9)


def transposable(limits: Limits) -> int:
    """What sizes must be multiples of for a transposition: the table's parameter `macs`."""
    return limits.parameter("macs", 8, MACS)


# ------------------------------------------------------------------------------------ numbers


def permitted_bounds(limits: Limits, unbounded: float | None) -> tuple[Bounds, ...]:
    """The bounds that a clamp may have. Raises LimitError for others.

    unbounded: how the operator spells an absent bound, infinity or None.
    """
    found = limits.value("bounds", ((-1, 1), (0, 1), (0, 6), (0, unbounded)))
    kinds = (int, float) if unbounded is not None else (int, float, type(None))
    if not isinstance(found, tuple) or not found or not all(_are_bounds(item, kinds) for item in found):
        absent = "numbers or null, not both null" if unbounded is None else "numbers"
        raise limits.error("bounds", found, f"a list of [low, high], {absent}, with low < high")
    return tuple(dict.fromkeys(found))


def _are_bounds(found: Any, kinds: tuple[type, ...]) -> bool:
    if not isinstance(found, tuple) or len(found) != 2 or any(type(bound) not in kinds for bound in found):
        return False
    known = [bound for bound in found if bound is not None]
    return len(known) == 1 or (len(known) == 2 and known[0] < known[1])


def plain_bounds(permitted: tuple[Bounds, ...]) -> Bounds:
    """(0, 6) where that is permitted, else the first."""
    return (0, 6) if (0, 6) in permitted else permitted[0]


def fitting(low: float | None, high: float | None) -> Quant:
    """An output quantization whose range is the bounds; about 6 away from zero stands for an absent one."""
    top = (6.2 if low is None or low < 6 else low + 6.2) if high is None or high == INFINITY else float(high)
    bottom = (-6.2 if high is None or high > -6 else high - 6.2) if low is None or low == -INFINITY else float(low)
    scale = (top - bottom) / 255
    return quant(scale, max(-128, min(127, round(-128 - bottom / scale))))


def fixed_quant(limits: Limits, default: Quant) -> Quant:
    """The output's quantization where the operator fixes it. Raises LimitError for an invalid one."""
    found = limits.value("output_qparams", (default.scale, default.zero_point))
    if not _is_quantization(found):
        raise limits.error("output_qparams", found, "[scale, zero point] with a positive scale and an int8 zero point")
    return quant(found[0], found[1])


def _is_quantization(found: Any) -> bool:
    if not isinstance(found, tuple) or len(found) != 2 or type(found[0]) not in (int, float):
        return False
    return found[0] > 0 and type(found[1]) is int and -128 <= found[1] <= 127
