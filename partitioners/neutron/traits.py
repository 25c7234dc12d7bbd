"""What an operator is to the graph around it: to its layout, to clusters and to quantization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Traits:
    """What holds for every application of one operator.

    channels_first: the positions of operands that it makes channels-first, together with its result.
    keeps_format: whether its result is channels-first where its operands are.
    is_auxiliary: whether it may stand unquantized between another operator and its quantize or dequantize nodes.
    narrows: whether its result holds only numbers of its first operand, clamped.
    fixed_output: the only scale and zero point that its result can have.
    """

    channels_first: tuple[int, ...] = ()
    keeps_format: bool = False
    is_auxiliary: bool = False
    narrows: bool = False
    fixed_output: tuple[float, int] | None = None


Operators = Mapping[str, Traits]
"""Operators of the edge dialect by name."""
