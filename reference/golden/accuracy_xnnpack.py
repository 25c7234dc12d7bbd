"""How far XNNPACK's real kernels may be from the exact result: by operator, beside what rounding itself explains.

Sources: the XNNPACK library of ExecuTorch 1.5.1 on x86 with AVX-512, against float64. float32: 720,000 points up to
20 in size; float16: every finite number (sin and cos: up to 100). Processors that compute in float16 themselves were
measured on samples only; where they are farther off, their numbers stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from npu_assay.reference.golden.aten import canonical
from npu_assay.reference.golden.bounded import Bounded


@dataclass(frozen=True)
class Accuracy:
    """An error of at most `ulps` * |result| * the type's distance at 1, plus `absolute`."""

    ulps: float = 0.0
    absolute: float = 0.0


FLOAT32: Mapping[str, Accuracy] = MappingProxyType(
    {
        "aten.cos.default": Accuracy(3, 1.7e-7),  # the zeros of a reduced argument
        "aten.elu.default": Accuracy(1),
        "aten.exp.default": Accuracy(29),
        "aten.gelu.default": Accuracy(2, 7.0e-7),  # 0 below -5.16
        "aten.hardswish.default": Accuracy(1, 4.5e-8),  # near -3
        "aten.log.default": Accuracy(2, 1.2e-7),  # near 1
        "aten.rsqrt.default": Accuracy(1),
        "aten.sigmoid.default": Accuracy(2.2),
        "aten.sin.default": Accuracy(3, 2.0e-7),  # the zeros of a reduced argument
        "aten.sqrt.default": Accuracy(1.2),
        "aten._softmax.default": Accuracy(18),
        "aten.tanh.default": Accuracy(2.2),
    }
)

FLOAT16: Mapping[str, Accuracy] = MappingProxyType(
    {
        "aten.cos.default": Accuracy(3),
        "aten.elu.default": Accuracy(1),
        "aten.exp.default": Accuracy(3, 3.1e-5),  # never below 2**-15
        "aten.gelu.default": Accuracy(2, 3.0e-3),
        "aten.hardswish.default": Accuracy(3, 9.0e-8),
        "aten.leaky_relu.default": Accuracy(1),
        "aten.log.default": Accuracy(4, 2.0**-10),
        "aten.rsqrt.default": Accuracy(1),
        "aten.sigmoid.default": Accuracy(2, 6.1e-5),  # 0 below -9.7
        "aten.sin.default": Accuracy(3),
        "aten._softmax.default": Accuracy(5, 6.2e-5),
        "aten.sqrt.default": Accuracy(1),
        "aten.tanh.default": Accuracy(3),
    }
)

_TYPES = {torch.float32: (FLOAT32, 2.0**-23), torch.float16: (FLOAT16, 2.0**-10)}

APART: Mapping[torch.dtype, Mapping[str, Accuracy]] = MappingProxyType(
    {
        torch.float32: MappingProxyType({"aten.rsqrt.default": Accuracy(2), "aten.sqrt.default": Accuracy(2)}),
        torch.float16: MappingProxyType(
            {name: Accuracy(each.ulps + 1, each.absolute) for name, each in FLOAT16.items()}
            | {"aten.leaky_relu.default": Accuracy()}
        ),
    }
)
"""How far the kernels here may be from XNNPACK's own on x86 with AVX-512: 0 for every operator that is not named.

The roots come from a processor's estimate and one Newton step, which only that processor knows. Approximations in
float16 have kernels of their own there; here they are those of float32, rounded once. The root of a negative number
is NaN here; it is -0 there in float16. The float32 root of infinity is NaN there, and roots of numbers near the largest
are farther off; so is the logarithm of the largest. NaN among the operands of minima, maxima and pools is NaN here;
there it gives way to another operand, and in float16 to the limit of a clamp. exp(NaN) is NaN here, and 0 there.
"""


def allowed(op: str, result: Bounded, dtype: torch.dtype) -> Bounded:
    """The result with what its kernel may be off as well."""
    table, distance = _TYPES.get(dtype, ({}, 0.0))
    accuracy = table.get(canonical(op))
    if accuracy is None:
        return result
    more = result.value.abs() * (accuracy.ulps * distance) + accuracy.absolute
    more = more.masked_fill_(~result.value.isfinite(), 0.0)
    return Bounded(result.value, result.error + more, result.scale, result.axis)
