"""A tensor that an operator takes or makes, as predicates ask about it.

- `rank`, `shape`, `elements`, `bytes`, `dtype` (of its codes where it is quantized) and `real`, the type that it is
  computed in; `is_constant`, `is_input` (of the model), `is_contiguous`.
- `is_quantized`, `is_per_channel`, `scale` (of all of it), `largest_scale`, `smallest_scale` (of its channels),
  `scale_axis`, `group` (how many neighbors share a scale), `zero_point`.
- `open_axes` and `open_sizes`: which of its sizes are known only at run time, and how many.
- `channel_axis`, `channels`: the inferred channel dimension, and its size: dimension 1 of an image, else the last.
- `has_zero`, `only_number`, `largest_sum`: of a constant's numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

BYTES: Mapping[str, int] = MappingProxyType(
    {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int64": 8, "float64": 8}
)


@dataclass(frozen=True)
class Numbers:
    """What predicates ask about the numbers that a constant holds."""

    has_zero: bool
    only: float
    largest_sum: int


@dataclass(frozen=True)
class Operand:
    """A tensor of an application, as a device sees it: `dtype` is that of the codes where it is quantized."""

    shape: tuple[int, ...]
    dtype: str
    is_constant: bool = False
    scale: float | None = None
    zero_point: int | None = None
    is_per_channel: bool = False
    is_quantized: bool = False
    bits: int | None = None
    scales: tuple[float, ...] = ()
    scale_axis: int | None = None
    group: int | None = None
    open_axes: tuple[int, ...] = ()
    is_input: bool = False
    is_contiguous: bool = True
    channel_axis: int | None = None
    numbers: Callable[[], Numbers] | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def real(self) -> str:
        """The type that it is computed in where nothing quantizes: float32 of codes, else its own."""
        return "float32" if self.is_quantized else self.dtype

    @property
    def open_sizes(self) -> int:
        """How many of its sizes are known only at run time."""
        return len(self.open_axes)

    @property
    def channels(self) -> int | None:
        """The size of the inferred channel dimension."""
        return None if self.channel_axis is None else self.shape[self.channel_axis]

    @property
    def largest_scale(self) -> float | None:
        return max(self.scales, default=None)

    @property
    def smallest_scale(self) -> float | None:
        return min(self.scales, default=None)

    @property
    def has_zero(self) -> bool | None:
        """Whether one of a constant's numbers is zero."""
        return None if self.numbers is None else self.numbers().has_zero

    @property
    def only_number(self) -> float | None:
        """The number that a constant holds everywhere; not a number, which equals none, where they differ."""
        return None if self.numbers is None else self.numbers().only

    @property
    def largest_sum(self) -> int | None:
        """Of the rows of a constant's codes, the largest sum of their absolute values."""
        return None if self.numbers is None else self.numbers().largest_sum

    @property
    def bytes(self) -> int:
        """Its numbers' bytes, rounded up; scales not counted."""
        bits = 8 * BYTES.get(self.dtype, 4) if self.bits is None else self.bits
        return -(-self.elements * bits // 8)
