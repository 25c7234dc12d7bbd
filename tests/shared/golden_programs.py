"""Numbers that float goldens are asked about in several tests."""

from __future__ import annotations

import torch
from torch import Tensor

from npu_assay.reference.golden import (
    Bounded,
)

F64 = torch.float64


def numbers(seed: int, *shape: int, spread: float = 2.0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64) * spread


def inexact(seed: int, *shape: int) -> Bounded:
    """Numbers with an error of their own for every element."""
    return Bounded(numbers(seed, *shape), numbers(seed + 1, *shape, spread=0.05).abs())


IMAGE = inexact(0, 2, 4, 6, 6)
