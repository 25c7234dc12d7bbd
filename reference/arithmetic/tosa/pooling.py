"""AVG_POOL2D's division on images whose last axes are height and width."""

from __future__ import annotations

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic.tosa.rescale import range_of


def averaged(sums: Tensor, counts: Tensor, codes: Tensor, x: Affine) -> Tensor:
    """Codes, in x, of sums of `counts` centered codes: times ((2**30 + 1) << k) / count, by 2**(30 + k), halves up.

    k is the number of bits of count - 1. codes: any of the type that is averaged.
    """
    found = torch.zeros_like(sums)
    for count in sorted(set(counts.flatten().tolist())):
        exponent = (count - 1).bit_length()
        factor, shift = ((1 << 30) + 1 << exponent) // count, 30 + exponent
        found = torch.where(counts == count, (sums * factor + (1 << (shift - 1))) >> shift, found)
    return (found + x.zero_point).clamp(*range_of(codes)).to(codes.dtype)
