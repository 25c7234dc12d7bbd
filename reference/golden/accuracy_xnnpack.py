"""How far XNNPACK's real kernels may be from the exact result, beside what rounding itself explains.

Sources of the numbers in the homes: the XNNPACK library of ExecuTorch 1.5.1 on x86 with AVX-512, against float64.
float32: 720,000 points up to 20 in size; float16: every finite number (sin and cos: up to 100). Processors that compute
in float16 themselves were measured on samples only; where they are farther off, their numbers stand there.
"""

from __future__ import annotations

import torch

from npu_assay.reference.golden.aten import canonical
from npu_assay.reference.golden.bounded import Bounded
from npu_assay.reference.operators.lookup import home


def allowed(op: str, result: Bounded, dtype: torch.dtype) -> Bounded:
    """The result with what its kernel may be off as well."""
    own = home(canonical(op))
    if own is None or own.kernels is None or dtype not in (torch.float32, torch.float16):
        return result
    single = dtype == torch.float32
    accuracy, distance = (own.kernels.fp32, 2.0**-23) if single else (own.kernels.fp16, 2.0**-10)
    more = result.value.abs() * (accuracy.ulps * distance) + accuracy.absolute
    more = more.masked_fill_(~result.value.isfinite(), 0.0)
    return Bounded(result.value, result.error + more, result.scale, result.axis)
