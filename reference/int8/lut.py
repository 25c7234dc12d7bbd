"""Operators that are one table of 256 codes: LOGISTIC, TANH, and the lookup that all such operators share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from reference.affine import Affine, float32
from reference.int8.output import Bounds, Kernel
from reference.rescale import half_away_

ALL_CODES = torch.arange(-128, 128, dtype=torch.int64)
"""Every int8 code in ascending order: the index of a table's entry is code + 128."""


def lookup(table: Tensor, codes: Tensor) -> Tensor:
    """table[codes + 128] with the shape of `codes` (int8); the table has 256 entries of any type."""
    return table.index_select(0, codes.reshape(-1).to(torch.int32).add_(128)).view(codes.shape)


def table_kernel(values: Tensor, limits: Bounds) -> Kernel:
    """A kernel that looks up `values` (integers [256], in order of the codes), saturated to `limits`."""
    table = values.clamp(*limits).to(torch.int8)
    return lambda codes: lookup(table, codes)


def logistic(x: Affine, y: Affine) -> Kernel:
    """y = 1 / (1 + exp(-x)), evaluated in float32 for every code. LiteRT itself allows only y = (1/256, -128)."""
    with np.errstate(over="ignore"):
        return _float_table(lambda real: np.float32(1) / (np.float32(1) + _nearest(np.exp, -real)), x, y)


def tanh(x: Affine, y: Affine) -> Kernel:
    """y = tanh(x), evaluated in float32 for every code."""
    return _float_table(lambda real: _nearest(np.tanh, real), x, y)


Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


def _nearest(function: Callable[[Doubles], Doubles], values: Floats) -> Floats:
    """A float32 function without the last-bit differences of libraries: float64, rounded to float32."""
    return function(values.astype(np.float64)).astype(np.float32)


def _float_table(function: Callable[[Floats], Floats], x: Affine, y: Affine) -> Kernel:
    """float32 throughout: scale * (code - zero_point), the function, times 1 / sy, ties away from zero."""
    real = np.float32(x.scale32) * np.arange(-128 - x.zero_point, 128 - x.zero_point, dtype=np.float32)
    steps = function(real) * np.float32(float32(1 / y.scale32))
    codes = half_away_(torch.from_numpy(steps)).add_(y.zero_point)
    return table_kernel(codes, (y.qmin, y.qmax))
