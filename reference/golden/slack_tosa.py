"""The slack of Arm's integer arithmetic (TOSA 1.0), in output steps, beside half a step and float32's relative errors.

Source: TOSA 1.0's RESCALE and TABLE, and the scales to which Arm's compiler takes operands first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from npu_assay.reference.golden.aten import aten
from npu_assay.reference.golden.bounded import Bounded, as_bounded, operands

Slack = float | Tensor
Given = Mapping[str, Any]  # arguments by their schema names

_FUNCTIONS = (
    "acos acosh asin asinh atan atanh celu ceil cos cosh elu erf erfinv exp expm1 floor gelu hardsigmoid hardswish "
    "leaky_relu log log10 log1p reciprocal round rsqrt selu sigmoid sign silu sin sinh tan tanh"
)
TABLES = frozenset(f"aten.{name}.default" for name in _FUNCTIONS.split()) | {
    "aten.div.Tensor_mode",
    "aten.pow.Tensor_Scalar",
    "aten.pow.Tensor_Tensor",
    "aten.remainder.Scalar",
    "aten.remainder.Tensor",
}
"""Operators whose results are looked up: entries are computed in float32 and quantised as torch does it."""

PRODUCTS = frozenset(
    {
        "aten.avg_pool2d.default",
        "aten.bmm.default",
        "aten.convolution.default",
        "aten.cumsum.default",
        "aten.linear.default",
        "aten.mm.default",
        "aten.upsample_bilinear2d.vec",
    }
)
"""Operators that sum 16-bit codes in 48 bits, whose multipliers then have 15 bits (a pool with its own divisor)."""

RELATIVE_WIDE = 2.0**-15
"""Half a bit of a multiplier of 15 bits, of which the first may be the only one set."""

SMALLER_SCALE = frozenset(f"aten.{name}.Tensor" for name in ("eq", "ne", "ge", "gt", "le", "lt")) | {
    "aten.maximum.default",
    "aten.minimum.default",
    "aten.clamp.Tensor",
}
"""Operators that take their operands to whole steps of the smallest scale."""

_BIAS_SCALE = 2.0**-23
"""A bias counts in products of two scales; its own is such a product, rounded to float32."""

_NODES, LIMIT = 128, 2**15
"""Codes from one entry of a 16-bit table to the next, and how many codes there are on either side of zero."""


def slack(op: str, given: Given, result: Bounded, step: float, *, wide: bool) -> Slack:
    """What the operator's own roundings before the last may change, broadcasting to the result.

    wide: codes have 16 bits.
    """
    found = [x for x in operands(list(given.values())) if isinstance(x.scale, float)]
    if not found:
        return 0.0
    scales = [float(x.scale) for x in found if isinstance(x.scale, float)]
    if op in ("aten.add.Tensor", "aten.sub.Tensor"):
        return 2 * max(scales) / 2.0 ** (12 if wide else 20) / step
    if op in SMALLER_SCALE:
        return 0.0 if len(set(scales)) == 1 else 0.5 * min(scales) / step
    if op in TABLES:
        return _between(op, given, found[0], step) if wide and _has_table(given) else 0.0
    found_slack: Slack = result.magnitude / step * RELATIVE_WIDE if wide and op in PRODUCTS else 0.0
    if isinstance(given.get("bias"), Bounded) and given["bias"].value.numel():
        found_slack = found_slack + float(given["bias"].value.abs().max()) * _BIAS_SCALE / step
    if op in _IN_OWN_STEPS and scales[0] != step:
        return found_slack + 0.5 * scales[0] / step
    return found_slack


_IN_OWN_STEPS = frozenset(
    {
        "aten._adaptive_avg_pool2d.default",
        "aten.avg_pool2d.default",
        "aten.constant_pad_nd.default",
        "aten.pad.default",
        "aten.upsample_bilinear2d.vec",
    }
)
"""Operators that round to the operand's steps, and are rescaled where the output's differ."""


def _between(op: str, given: Given, x: Bounded, step: float) -> Tensor:
    """How far a straight line between two entries, each rounded, is from the function itself.

    An operand that is off may be looked up at any of the codes that it can have.
    """
    scale = x.scale
    assert isinstance(scale, float)
    function = _function(op, given)
    apart = _apart(function, x.value, scale, step)
    off = x.spread()
    if bool(off.any()):
        codes = torch.arange(-LIMIT, LIMIT, dtype=torch.float64)
        ends = ((x.value + side) / scale + 0.5 for side in (-off, off))
        low, high = (torch.floor(end).nan_to_num().clamp(-LIMIT, LIMIT - 1) for end in ends)
        worst = largest_within(_apart(function, codes * scale, scale, step), low.long() + LIMIT, high.long() + LIMIT)
        apart = torch.maximum(apart, worst)
    return apart + 0.5


def _apart(function: Callable[[Tensor], Tensor], x: Tensor, scale: float, step: float) -> Tensor:
    """The same of one number each, before the result is rounded."""
    limit = float(LIMIT)
    places = torch.arange(-LIMIT, LIMIT + 1, _NODES, dtype=torch.float64)
    # Where a function jumps, float32 may be on the other side.
    single = places.to(torch.float32) * torch.tensor(scale, dtype=torch.float32)
    tables = [function(nodes).to(torch.float64) / step for nodes in (places * scale, single)]
    codes = (x / scale).round().clamp(-limit, limit - 1)
    below = torch.floor(codes / _NODES)
    index = (below + limit / _NODES).long()
    part = codes / _NODES - below
    exact = function(x) / step
    apart = torch.zeros_like(exact)
    for entries, most in ((entries, most) for entries in tables for most in (limit, limit - 1)):
        ends = entries.clamp(-most, most)
        line = ends[index] * (1 - part) + torch.where(part > 0, ends[index + 1] * part, 0.0)
        # Beyond the last code, only what is short of it counts.
        short = torch.where(line.abs() >= most, line - exact.clamp(-most, most), line - exact)
        apart = torch.maximum(apart, torch.where(short.isnan(), math.inf, short.abs()))
    return apart


def largest_within(numbers: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """The largest of `numbers[first:last + 1]`, for indices of any shape. Every range has at least one number.

    Of each power of two, the largest of so many neighbours is known; two of those cover a range.
    """
    found = torch.empty(first.shape, dtype=numbers.dtype)
    width, runs = 1, numbers
    while True:
        here = (last - first + 1 >= width) & (last - first + 1 < 2 * width)
        found[here] = torch.maximum(runs[first[here]], runs[last[here] + 1 - width])
        if not bool((last - first + 1 >= 2 * width).any()):
            return found
        runs = torch.maximum(runs[:-width], runs[width:])
        width *= 2


def _function(op: str, given: Given) -> Callable[[Tensor], Tensor]:
    _, *rest = given
    options = {name: _number(given[name]) for name in rest}
    return lambda numbers: aten(op)(numbers, **options)


def _has_table(given: Given) -> bool:
    """Whether the result depends on the first operand alone: every other one is a single number."""
    _, *rest = given.values()
    return all(x.value.numel() == 1 for x in operands(rest))


def _number(argument: Any) -> Any:
    return argument.value.reshape(()) if isinstance(argument, Bounded) else argument


def rounded_operands(op: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of a comparison of codes, each off by half a step of the smaller scale where scales differ."""
    scales = {x.scale for x in operands(args)}
    if op not in SMALLER_SCALE or len(scales) < 2 or not all(isinstance(scale, float) for scale in scales):
        return args
    half = 0.5 * min(scale for scale in scales if isinstance(scale, float))
    return tuple(_off(x, half) if isinstance(x, Bounded) else x for x in args)


def _off(x: Bounded, by: float) -> Bounded:
    off = as_bounded(x)
    return Bounded(off.value, off.spread() + by, off.scale, off.axis)
