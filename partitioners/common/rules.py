"""Rules that several vendors have, and how limits and pools are read. What a rule is, `exir.rules` says."""

from __future__ import annotations

from typing import Any

from torch import fx

from npu_assay.partitioners.exir.cluster import limits_of
from npu_assay.partitioners.exir.nodes import argument, operand, pair, rank, type_text, value
from npu_assay.partitioners.exir.qdq import QParams, is_dequantize, qparams
from npu_assay.partitioners.exir.rules import Rule, rule


def argument_is(name: str, wanted: object, left_out: object, position: int | None = None) -> Rule[Any]:
    """The rule on an argument with one allowed value; `left_out` is its value when it is not given.

    Without a position it is given by keyword only.
    """

    def check(node: fx.Node, context: object) -> str | None:
        found = node.kwargs.get(name, left_out) if position is None else argument(node, position, name, left_out)
        return None if found == wanted else f"{name} = {found}"

    return Rule(name, f"{name} must be {wanted}", check)


def rank_is(*allowed: int, position: int = 0) -> Rule[Any]:
    """The rule on the rank of an operand."""

    def check(node: fx.Node, context: object) -> str | None:
        found = rank(operand(node, position))
        return None if found in allowed else f"rank {found}"

    *others, last = map(str, allowed)
    ranks = f"{', '.join(others)} or {last}" if others else last
    return Rule("rank", f"the input must have rank {ranks}", check)


@rule("step")
def step_is_one(node: fx.Node, context: object) -> str | None:
    """the step must be 1"""
    found = argument(node, 4, "step", 1)
    return None if found == 1 else f"step {found}"


@rule("no_conversion")
def no_conversion(node: fx.Node, context: object) -> str | None:
    """input and output must have the same type"""
    before, after = value(operand(node)), value(node)
    if before is None or after is None or before.dtype == after.dtype:
        return None
    return f"{type_text(before.dtype)} to {type_text(after.dtype)}"


def qparams_change(before: QParams | None, after: QParams | None) -> str | None:
    """How equal codes mean different numbers before and after an operator; None when they do not, or are unknown."""
    if before is None or after is None or before.same_values(after):
        return None
    return f"({before.scale}, {before.zero_point}) in, ({after.scale}, {after.zero_point}) out"


def other_meaning(dequantize: fx.Node) -> str | None:
    """What gives the codes that a dequantize reads another scale or zero point; None when nothing does."""
    source, params = operand(dequantize), qparams(dequantize)
    if source is None or params is None:
        return None
    for other in (source, *filter(is_dequantize, source.users)):
        known = qparams(other)
        if known is not None and not known.same_values(params):
            return f"{dequantize.name} and {other.name} differ"
    return None


def bounds(node: fx.Node) -> tuple[float, float]:
    """The limits of a relu, hardtanh or clamp; infinite where there is none."""
    low, high = limits_of(node)
    return float(low), float(high)


def pool_kernel(node: fx.Node) -> tuple[int, int]:
    """Height and width of a pool's window."""
    found = pair(argument(node, 1, "kernel_size"))
    assert found is not None, "torch requires a window"
    return found


def pool_stride(node: fx.Node) -> tuple[int, int]:
    """Vertical and horizontal stride of a pool; the window when left out."""
    return pair(argument(node, 2, "stride")) or pool_kernel(node)


def pool_padding(node: fx.Node) -> tuple[int, int]:
    """Rows and columns that a pool adds on either side."""
    return pair(argument(node, 3, "padding")) or (0, 0)


def adaptive_windows(size: int, count: int) -> list[tuple[int, int]]:
    """Start and end of each window of an adaptive pool along an axis."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
