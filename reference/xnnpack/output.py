"""The end of XNNPACK's int8 products: one float32 multiplication, ties to even, then the zero point."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from reference.affine import Affine, check_scale, float32

Kernel = Callable[[Tensor], Tensor]
Kernel2 = Callable[[Tensor, Tensor], Tensor]
Bounds = tuple[int, int]

REQUANTISATION_LIMIT = 256.0
"""The largest ratio of a product's scales that XNNPACK takes."""


def limits(y: Affine, activation: Bounds | None) -> Bounds:
    """The codes an output may take: the type's range, narrowed by a fused activation."""
    if activation is None:
        return y.qmin, y.qmax
    lo, hi = activation
    if not y.qmin <= lo <= hi <= y.qmax:
        raise ValueError(f"activation codes: found {activation}, expected lo <= hi within [{y.qmin}, {y.qmax}]")
    return lo, hi


def code(real: float, y: Affine) -> int:
    """The code of an activation's limit: f32(f32(real / scale) + zero point), ties to even, saturated."""
    return round(max(y.qmin, min(y.qmax, float32(float32(float32(real) / y.scale32) + y.zero_point))))


def ratios(x: Affine, w_scales: Sequence[float], y: Affine, outputs: int) -> Tensor:
    """f32(f32(sx * sw) / sy) for each output, or one number: float32.

    Raises ValueError for another number of scales than 1 or `outputs`, and for a ratio over 256.
    """
    if len(w_scales) not in (1, outputs):
        raise ValueError(f"weight scales: found {len(w_scales)}, expected 1 or {outputs}, one per output")
    for scale in w_scales:
        check_scale(scale, "weight scale")
    weights = torch.tensor(list(w_scales), dtype=torch.float32)
    found = weights * x.scale32 / y.scale32
    if float(found.max()) > REQUANTISATION_LIMIT:
        raise ValueError(f"requantisation ratio: found {float(found.max())}, expected at most {REQUANTISATION_LIMIT}")
    return found if len(set(found.tolist())) > 1 else found[0]


def fp32_stage(multiplier: Tensor, y: Affine, activation: Bounds | None = None) -> Kernel:
    """acc (a fresh float tensor of exact integers, channels last) -> int8, by `xnnpack_fp32`.

    multiplier: float32, one or one per index of the last axis. The accumulator may be written to.
    """
    lo, hi = limits(y, activation)
    below, above = lo - y.zero_point, hi - y.zero_point

    def apply(acc: Tensor) -> Tensor:
        value = acc.float().mul_(multiplier).clamp_(below, above).round_()
        return value.add_(y.zero_point).char() if y.zero_point else value.char()

    return apply
