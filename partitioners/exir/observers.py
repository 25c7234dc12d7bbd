"""torchao's observers, which also warn of scales that they had to clamp.

An observer's smallest scale, `eps`, leaves a tensor of tiny numbers few codes: with 2**-12, numbers up to 1e-4 become
code 0. Needs the extra `quantize` (torchao).
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from npu_assay.partitioners.exir import pt2e

CODES = 256
"""The codes of int8. A clamp that leaves as many, as is possible in 16 bits, is not reported."""


class ClampedScaleWarning(UserWarning):
    """A quantizer has given a tensor a larger scale than its numbers need, so that it uses few codes."""


class _Reporting:
    """Warns once, when the parameters are calculated."""

    eps: Tensor
    _reported = False

    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> Any:
        if not self._reported:
            self._reported = _report(min_val, max_val, float(self.eps.max()))
        return super()._calculate_qparams(min_val, max_val)  # type: ignore[misc]  # torchao's observers have it


class HistogramObserver(_Reporting, pt2e.HistogramObserver):  # type: ignore[misc]  # torchao has no annotations
    """For activations."""


class MinMaxObserver(_Reporting, pt2e.MinMaxObserver):  # type: ignore[misc]  # torchao has no annotations
    """For weights with one scale."""


class PerChannelMinMaxObserver(_Reporting, pt2e.PerChannelMinMaxObserver):  # type: ignore[misc]  # as above
    """For weights with a scale per channel."""


def _report(least: Tensor, largest: Tensor, smallest_scale: float) -> bool:
    """Warn if a range that is not empty has fewer than `CODES` codes at the smallest scale; whether it did."""
    width = largest.clamp(min=0) - least.clamp(max=0)
    codes = width / smallest_scale + 1
    clamped = (width > 0) & torch.isfinite(width) & (codes < CODES)
    count = int(clamped.sum())
    if count:
        low, high = float(least[clamped].min()), float(largest[clamped].max())
        what = "A tensor" if clamped.numel() == 1 else f"{count} of {clamped.numel()} channels of a weight"
        warnings.warn(
            f"{what} with numbers from {low:g} to {high:g} gets the scale {smallest_scale:g}, the smallest possible: "
            f"about {round(float(codes[clamped].max()))} of {CODES} codes are left",
            ClampedScaleWarning,
            stacklevel=3,
        )
    return count > 0
