"""Operators that are one table of 256 codes: LOGISTIC, TANH, EXP, LOG, and the lookup that all such operators share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.output import Bounds, Kernel
from npu_assay.partitioners.common.rescale import half_away_
from npu_assay.reference.affine import Affine, float32

FAR = (-(2.0**20), 2.0**20)
"""Steps beyond these, and infinities, saturate in any quantization."""
ALL_CODES = torch.arange(256, dtype=torch.uint8).view(torch.int8).to(torch.int64)
"""Every int8 code, 0 to 127 and then -128 to -1: a table's index is the code's bit pattern as uint8."""


def lookup(table: Tensor, codes: Tensor) -> Tensor:
    """The entries for `codes` (int8), in their shape; the table has 256 entries of any type, as `ALL_CODES`."""
    return table.index_select(0, codes.view(torch.uint8).int().reshape(-1)).view(codes.shape)


def table_kernel(values: Tensor, limits: Bounds) -> Kernel:
    """A kernel that looks up `values` (integers [256], as `ALL_CODES`), saturated to `limits`."""
    table = values.clamp(*limits).char()
    return lambda codes: lookup(table, codes)


def logistic(x: Affine, y: Affine) -> Kernel:
    """y = 1 / (1 + exp(-x)), evaluated in float32 for every code. LiteRT itself allows only y = (1/256, -128)."""
    return _float_table(lambda real: np.float32(1) / (np.float32(1) + _nearest(np.exp, -real)), x, y)


def tanh(x: Affine, y: Affine) -> Kernel:
    """y = tanh(x), evaluated in float32 for every code."""
    return _float_table(lambda real: _nearest(np.tanh, real), x, y)


def exp(x: Affine, y: Affine) -> Kernel:
    """y = exp(x), evaluated in float32 for every code."""
    return _float_table(lambda real: _nearest(np.exp, real), x, y)


def log(x: Affine, y: Affine) -> Kernel:
    """y = log(x), evaluated in float32 for every code; the lowest code where x is not positive."""
    lowest = np.float32((y.qmin - y.zero_point) * y.scale32)

    def logarithm(real: Floats) -> Floats:
        found = _nearest(np.log, np.where(real > 0, real, np.float32(1)))
        return np.where(real > 0, np.maximum(found, lowest), lowest)

    return _float_table(logarithm, x, y)


Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


def _nearest(function: Callable[[Doubles], Doubles], values: Floats) -> Floats:
    """A float32 function without the last-bit differences of libraries: float64, rounded to float32."""
    return function(values.astype(np.float64)).astype(np.float32)


def _float_table(function: Callable[[Floats], Floats], x: Affine, y: Affine) -> Kernel:
    """float32 throughout: scale * (code - zero_point), the function, times 1 / sy, ties away from zero."""
    real = np.float32(x.scale32) * (ALL_CODES - x.zero_point).numpy().astype(np.float32)
    with np.errstate(over="ignore"):
        steps = function(real) * np.float32(float32(1 / y.scale32))
    codes = half_away_(torch.from_numpy(steps).clamp_(*FAR)).add_(y.zero_point)
    return table_kernel(codes, (y.qmin, y.qmax))
