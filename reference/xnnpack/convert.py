"""Between reals and codes: XNNPACK's convert operators, and the bias of a static product."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from reference.affine import Affine, float32
from reference.xnnpack.output import Kernel


def quantize(y: Affine) -> Kernel:
    """float32 or float16 -> int8: rne(f32(x * f32(1 / scale))) + zero point, saturated."""
    inverse = float32(1 / y.scale32)
    below, above = y.qmin - y.zero_point, y.qmax - y.zero_point

    def apply(reals: Tensor) -> Tensor:
        return (reals.float() * inverse).clamp_(below, above).round_().add_(y.zero_point).char()

    return apply


def dequantize(x: Affine) -> Kernel:
    """int8 -> float32: f32((code - zero point) * scale)."""
    return lambda codes: codes.float().sub_(x.zero_point).mul_(x.scale32)


def quantize_bias(bias: Tensor, x: Affine, w_scales: Sequence[float]) -> Tensor:
    """A real bias as int32 in the accumulator's steps, ties to even.

    The step is f32(sw) * f32(sx): rounded to float32 for weights per channel, a float64 product for one scale.
    """
    if len(w_scales) == 1:
        steps = torch.tensor(w_scales[0] * x.scale, dtype=torch.float64)
        return torch.round(bias.double() / steps).to(torch.int32)
    steps = torch.tensor(list(w_scales), dtype=torch.float32) * x.scale32
    return torch.round(bias.float() / steps).to(torch.int32)
