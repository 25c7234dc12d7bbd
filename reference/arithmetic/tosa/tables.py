"""TABLE: a function of one number, its entries in float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic.tosa.rescale import quantised, reals_of, saturated, shifted

LARGEST = 2**15 - 1
FRACTION = 7
"""Bits of a 16-bit code between two entries."""


def looked_up(codes: Tensor, function: Callable[[Tensor], Tensor], x: Affine, y: Affine) -> Tensor:
    """A function of float32 numbers between codes of the same type.

    int8: an entry for every code. int16: 513 entries, 128 codes apart, with straight lines between them, which a
    narrower range of y cuts off.
    """
    if codes.dtype == torch.int8:
        entries = quantised(function(reals_of(torch.arange(-128, 128), x)), y)
        return entries[codes.long() + 128]
    nodes = torch.arange(-(2**15), 2**15 + 1, 1 << FRACTION)
    entries = quantised(function(reals_of(nodes, x)), replace(y, qmin=min(y.qmin, -LARGEST), qmax=LARGEST)).long()
    numbers = codes.long()
    below = (numbers >> FRACTION) + (1 << (15 - FRACTION))
    slope = entries[below + 1] - entries[below]
    fine = (entries[below] << FRACTION) + slope * (numbers & ((1 << FRACTION) - 1))
    return saturated(shifted(fine, 2.0**-FRACTION), y)
