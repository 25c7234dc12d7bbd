"""How far XNNPACK's kernels are from the simulated device's on x86 processors without AVX-512, or without VNNI.

Without AVX-512, XNNPACK takes other approximations of three float32 functions there; without VNNI it adds the groups of
4-bit weights, and their correction, in another order. Nothing else differs but what `special_values` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import torch

from npu_assay.partitioners.xnnpack.xnn_model import PerGroup, unpacked_int4
from npu_assay.reference.arithmetic.xnnpack.dynamic import groupwise_error
from npu_assay.reference.operators.home import Accuracy
from tests.crosscheck.executorch.processor import FLAGS
from tests.crosscheck.executorch.subgraphs import Array, Program

NARROW = not {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= FLAGS
"""Whether the processor of this run lacks AVX-512, or a part of it that XNNPACK's kernels need."""
OTHER_ORDER = NARROW or not {"avx512_vnni", "avx_vnni"} & FLAGS
"""Whether it lacks VNNI, the instructions for sums of int8 products, or AVX-512."""

FUNCTIONS: Mapping[str, Accuracy] = MappingProxyType(
    {
        "aten.elu.default": Accuracy(2.2),
        "aten.sigmoid.default": Accuracy(4.4, 2.0**-125),
        "aten._softmax.default": Accuracy(36),
    }
    if NARROW
    else {}
)
"""How far the float32 functions are that have other kernels here; nothing on processors with AVX-512.

At most 2.11 units in the last place were found for ELU and 2.98 for sigmoid, which ends at the smallest normal number
here, over 400,000 numbers within +-100; of softmax each result is within 18 of what is right.
"""

OF_LARGEST = 2.0**-20 if OTHER_ORDER else 0.0
"""With 4-bit weights, a difference as a part of the largest output of a run. 2^-22 is the most that was found.

`bound` has it output by output, for a single layer; in a program other operators follow.
"""


def bound(program: Program) -> Array:
    """How far the outputs of a linear layer with 4-bit weights may be where groups are added in another order."""
    weights = next(value for value in program.model.values if value.dtype == "qbint4")
    assert isinstance(weights.quant, PerGroup) and weights.data is not None
    codes = torch.from_numpy(unpacked_int4(weights.data, weights.shape[1]))
    biases = [
        torch.from_numpy(value.data)
        for value in program.model.values
        if value.data is not None and value is not weights
    ]
    x, scales = torch.from_numpy(program.inputs[0]), torch.from_numpy(np.array(weights.quant.scales))
    return groupwise_error(x, codes, scales, biases[0] if biases else None).numpy()
