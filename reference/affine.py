"""Affine quantization: real = scale * (code - zero_point)."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Affine:
    """Per-tensor quantization of codes within [qmin, qmax].

    Raises ValueError for a scale that is not positive and finite in float32 (the type in which
    every file format stores it) and for a zero point outside [qmin, qmax].
    """

    scale: float
    zero_point: int
    qmin: int = -128
    qmax: int = 127

    def __post_init__(self) -> None:
        check_scale(self.scale, "Affine.scale")
        if not self.qmin <= self.zero_point <= self.qmax:
            raise ValueError(f"Affine.zero_point: found {self.zero_point}, expected within [{self.qmin}, {self.qmax}]")

    @property
    def scale32(self) -> float:
        """The scale as a file format keeps it: rounded to float32."""
        return float32(self.scale)


def float32(value: float) -> float:
    """`value` rounded to the nearest float32, ties to even; infinite when it is too large, and -0.0 stays -0.0."""
    return ctypes.c_float(value).value


def check_scale(scale: float, where: str) -> None:
    """Raise ValueError unless `scale` is positive and finite in float32."""
    if not 0 < float32(scale) < math.inf:
        raise ValueError(f"{where}: found {scale!r}, expected a positive finite float32")


def dequantise(codes: Tensor, q: Affine) -> Tensor:
    """The reals that codes stand for, in float64; same shape. Exact for a float32 scale."""
    return (codes.to(torch.float64) - q.zero_point) * q.scale


def quantise(reals: Tensor, q: Affine) -> Tensor:
    """The nearest codes, saturated to [qmin, qmax]: int8, same shape. Ties round to even, in float64."""
    codes = torch.round(reals.to(torch.float64) / q.scale) + q.zero_point
    return codes.clamp_(q.qmin, q.qmax).to(torch.int8 if q.qmin >= -128 and q.qmax <= 127 else torch.int32)
