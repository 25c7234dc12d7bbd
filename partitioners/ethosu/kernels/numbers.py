"""Ranges of TOSA's types, and the error for results that TOSA leaves undefined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor

from npu_assay.partitioners.common.machine import Unpredictable as Unpredictable

Kernel = Callable[[Tensor], Tensor]
Kernel2 = Callable[[Tensor, Tensor], Tensor]

INT32: Final = (-(1 << 31), (1 << 31) - 1)

DTYPES: Final = {
    "BOOL": torch.bool,
    "INT8": torch.int8,
    "INT16": torch.int16,
    "INT32": torch.int32,
    "INT48": torch.int64,
}
"""The torch type that holds each TOSA type."""

_BITS: Final = {"INT8": 8, "INT16": 16, "INT32": 32, "INT48": 48}
_UNSIGNED: Final = {torch.int8: torch.uint8, torch.int16: torch.uint16}


@dataclass(frozen=True)
class Codes:
    """Integers of a type, stored as `dtype`, within [low, high]; `zero_point` stands for zero.

    Unsigned codes are stored by their bits: low 0 in a signed `dtype`.
    """

    dtype: torch.dtype
    low: int
    high: int
    zero_point: int = 0

    @property
    def unsigned(self) -> bool:
        return self.low == 0

    @property
    def reach(self) -> int:
        """The largest magnitude of code - zero_point."""
        return max(self.high - self.zero_point, self.zero_point - self.low)

    def centred(self, zero_point: int) -> Codes:
        """The same codes around another zero point."""
        return replace(self, zero_point=zero_point)

    def numbers(self, stored: Tensor) -> Tensor:
        """The codes as int64."""
        return (stored.view(_UNSIGNED[stored.dtype]) if self.unsigned else stored).to(torch.int64)

    def stored(self, numbers: Tensor) -> Tensor:
        """Numbers within the codes' range in the type that keeps them."""
        if self.unsigned:
            return numbers.to(_UNSIGNED[self.dtype]).view(self.dtype)
        return numbers.char() if self.dtype == torch.int8 else numbers.to(self.dtype)  # the method takes half the time


def codes(name: str, zero_point: int = 0, unsigned: bool = False) -> Codes:
    """The range of a TOSA type, with a zero point as the signed type stores it."""
    bits = _BITS[name]
    low = 0 if unsigned else -(1 << (bits - 1))
    return Codes(DTYPES[name], low, low + (1 << bits) - 1, zero_point % (1 << bits) if unsigned else zero_point)


def require_within(values: Tensor, low: int, high: int, what: str) -> None:
    """Raise Unpredictable when any number lies outside."""
    if values.numel():
        least, most = (int(each) for each in torch.aminmax(values))
        if least < low or most > high:
            raise Unpredictable(what, least if least < low else most, f"from {low} to {high}")


def as_int32(values: Tensor, what: str) -> Tensor:
    """int64 or exact floating-point numbers as int32. Raises Unpredictable when one does not fit."""
    require_within(values, *INT32, what)
    return values.to(torch.int32)
