"""Sums of float16 products where a processor computes in float16 (AVX512-FP16): how far they are from the device's.

XNNPACK takes kernels there that round after every product of a linear layer, a matrix product or a convolution that is
not depthwise. The simulated device adds in float32 and rounds once, as XNNPACK does on all other x86 processors. What
is not such a sum does not differ, but for exp (see `EXP`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from npu_assay.partitioners.xnnpack.runtime import load_model
from npu_assay.partitioners.xnnpack.xnn_model import XModel, XValue
from npu_assay.reference.operators.home import Accuracy
from tests.crosscheck.executorch.processor import FLAGS
from tests.crosscheck.executorch.subgraphs import Array, Program

NATIVE = "avx512_fp16" in FLAGS
"""Whether the processor of this run computes in float16."""
NOT_SHOWN = frozenset() if NATIVE else frozenset(["findings/half-ends-early.md"])
"""The pages of findings that this processor does not show."""

SUMS = ("BatchMatrixMultiply", "Conv2d", "ConvTranspose2d", "FullyConnected")
OPERATORS = ("aten.bmm.default", "aten.convolution.default", "aten.linear.default")
EPSILON, SUBNORMAL = 2.0**-11, 2.0**-25
"""Half a unit in the last place of float16, relative and of the smallest numbers."""

OF_LARGEST = 70 * 2 * EPSILON
"""In programs with such a sum, a difference as a part of the largest output of a run: 68 units are the most that was
found, where a ceil follows; 33 where the sum ends the program, and its numbers of +-300 cancel."""

EXP = Accuracy(6, 2.0**-14)
"""exp of those kernels: 5.4 units in the last place are the most that was found, over all float16 numbers, and it is 0
where it would be below 2^-14.5."""
EXP_ENDS = 15.5 * math.log(2)
"""And infinite from here on, 2^15.5, since powers of two are made of exponents up to 15; float16 ends at 65504."""


def exp(x: Array, y: Array) -> Array:
    """What exp gives there for float16 inputs `x`, for which it should be `y`, but for what `EXP` allows."""
    return np.where(x > EXP_ENDS, np.float16(np.inf), y)


def bound(program: Program) -> Array:
    """How far each output may be: each of `terms` additions rounds a number not larger than the sum of all sizes."""
    terms, sizes = _positive(program, ones=True), _positive(program, ones=False)
    return (terms + 1) * (sizes * EPSILON + SUBNORMAL)


def _positive(program: Program, ones: bool) -> Array:
    """The outputs of the program in float32, without limits, for the sizes of its numbers, or for ones."""

    def sizes(array: Array) -> Array:
        return np.ones(array.shape, np.float32) if ones else np.abs(array).astype(np.float32)

    def real(value: XValue) -> XValue:
        return replace(value, dtype="fp32", data=None if value.data is None else sizes(value.data))

    model: XModel = program.model
    model = replace(
        model,
        values=tuple(real(value) for value in model.values),
        nodes=tuple(replace(node, limits=None) for node in model.nodes),
    )
    (found,) = load_model(model).run([torch.from_numpy(sizes(array)) for array in program.inputs])
    return found.double().numpy()
