"""Pools: integer_ops/pooling.h. Input and output share their quantization."""

from __future__ import annotations

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic.windows import NO_PADDING, Padding, Pair, padded, windows


def avg_pool2d(codes: Tensor, kernel: Pair, stride: Pair, x: Affine, padding: Padding = NO_PADDING) -> Tensor:
    """The mean of the codes inside the image, ties away from zero; padded cells are not counted."""
    image = padded(codes.to(torch.int64), padding, 0)
    inside = padded(torch.ones_like(codes, dtype=torch.int64), padding, 0)
    total, count = (windows(cells, kernel, stride).sum((-2, -1)) for cells in (image, inside))
    half = torch.where(total > 0, count // 2, -(count // 2))
    return torch.div(total + half, count, rounding_mode="trunc").clamp(x.qmin, x.qmax).char()


def max_pool2d(codes: Tensor, kernel: Pair, stride: Pair, padding: Padding = NO_PADDING) -> Tensor:
    """The largest code inside the image."""
    return windows(padded(codes, padding, -128), kernel, stride).amax((-2, -1))
