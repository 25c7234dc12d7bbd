"""Sums of products of int8 codes as int32, by the processor's own instructions for them.

torch's int8 matrix product reads a quarter of the bytes that float32 does. Processors without such instructions
add pairs of products in 16 bits, saturated; so it is tested once, on codes that would saturate, before it is used.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.accumulate import NO_PADDING, Padding, Pair, output_size, padded, window_rows
from npu_assay.partitioners.common.int8.output import Kernel
from npu_assay.reference.affine import Affine


@lru_cache(maxsize=1)
def has_int8_product() -> bool:
    """Whether the library's int8 product is exact on this processor, and compiled for it."""
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        return False
    return all(_exact(rows, depth, columns) for rows in (1, 33) for depth in (1, 70, 256) for columns in (1, 17))


def _exact(rows: int, depth: int, columns: int) -> bool:
    """Whether products of the extreme codes are exact, both with alternating and with equal signs."""
    sign = torch.tensor([1, -1]).repeat(depth)[:depth]
    for a, b in ((-128, -128), (-128, 127), (127, 127)):
        for signs in (torch.ones_like(sign), sign):
            left = torch.full((rows, depth), a, dtype=torch.int8)
            right = (signs * b).clamp(-128, 127).to(torch.int8).expand(columns, depth).contiguous()
            found = torch._int_mm(left, transposed(right))
            if not bool((found == int((left[0].to(torch.int64) * right[0].to(torch.int64)).sum())).all()):
                return False
    return True


def transposed(rows: Tensor) -> Tensor:
    """[O, I] as [I, O] in the layout that is fastest for few rows. A single term's strides must not look like both."""
    return rows.reshape(1, -1).clone() if rows.shape[1] == 1 else rows.contiguous().t()


def conv2d(weights: Tensor, x: Affine, stride: Pair, dilation: Pair, padding: Padding = NO_PADDING) -> Kernel:
    """weights int8 [O, KH, KW, I]; returns x int8 [N, H, W, I] -> sum(code * weight), int32 [N, OH, OW, O].

    Padded cells hold the zero point. No bias, and no correction for the zero point: see `offset`. Exact where
    `has_int8_product` and no sum leaves int32.
    """
    kernel = (weights.shape[1], weights.shape[2])
    matrix = transposed(weights.reshape(weights.shape[0], -1))
    if kernel == (1, 1) == stride and padding == NO_PADDING:
        depth = weights.shape[3]
        return lambda codes: torch._int_mm(codes.contiguous().view(-1, depth), matrix).view(*codes.shape[:3], -1)
    gather = window_rows(kernel, stride, dilation)

    def apply(codes: Tensor) -> Tensor:
        value = padded(codes, padding, x.zero_point)
        sizes = output_size((value.shape[1], value.shape[2]), kernel, stride, dilation)
        return torch._int_mm(gather(value), matrix).view(codes.shape[0], *sizes, -1)

    return apply


def frame(shape: tuple[int, ...], padding: Padding, code: int) -> Tensor:
    """Memory for images [N, H, W, C] of codes, within rows and columns of `code`."""
    return padded(torch.zeros(shape, dtype=torch.int8), padding, code)


def offset(weights: Tensor, bias: Tensor, x: Affine) -> Tensor:
    """int64 [O]: what makes accumulators of the sums of raw codes: bias - zero point * sum(weights)."""
    sums = weights.flatten(1).double().sum(1)
    return bias.to(torch.int64) - x.zero_point * sums.to(torch.int64)
