"""How far the kernels here may be from XNNPACK's own on this processor, beside what the homes state."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import torch

from npu_assay.reference.operators import HOMES
from npu_assay.reference.operators.home import Accuracy
from tests.crosscheck.executorch import narrow
from tests.crosscheck.executorch.subgraphs import Array

APART: Mapping[torch.dtype, Mapping[str, Accuracy]] = MappingProxyType(
    {
        torch.float32: MappingProxyType(
            {"aten.rsqrt.default": Accuracy(2), "aten.sqrt.default": Accuracy(2), **narrow.FUNCTIONS}
        ),
        torch.float16: MappingProxyType(
            {
                name: Accuracy(own.kernels.fp16.ulps + 1, own.kernels.fp16.absolute)
                for name, own in HOMES.items()
                if own.kernels is not None and name != "aten.leaky_relu.default"
            }
        ),
    }
)
"""How far the kernels here may be from XNNPACK's own: 0 for every operator that is not named.

On x86 with AVX-512, and by `narrow.FUNCTIONS` without.

The roots come from a processor's estimate and one Newton step, which only that processor knows. Approximations in
float16 have kernels of their own there; here they are those of float32, rounded once. The root of a negative number
is NaN here; it is -0 there in float16. The float32 root of infinity is NaN there, and roots of numbers near the largest
are farther off; so is the logarithm of the largest. NaN among the operands of minima, maxima and pools is NaN here;
there it gives way to another operand, and in float16 to the limit of a clamp. exp(NaN) is NaN here, and 0 there.
"""


def near(found: Array, expected: Array, bound: Array) -> Array:
    """Which numbers are no farther apart than the bound; NaN is near nothing."""
    return np.asarray((found == expected) | (np.abs(found.astype(float) - expected.astype(float)) <= bound))
