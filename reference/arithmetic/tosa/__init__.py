"""Static int8 and int16 by TOSA 1.0's operators, as Arm's compiler puts them together: codes in, codes out, in int64.

Functions take the codes first, then the operator's constants, and the quantizations of inputs and output (`Affine`);
int16 codes are those of a tensor of that type. Images of products are [N, H, W, C]; of pools and
resizes, height and width are the last axes. Sums of products are exact, and rescaled once:
`rescale` has the one rounding of the scheme. What is computed in float32 says so: entries of a TABLE, codes of real
numbers. An operator that only moves or chooses codes needs no more than `requantised`.
"""

from npu_assay.reference.arithmetic.tosa.elementwise import (
    abs_,
    add,
    clamp,
    common,
    cumsum,
    extreme,
    limited,
    mul,
    neg,
    sub,
    total,
)
from npu_assay.reference.arithmetic.tosa.linear import conv, linear, matmul, transpose_conv2d
from npu_assay.reference.arithmetic.tosa.pooling import averaged
from npu_assay.reference.arithmetic.tosa.rescale import (
    bits_of,
    code_of,
    output,
    quantised,
    range_of,
    reals_of,
    requantised,
)
from npu_assay.reference.arithmetic.tosa.resize import resize_bilinear
from npu_assay.reference.arithmetic.tosa.tables import looked_up

__all__ = [
    "abs_",
    "add",
    "averaged",
    "bits_of",
    "clamp",
    "code_of",
    "common",
    "conv",
    "cumsum",
    "extreme",
    "limited",
    "linear",
    "looked_up",
    "matmul",
    "mul",
    "neg",
    "output",
    "quantised",
    "range_of",
    "reals_of",
    "requantised",
    "resize_bilinear",
    "sub",
    "total",
    "transpose_conv2d",
]
