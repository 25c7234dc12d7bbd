"""The features of a tensor that an operator takes or returns.

- `rank`, `shape`, `elements`, `bytes`, `dtype` (of its codes if it is quantized) and `real`, the dtype in which it is
  computed; `is_constant`, `is_input` (of the model), `is_contiguous`.
- `is_quantized`, `is_per_channel`, `scale` (per tensor), `largest_scale`, `smallest_scale` (of its channels),
  `scale_axis`, `group` (how many neighbors share a scale), `zero_point`, `codes` (how many there are).
- `open_axes` and `open_sizes`: the axes whose size is dynamic, and their number.
- `channel_axis`, `channels`: the inferred channel dimension, and its size: dimension 1 of an image, else the last.
- `has_zero`, `only_number`, `largest_sum`: of a constant's numbers, see the properties.
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
    """The properties of a constant's numbers that are features."""

    has_zero: bool
    only: float
    largest_sum: float


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
    codes: int | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def real(self) -> str:
        """The dtype in which it is computed without quantization: float32 for codes, else its own."""
        return "float32" if self.is_quantized else self.dtype

    @property
    def open_sizes(self) -> int:
        """The number of dynamic sizes."""
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
        """The number that a constant holds everywhere; NaN, which equals no number, if they differ."""
        return None if self.numbers is None else self.numbers().only

    @property
    def largest_sum(self) -> float | None:
        """The largest sum of absolute values over the rows of a constant's codes; of a vector, the largest one."""
        return None if self.numbers is None else self.numbers().largest_sum

    @property
    def bytes(self) -> int:
        """The bytes of its numbers, rounded up, without scales."""
        bits = 8 * BYTES.get(self.dtype, 4) if self.bits is None else self.bits
        return -(-self.elements * bits // 8)
