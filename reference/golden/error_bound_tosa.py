"""How far Arm's arithmetic (TOSA 1.0) may be off, in output steps, beside half a step and float32's relative errors.

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
from npu_assay.reference.operators.home import GOLDENS, ByName, loaded
from npu_assay.reference.operators.lookup import home

ErrorBound = float | Tensor
Given = Mapping[str, Any]  # arguments by their schema names

RELATIVE_WIDE = 2.0**-15
"""Half a bit of a multiplier of 15 bits, of which the first may be the only one set."""

_BIAS_SCALE = 2.0**-23
"""A bias counts in products of two scales; its own is such a product, rounded to float32."""

_NODES, LIMIT = 128, 2**15
"""Codes from one entry of a 16-bit table to the next, and how many codes there are on either side of zero."""


Rule = Callable[..., ErrorBound]


def rule_of(op: str, scheme: str) -> Rule | None:
    """The rule for an operator's error bound in a scheme, as its home names it; None for an operator without codes."""
    own = home(op)
    codes = None if own is None else own.codes(scheme)
    return None if codes is None else loaded(codes.error_bound, GOLDENS, op)


def error_bound(op: str, given: Given, result: Bounded, step: float, *, wide: bool) -> ErrorBound:
    """What the operator's own roundings before the last may change, broadcasting to the result.

    wide: codes have 16 bits.
    """
    rule, scales = rule_of(op, "tosa_single_round"), _scales(given)
    return rule(given, result, step, wide) if rule is not None and scales else 0.0


def _scales(given: Given) -> list[float]:
    return [x.scale for x in operands(list(given.values())) if isinstance(x.scale, float)]


def sum_(given: Given, result: Bounded, step: float, wide: bool) -> ErrorBound:
    """Add, sub: both operands count in fractions of the larger scale."""
    return 2 * max(_scales(given)) / 2.0 ** (12 if wide else 20) / step


def smaller_scale(given: Given, result: Bounded, step: float, wide: bool) -> ErrorBound:
    """Operators that take their operands to whole steps of the smallest scale."""
    scales = _scales(given)
    return 0.0 if len(set(scales)) == 1 else 0.5 * min(scales) / step


def rescaled(given: Given, result: Bounded, step: float, wide: bool) -> ErrorBound:
    """One rescale of the accumulator, which holds the bias where there is one."""
    bias = given.get("bias")
    if not isinstance(bias, Bounded) or not bias.value.numel():
        return 0.0
    found = float(bias.value.abs().max()) * _BIAS_SCALE / step
    return found if _has_accumulator_steps(given, bias) else found + rounded_bias(given, step)


def _steps(given: Given, bias: Bounded) -> Tensor | None:
    """Input scale * weight scale for each scale of the bias; None of operands whose products no integers add up."""
    x, weights = given["input"].scale, torch.tensor(given["weight"].scale, dtype=torch.float64).reshape(-1)
    outputs = bias.value.numel()
    if not isinstance(x, float) or outputs % weights.numel():
        return None
    return (x * weights).repeat(outputs // weights.numel())


def _has_accumulator_steps(given: Given, bias: Bounded) -> bool:
    """Whether the bias counts in input scale * weight scale, as far as float32 tells, or no integers add it up."""
    wanted = _steps(given, bias)
    if wanted is None:
        return True
    own = torch.tensor(bias.scale or 0.0, dtype=torch.float64)
    return torch.allclose(own, wanted, rtol=2 * _BIAS_SCALE, atol=0.0)


def rounded_bias(given: Given, step: float) -> ErrorBound:
    """linear, convolution: a bias of other steps is rounded to one of the accumulator, per output channel.

    A transposed convolution has the scales of one group's outputs; all groups share them. Scales along another axis
    than the outputs' count as the largest: no integers add such products up.
    """
    x, weight = given["input"], given["weight"]
    if not isinstance(x.scale, float):  # no integers add such products up
        return 0.0
    scales = weight.scale if isinstance(weight.scale, tuple) else (weight.scale,)
    halves = [0.5 * x.scale * scale / step for scale in scales] * (given["groups"] if given.get("transposed") else 1)
    if len(halves) != given["bias"].value.numel():
        return float(max(halves))
    rank = x.value.dim() - 2 if "transposed" in given else 0
    return torch.tensor(halves, dtype=torch.float64).reshape(-1, *[1] * rank)


def product(given: Given, result: Bounded, step: float, wide: bool) -> ErrorBound:
    """Operators that sum 16-bit codes in 48 bits, whose multipliers then have 15 bits."""
    found: ErrorBound = result.magnitude / step * RELATIVE_WIDE if wide else 0.0
    return found + rescaled(given, result, step, wide)


def own_steps(given: Given, result: Bounded, step: float, wide: bool) -> ErrorBound:
    """Operators that round to the operand's steps, and are rescaled where the output's differ."""
    scales = _scales(given)
    return 0.5 * scales[0] / step if scales[0] != step else 0.0


def window(given: Given, result: Bounded, step: float, wide: bool) -> ErrorBound:
    """Average pools, which have a divisor of their own, and resizes: both."""
    return product(given, result, step, wide) + own_steps(given, result, step, wide)


@ByName
def looked_up(op: str) -> Rule:
    """Functions from a table: entries are computed in float32 and quantized as torch does it; 16 bits interpolate."""

    def rule(given: Given, result: Bounded, step: float, wide: bool) -> ErrorBound:
        x = next(x for x in operands(list(given.values())) if isinstance(x.scale, float))
        return _between(op, given, x, step) if wide and _has_table(given) else 0.0

    return rule


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
    """The error bound for one number each, before the result is rounded."""
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

    Of each power of two, the largest of so many neighbors is known; two of those cover a range.
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
    if not _at_smaller_scale(op) or len(scales) < 2 or not all(isinstance(scale, float) for scale in scales):
        return args
    half = 0.5 * min(scale for scale in scales if isinstance(scale, float))
    return tuple(_off(x, half) if isinstance(x, Bounded) else x for x in args)


def is_looked_up(op: str) -> bool:
    """Whether Arm's devices take an operator's result from a table, whose entries are computed in float32."""
    own = home(op)
    codes = None if own is None else own.codes("tosa_single_round")
    return codes is not None and codes.error_bound == LOOKED_UP


def _at_smaller_scale(op: str) -> bool:
    own = home(op)
    codes = None if own is None else own.codes("tosa_single_round")
    return own is not None and (own.compares or (codes is not None and codes.error_bound == SMALLER_SCALE))


LOOKED_UP, SMALLER_SCALE = "error_bound_tosa:looked_up", "error_bound_tosa:smaller_scale"


def _off(x: Bounded, by: float) -> Bounded:
    off = as_bounded(x)
    return Bounded(off.value, off.spread() + by, off.scale, off.axis)
