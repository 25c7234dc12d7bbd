"""What an operator is to the graph around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What holds for every application of one operator.

    moves: its result has the codes of its one operand; reads_moved: it may read results of such operators without
    quantization in between, as they may themselves. splits: its results are parts of its operand.
    is_constant: it returns numbers that the program states.
    is_weighted: its second and third operand are weights and bias; an activation may become part of it.
    limits: it only limits numbers, see `common.rules.bounds`; is_activation: it may become part of another.
    needs_codes: it computes with the scale of its operand, which integers that stand for themselves do not have.
    is_unsigned: its result is never negative; keeps_sign: nor is it where the operands are not.
    """

    moves: bool = False
    reads_moved: bool = False
    splits: bool = False
    is_constant: bool = False
    is_weighted: bool = False
    limits: bool = False
    is_activation: bool = False
    needs_codes: bool = False
    is_unsigned: bool = False
    keeps_sign: bool = False


Operators = Mapping[str, Traits]
"""Operators by name."""
