"""XNNPACK's simulated device with one fault in how it rounds sums, such as `rounding_faults:half_down` or `:from_7`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from unittest.mock import patch

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.output import Bounds, bounds
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.xnnpack import backend
from npu_assay.partitioners.xnnpack.kernels import accumulators, elementwise, linear
from npu_assay.reference.affine import Affine

TERMS = [0]
"""The number of products in the sums that were made last."""
FROM = "from_"


@dataclass
class Sums:
    """Sums as real numbers in steps of the output, and the ratio of scales."""

    real: Tensor
    ratio: Tensor
    nearest: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.nearest = self.real.round()

    def where(self, wrong: Tensor | bool, otherwise: Tensor) -> Tensor:
        """The nearest code but where something is wrong."""
        return torch.where(torch.as_tensor(wrong), otherwise, self.nearest)


def _tail(sums: Sums) -> Tensor:
    """The elements past the first 1,024."""
    return (torch.arange(sums.real.numel()) >= 1024).reshape(sums.real.shape)


def _dies(sums: Sums) -> Tensor:
    if bool((sums.ratio <= 2.0**-9).any()):
        os.abort()
    return sums.nearest


FAULTS: dict[str, Callable[[Sums], Tensor]] = {
    "healthy": lambda sums: sums.nearest,
    "biased": lambda sums: (sums.real + 0.02).round(),
    "negative_biased": lambda sums: (sums.real - 0.04 * (sums.real < 0)).round(),
    "half_down": lambda sums: (sums.real - 0.5).ceil(),
    "truncating": lambda sums: sums.real.trunc(),
    "terms_17": lambda sums: sums.where(TERMS[0] >= 17, sums.real.floor()),
    "size_1025": lambda sums: sums.where(sums.real.numel() >= 1025, sums.real.floor()),
    "tail_1025": lambda sums: sums.where(_tail(sums), sums.real.floor()),
    "dies": _dies,
    **{
        f"{FROM}{k}": partial(lambda limit, sums: sums.where(sums.ratio <= limit, sums.real.trunc()), 2.0**-k)
        for k in range(1, 21)
    },
}


def _stage(
    fault: Callable[[Sums], Tensor], multiplier: Tensor, y: Affine, activation: Bounds | None = None
) -> Callable[[Tensor], Tensor]:
    low, high = (end - y.zero_point for end in bounds(y, activation))
    ratio = multiplier.double()
    return lambda sums: fault(Sums(sums.double() * ratio, ratio)).clamp(low, high).float()


def _counting(make: Callable[..., Callable[[Tensor], Tensor]], weights: Tensor, *rest: object) -> object:
    multiply = make(weights, *rest)

    def counted(steps: Tensor) -> Tensor:
        TERMS[0] = weights[0].numel()
        return multiply(steps)

    return counted


def inject(name: str) -> ExitStack:
    """The fault in this process, until the stack is closed."""
    stack = ExitStack()
    for module in (linear, elementwise):
        stack.enter_context(patch.object(module, "fp32_stage", partial(_stage, FAULTS[name])))
    stack.enter_context(patch.object(accumulators, "linear", partial(_counting, accumulators.linear)))
    return stack


def __getattr__(name: str) -> Backend:
    if name not in FAULTS:
        raise AttributeError(name)
    inject(name)
    return backend
