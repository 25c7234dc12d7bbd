"""Quantize and dequantize per tensor as torch computes them, operator by operator, without its way to them.

torch's own are functions of Python after its dispatcher, which check every argument: several times the cost of the
arithmetic on a small tensor. These write to tensors that they made themselves, take numbers as tensors, which torch
need not make of them first, and leave what is unusual to torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import torch
from torch import Tensor

from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR, QUANTIZE_PER_TENSOR

_RANGES: Final = {
    dtype: (torch.iinfo(dtype).min, torch.iinfo(dtype).max) for dtype in (torch.uint8, torch.int8, torch.int16)
}


def quantize(x: Tensor, scale: float, zero_point: int, low: int, high: int, dtype: torch.dtype) -> Tensor | None:
    """round(x * (1 / scale)) + zero point, within low and high; None for what is left to torch."""
    if x.dtype != torch.float32 or dtype not in _RANGES or scale <= 0:
        return None
    if low < _RANGES[dtype][0] or high > _RANGES[dtype][1]:
        return None
    return (x * number(1.0 / scale)).round_().add_(number(zero_point)).clamp_(low, high).to(dtype)


def dequantize(x: Tensor, scale: float, zero_point: int, low: int, high: int, dtype: torch.dtype) -> Tensor | None:
    """(x - zero point) * scale in float32; None for what is left to torch."""
    if x.dtype != dtype or dtype not in _RANGES or scale <= 0:
        return None
    return x.float().sub_(number(zero_point)).mul_(number(scale))


@lru_cache(maxsize=4096)
def number(value: float) -> Tensor:
    """A float32 tensor of one number, to be read only."""
    return torch.tensor(value, dtype=torch.float32)


DIRECT: Final[Mapping[str, Callable[..., Any]]] = {
    QUANTIZE_PER_TENSOR: quantize,
    DEQUANTIZE_PER_TENSOR: dequantize,
}
"""Operator -> what computes it, or None."""
