"""The end of XNNPACK's int8 products, one float32 multiplication, ties to even; and kernels on codes as steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from npu_assay.partitioners.common.int8.output import Bounds, Kernel, bounds, check_scales
from npu_assay.reference.affine import Affine, float32

REQUANTISATION_LIMIT = 256.0
"""The largest ratio of a product's scales that XNNPACK takes."""


def code(real: float, y: Affine) -> int:
    """The code of an activation's limit: f32(f32(real / scale) + zero point), ties to even, saturated."""
    return round(max(y.qmin, min(y.qmax, float32(float32(float32(real) / y.scale32) + y.zero_point))))


def ratios(x: Affine, w_scales: Sequence[float], y: Affine, outputs: int) -> Tensor:
    """f32(f32(sx * sw) / sy) for each output, or one number: float32.

    Raises ValueError for another number of scales than 1 or `outputs`, and for a ratio over 256.
    """
    check_scales(w_scales, outputs)
    weights = torch.tensor(list(w_scales), dtype=torch.float32)
    found = weights * x.scale32 / y.scale32
    if float(found.max()) > REQUANTISATION_LIMIT:
        raise ValueError(f"requantization ratio: found {float(found.max())}, expected at most {REQUANTISATION_LIMIT}")
    return found if len(set(found.tolist())) > 1 else found[0]


def fp32_stage(multiplier: Tensor, y: Affine, activation: Bounds | None = None) -> Kernel:
    """acc (a fresh float tensor of exact integers, channels last) -> steps of y, by `xnnpack_fp32`.

    multiplier: float32, one or one per index of the last axis. The accumulator may be written to.
    """
    lo, hi = bounds(y, activation)
    below, above = lo - y.zero_point, hi - y.zero_point
    return lambda acc: acc.float().mul_(multiplier).clamp_(below, above).round_()


@dataclass(frozen=True)
class OnCodes:
    """A kernel from int8 codes to int8 codes that computes on steps: codes less their zero point, in float32.

    Where the next kernel takes steps as well, a device need not make codes in between: `between`.
    given: the zero point of each operand, None for reals. found: the result's, None for reals.
    """

    steps: Callable[..., Tensor]
    given: tuple[int | None, ...]
    found: int | None

    def __call__(self, *operands: Tensor) -> Tensor:
        return to_codes(self.steps(*map(to_steps, operands, self.given)), self.found)

    def between(self, as_steps: Sequence[bool], to_steps_too: bool) -> Callable[..., Tensor]:
        """The kernel for operands that are steps already where `as_steps`, with a result in steps if asked for."""
        given = tuple(None if done else zero for done, zero in zip(as_steps, self.given, strict=True))
        found = None if to_steps_too else self.found
        direct = found is None and all(zero is None for zero in given)
        return self.steps if direct else OnCodes(self.steps, given, found)


def to_steps(codes: Tensor, zero_point: int | None) -> Tensor:
    """Codes less their zero point, float32; what has no zero point as it is. Fresh or untouched."""
    if zero_point is None:
        return codes
    return codes.float().sub_(zero_point) if zero_point else codes.float()


def to_codes(steps: Tensor, zero_point: int | None) -> Tensor:
    """int8 codes of steps, which stay as they are; what has no zero point as it is."""
    if zero_point is None:
        return steps
    return steps.add(zero_point).char() if zero_point else steps.char()
