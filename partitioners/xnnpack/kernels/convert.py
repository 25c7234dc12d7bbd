"""Between reals and codes: XNNPACK's convert operators."""

from __future__ import annotations

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.lut import ALL_CODES, table_kernel
from npu_assay.partitioners.common.int8.output import Kernel
from npu_assay.partitioners.xnnpack.kernels.output import OnCodes
from npu_assay.reference.affine import Affine, float32


def quantize(y: Affine, half: bool = False) -> OnCodes:
    """Reals -> int8: rne(f32(x * f32(1 / scale))) + zero point, saturated; from float16 by f16(1 / scale).

    NaN becomes the largest code.
    """
    inverse = float32(1 / y.scale32)
    factor = float(torch.tensor(inverse).half()) if half else inverse
    below, above = y.qmin - y.zero_point, y.qmax - y.zero_point

    def apply(reals: Tensor) -> Tensor:
        steps = (reals.float() * factor).nan_to_num_(nan=above, posinf=above, neginf=below)
        return steps.clamp_(below, above).round_()

    return OnCodes(apply, (None,), y.zero_point)


def dequantize(x: Affine, half: bool = False) -> OnCodes:
    """int8 -> float32: f32((code - zero point) * scale); to float16 with the scale rounded to float16 as well."""
    if half:
        scale = float(torch.tensor(x.scale32).half())
        return OnCodes(lambda steps: (steps * scale).half(), (x.zero_point,), None)
    return OnCodes(lambda steps: steps * x.scale32, (x.zero_point,), None)


def requantize(x: Affine, y: Affine) -> Kernel:
    """int8 -> int8 by a multiplier of 8 fraction bits, ties up: (multiplier * (code - zx) + 128) >> 8, plus zy.

    Raises ValueError for a ratio of the scales outside 2**-8 to 2**7.
    """
    ratio = float32(x.scale32 / y.scale32)
    if not 2.0**-8 <= ratio <= 2.0**7:
        raise ValueError(f"ratio of scales: found {ratio}, expected from 2**-8 to 2**7")
    steps = (ALL_CODES - x.zero_point) * round(256 * ratio)
    return table_kernel(((steps + 128) >> 8) + y.zero_point, (y.qmin, y.qmax))
