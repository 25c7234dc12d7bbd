"""The order of a tensor's axes on the device: axis i of the device tensor is axis layout[i] in torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

Layout = tuple[int, ...]


@cache
def identity(rank: int) -> Layout:
    """Torch's own order."""
    return tuple(range(rank))


@cache
def inverse(layout: Layout) -> Layout:
    """The permutation that undoes `layout`: position of each torch axis on the device."""
    return tuple(layout.index(axis) for axis in range(len(layout)))


def arranged(values: Sequence[int], layout: Sequence[int]) -> tuple[int, ...]:
    """Per-axis values in device order."""
    return tuple(values[axis] for axis in layout)


def composed(outer: Layout, inner: Layout) -> Layout:
    """result[i] = outer[inner[i]]."""
    return tuple(outer[axis] for axis in inner)


def between(source: Layout, wanted: Layout) -> Layout:
    """The TRANSPOSE permutation that turns a tensor held in `source` into one held in `wanted`."""
    return tuple(source.index(axis) for axis in wanted)


def to_channels_last(rank: int) -> Layout:
    """[N, C, ...] -> [N, ..., C] as a permutation; ranks under 3 have no such formats."""
    return (0, *range(2, rank), 1) if rank > 2 else identity(rank)


def to_channels_first(rank: int) -> Layout:
    """[N, ..., C] -> [N, C, ...] as a permutation, the inverse of `to_channels_last`."""
    return inverse(to_channels_last(rank))
