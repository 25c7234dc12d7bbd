"""How far XNNPACK's real kernels may be from the exact result: by operator, beside what rounding itself explains.

Source: measured against ExecuTorch 1.5.1's runtime on tens of thousands of points per operator, up to 20 in size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from reference.golden.aten import canonical
from reference.golden.bounded import Bounded


@dataclass(frozen=True)
class Accuracy:
    """An error of at most `ulps` * |result| * the type's distance at 1, plus `absolute`."""

    ulps: float = 0.0
    absolute: float = 0.0


FLOAT32: Mapping[str, Accuracy] = MappingProxyType(
    {
        "aten.elu.default": Accuracy(2),
        "aten.exp.default": Accuracy(29),
        "aten.gelu.default": Accuracy(2, 1.0e-6),
        "aten.hardswish.default": Accuracy(2, 1.0e-6),
        "aten.log.default": Accuracy(4, 1.2e-7),
        "aten.rsqrt.default": Accuracy(2),
        "aten.sigmoid.default": Accuracy(4),
        "aten.sqrt.default": Accuracy(2),
        "aten._softmax.default": Accuracy(6),
        "aten.sin.default": Accuracy(2, 3.0e-7),
        "aten.cos.default": Accuracy(2, 3.0e-7),
        "aten.tanh.default": Accuracy(5),
    }
)

FLOAT16: Mapping[str, Accuracy] = MappingProxyType(
    {
        "aten.elu.default": Accuracy(4, 2.0**-14),
        "aten.exp.default": Accuracy(8, 2.0**-14),
        "aten.hardswish.default": Accuracy(3),
        "aten.leaky_relu.default": Accuracy(1),
        "aten.log.default": Accuracy(4, 2.0**-10),
        "aten.rsqrt.default": Accuracy(1),
        "aten.sigmoid.default": Accuracy(8, 2.0**-14),
        "aten.sqrt.default": Accuracy(1),
        "aten._softmax.default": Accuracy(5, 2.0**-14),
        "aten.sin.default": Accuracy(3),
        "aten.cos.default": Accuracy(3),
        "aten.tanh.default": Accuracy(3),
    }
)

_TYPES = {torch.float32: (FLOAT32, 2.0**-23), torch.float16: (FLOAT16, 2.0**-10)}


def allowed(op: str, result: Bounded, dtype: torch.dtype) -> Bounded:
    """The result with what its kernel may be off as well."""
    table, distance = _TYPES.get(dtype, ({}, 0.0))
    accuracy = table.get(canonical(op))
    if accuracy is None:
        return result
    more = result.value.abs() * (accuracy.ulps * distance) + accuracy.absolute
    return Bounded(result.value, result.error + more, result.scale, result.axis)
