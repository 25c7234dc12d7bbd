"""Data movement, indexing and reductions of TOSA. Codes are copied, never changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.layout import pad as pad
from npu_assay.partitioners.common.int8.layout import reshape as reshape
from npu_assay.partitioners.common.int8.layout import slice_ as slice_
from npu_assay.partitioners.common.int8.layout import transpose as transpose
from npu_assay.partitioners.ethosu.kernels.numbers import INT32, Kernel, Unpredictable, require_within


def concat(axis: int) -> Callable[..., Tensor]:
    return lambda *parts: torch.cat(parts, dim=axis)


def tile(multiples: Sequence[int]) -> Kernel:
    return lambda x: x.repeat(*multiples)


def reverse(axis: int) -> Kernel:
    return lambda x: x.flip(axis)


def gather(values: Tensor, indices: Tensor) -> Tensor:
    """values [N, K, C] at indices [N, W] -> [N, W, C]."""
    require_within(indices, 0, values.shape[1] - 1, "GATHER index")
    wide = indices.to(torch.int64).unsqueeze(2).expand(-1, -1, values.shape[2])
    return torch.gather(values, 1, wide)


def scatter(values: Tensor, indices: Tensor, source: Tensor) -> Tensor:
    """values [N, K, C] with source [N, W, C] at indices [N, W], each given once."""
    require_within(indices, 0, values.shape[1] - 1, "SCATTER index")
    if any(row.unique().numel() < row.numel() for row in indices):
        raise Unpredictable("SCATTER indices", "repeated", "each once")
    return values.scatter(1, indices.to(torch.int64).unsqueeze(2).expand_as(source), source)


def reduce_sum(axis: int, safe: bool = False) -> Kernel:
    """INT32. No partial sum may leave 32 bits either; safe: none can."""

    def apply(x: Tensor) -> Tensor:
        count = x.shape[axis]
        if not safe and x.numel() and max(-int(x.amin()), int(x.amax())) * count > INT32[1]:
            require_within(x.cumsum(axis, dtype=torch.int64), *INT32, "REDUCE_SUM partial sum")
        return x.sum(axis, keepdim=True, dtype=torch.int32)

    return apply


def reduce_max(axis: int) -> Kernel:
    return lambda x: x.amax(axis, keepdim=True)


def reduce_min(axis: int) -> Kernel:
    return lambda x: x.amin(axis, keepdim=True)


def reduce_any(axis: int) -> Kernel:
    return lambda x: x.any(axis, keepdim=True)


def reduce_all(axis: int) -> Kernel:
    return lambda x: x.all(axis, keepdim=True)


def argmax(axis: int) -> Kernel:
    """INT32: where the largest number is, the first of equals."""
    return lambda x: x.argmax(axis).to(torch.int32)
