"""What float16 may lose in average pools: what is carried over from nine taps is held in float16."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from npu_assay.reference.golden.bounded import Bounded
from npu_assay.reference.golden.float32 import run_float

AVERAGE = "aten.avg_pool2d.default"


def carried(taps: Tensor) -> Tensor:
    """Means of columns: sums in float32, held in float16 whenever nine more taps follow."""
    total = torch.zeros(taps.shape[1])
    for part in torch.split(taps.float(), 9):
        total = total.half().float() + part.sum(0)
    return (total / len(taps)).half().double()


@pytest.mark.parametrize("kernel", [(2, 5), (6, 6), (3, 3), 5, (4,)])
def test_the_bound_holds_what_is_carried_over_and_no_more_for_small_windows(kernel: int | tuple[int, ...]) -> None:
    high, wide = (kernel, kernel) if isinstance(kernel, int) else (*kernel, *kernel)[:2]
    made = torch.Generator().manual_seed(5)
    x = torch.randn(2000, 1, high, wide, generator=made).half().double()
    x.view(2000, -1)[:, -1] -= x.sum((1, 2, 3))  # what is left of a sum is small beside its terms
    x = x.half().double()
    (mean,) = run_float(
        AVERAGE, (Bounded(x), list((kernel,) if isinstance(kernel, int) else kernel)), {}, torch.float16
    )
    error = (carried(x.flatten(1).t()) - mean.value.flatten()).abs()
    assert (error <= mean.spread().flatten()).all()
    narrow = 4 * 2.0**-11 * mean.value.abs() + 2.0**-16
    assert bool((mean.spread() <= narrow).all()) == (math.prod((high, wide)) <= 9)
