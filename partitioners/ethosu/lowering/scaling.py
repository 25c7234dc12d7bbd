"""Numbers known when compiling: constants after RESCALE, and codes of reals as torch quantizes them."""

from __future__ import annotations

import math

import numpy as np
import torch

from npu_assay.partitioners.ethosu.tosa_model import Array
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_TENSOR, QUANTIZE_PER_TENSOR, edge_op
from npu_assay.partitioners.exir.qdq import QParams


def rescaled(data: Array, multiplier: int, shift: int, zero_in: int, zero_out: int, limits: tuple[int, int]) -> Array:
    """What RESCALE makes of constants: the product shifted right, halves up, then saturated. int64."""
    wide = (data.astype(np.int64) - zero_in) * multiplier + (1 << (shift - 1)) >> shift
    codes: Array = np.clip(wide + zero_out, *limits)
    return codes


def quantised(numbers: torch.Tensor, quant: QParams) -> torch.Tensor:
    """Codes of float32 numbers: rounded half to even, saturated; NaN is code 0."""
    bounds = (quant.scale, quant.zero_point, quant.qmin, quant.qmax, quant.dtype)
    codes = edge_op(QUANTIZE_PER_TENSOR)(numbers.nan_to_num(0.0, math.inf, -math.inf), *bounds)
    zero = torch.zeros((), dtype=quant.dtype)
    result: torch.Tensor = torch.where(numbers.isnan(), zero, codes)
    return result


def dequantised(codes: torch.Tensor, quant: QParams) -> torch.Tensor:
    """float32 numbers of codes."""
    bounds = (quant.scale, quant.zero_point, quant.qmin, quant.qmax, quant.dtype)
    numbers: torch.Tensor = edge_op(DEQUANTIZE_PER_TENSOR)(codes, *bounds)
    return numbers


def code_of(number: float, quant: QParams) -> int:
    """The code of one real number."""
    return int(quantised(torch.tensor(number, dtype=torch.float32), quant))
