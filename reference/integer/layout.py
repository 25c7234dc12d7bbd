"""Operators that move codes, and QUANTIZE where the quantizations differ."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.golden.aten import aten
from npu_assay.reference.integer.operand import Given, operand, requantised
from npu_assay.reference.operators.home import ByName


@ByName
def moved(op: str) -> Callable[[Given, Affine], tuple[Tensor, ...]]:
    """The operator itself on codes, which lie one after the other. Memory formats and dim orders move no number."""
    function = aten(op)

    def rule(given: Given, y: Affine) -> tuple[Tensor, ...]:
        x = operand(given, "self")
        ignored = {"self", "memory_format", "dim_order", "non_blocking"}
        result = function(x.codes.contiguous(), *(v for k, v in given.items() if k not in ignored))
        pieces = [result] if isinstance(result, Tensor) else list(result)
        return tuple(requantised(piece.contiguous(), x.affine, y) for piece in pieces)

    return rule


def cat(given: Given, y: Affine) -> Tensor:
    pieces = [requantised(x.codes, x.affine, y) for x in given["tensors"]]
    return torch.cat(pieces, given["dim"])


def pad(given: Given, y: Affine) -> Tensor:
    """The constant is quantized by the input's parameters, ties to even."""
    x = operand(given, "self")
    code = round(float(given["value"]) / x.affine.scale32) + x.zero_point
    padded = torch.constant_pad_nd(x.codes, list(given["pad"]), min(max(code, -128), 127))
    return requantised(padded, x.affine, y)
