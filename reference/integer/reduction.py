"""Reductions over named dimensions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import tflite
from npu_assay.reference.integer.operand import (
    Given,
    QTensor,
    Rule,
    operand,
    requantised,
)


def mean(given: Given, y: Affine) -> Tensor:
    x = operand(given, "self")
    return tflite.mean(x.codes, _axes(given, x), bool(given["keepdim"]), x.affine, y)


def total(given: Given, y: Affine) -> Tensor:
    x = operand(given, "self")
    return tflite.total(x.codes, _axes(given, x), bool(given["keepdim"]), x.affine, y)


def _reduced(function: Callable[[Tensor, list[int], bool], Tensor]) -> Rule:
    """One of the codes over some dimensions, in the quantization of the result."""

    def rule(given: Given, y: Affine) -> Tensor:
        x = operand(given, "self")
        return requantised(function(x.codes, _axes(given, x), bool(given["keepdim"])), x.affine, y)

    return rule


amax, amin = _reduced(torch.amax), _reduced(torch.amin)


def _axes(given: Given, x: QTensor) -> list[int]:
    """The dimensions that a reduction takes away, counted from the front; all where none is named."""
    dims = given["dim"]
    axes = [dims] if isinstance(dims, int) else list(dims or range(x.codes.dim()))
    return [axis % max(1, x.codes.dim()) for axis in axes]
