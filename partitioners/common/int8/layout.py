"""Data movement of TensorFlow Lite on int8: PAD, PADV2, CONCATENATION, SLICE, TRANSPOSE, RESHAPE.

Codes are copied, never changed. All but `reshape` return fresh, contiguous tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.output import Kernel


def pad(paddings: Sequence[tuple[int, int]], code: int) -> Kernel:
    """(before, after) for every dim, filled with `code`: the zero point for PAD, any code for PADV2."""
    widths = [width for pair in reversed(paddings) for width in pair]

    def apply(codes: Tensor) -> Tensor:
        if len(paddings) != codes.dim():
            raise ValueError(f"paddings: found {len(paddings)}, expected {codes.dim()}, one per dim")
        return torch.constant_pad_nd(codes, widths, code)

    return apply


def concat(axis: int) -> Callable[[Sequence[Tensor]], Tensor]:
    """Join tensors, which share their quantization, along `axis`."""
    return lambda parts: torch.cat(list(parts), dim=axis)


def slice_(begin: Sequence[int], size: Sequence[int]) -> Kernel:
    """`size` entries from `begin` on, for every dim; -1 takes all that follow.

    The kernel raises ValueError when that leaves the tensor.
    """

    def apply(codes: Tensor) -> Tensor:
        ends = [n if s == -1 else b + s for b, s, n in zip(begin, size, codes.shape, strict=True)]
        if any(not 0 <= b <= e <= n for b, e, n in zip(begin, ends, codes.shape, strict=True)):
            raise ValueError(f"slice: found begin {list(begin)} size {list(size)}, expected within {list(codes.shape)}")
        return codes[tuple(slice(b, e) for b, e in zip(begin, ends, strict=True))].clone(
            memory_format=torch.contiguous_format
        )

    return apply


def transpose(perm: Sequence[int]) -> Kernel:
    """Output dim i is input dim perm[i]."""
    return lambda codes: codes.permute(*perm).clone(memory_format=torch.contiguous_format)


def reshape(shape: Sequence[int]) -> Kernel:
    """The same codes in row-major order with another shape; may share the input's memory."""
    return lambda codes: codes.reshape(tuple(shape))
