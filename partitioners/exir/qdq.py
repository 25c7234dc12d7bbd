"""Quantized computation in a graph: quantize and dequantize nodes, and their parameters."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import fx

from npu_assay.partitioners.exir.nodes import operand
from npu_assay.partitioners.exir.ops import (
    DEQUANTIZE,
    DEQUANTIZE_PER_TENSOR,
    GETITEM,
    QUANTIZE,
    QUANTIZE_PER_TENSOR,
    target_name,
)

SMALLEST_NORMAL = 2.0**-126
"""The smallest float32 with all of its 24 bits, and so the smallest scale that compiled models hold."""


@dataclass(frozen=True)
class QParams:
    """Per-tensor quantization as one quantize or dequantize node states it: real = scale * (code - zero_point)."""

    scale: float
    zero_point: int
    qmin: int
    qmax: int
    dtype: torch.dtype

    @property
    def scale32(self) -> float:
        """The scale as the compiled model holds it, rounded to float32 half to even (infinite beyond its range)."""
        try:
            return float(struct.unpack("f", struct.pack("f", self.scale))[0])
        except OverflowError:
            return math.inf

    def same_values(self, other: QParams) -> bool:
        """Whether equal codes mean equal numbers."""
        return (self.scale, self.zero_point, self.dtype) == (other.scale, other.zero_point, other.dtype)

    def defect(self) -> str | None:
        """Why int8 hardware cannot hold such a value; None if it can."""
        if self.dtype != torch.int8:
            return f"type {str(self.dtype).removeprefix('torch.')}"
        if not (math.isfinite(self.scale32) and self.scale32 >= SMALLEST_NORMAL):
            return f"scale {self.scale}"
        return None if -128 <= self.zero_point <= 127 else f"zero point {self.zero_point}"


def is_quantize(node: fx.Node) -> bool:
    """Whether the node is a quantize, per tensor or per channel, with constant parameters."""
    return node.op == "call_function" and target_name(node.target) in QUANTIZE


def is_dequantize(node: fx.Node) -> bool:
    """Whether the node is a dequantize, per tensor or per channel, with constant parameters."""
    return node.op == "call_function" and target_name(node.target) in DEQUANTIZE


def is_qdq(node: fx.Node) -> bool:
    """Whether the node converts between codes and numbers."""
    return is_quantize(node) or is_dequantize(node)


def is_compute(node: fx.Node) -> bool:
    """Whether the node applies an operator, other than quantize and dequantize."""
    return node.op == "call_function" and not is_qdq(node)


def qparams(node: object) -> QParams | None:
    """The parameters of a per-tensor quantize or dequantize node; None for any other object."""
    if not isinstance(node, fx.Node) or node.op != "call_function":
        return None
    if target_name(node.target) not in (QUANTIZE_PER_TENSOR, DEQUANTIZE_PER_TENSOR):
        return None
    arguments = list(node.args[1:6])
    names = ("scale", "zero_point", "quant_min", "quant_max", "dtype")
    arguments += [node.kwargs.get(name) for name in names[len(arguments) :]]
    scale, zero_point, low, high, dtype = arguments
    numbers = isinstance(scale, (int, float)) and isinstance(zero_point, int)
    if not (numbers and isinstance(low, int) and isinstance(high, int) and isinstance(dtype, torch.dtype)):
        return None
    return QParams(float(scale), int(zero_point), low, high, dtype)  # type: ignore[arg-type]  # checked above


def input_qparams(node: fx.Node, position: int = 0) -> QParams | None:
    """Quantization of a tensor argument that comes straight from a per-tensor dequantize."""
    return qparams(operand(node, position))


def output_quantize(node: fx.Node) -> fx.Node | None:
    """The first quantize that consumes the node's result, looking through the selection of result 0."""
    for user in node.users:
        if is_quantize(user):
            return user
        if target_name(user.target) == GETITEM and user.args[1] == 0:
            return output_quantize(user)
    return None


def output_qparams(node: fx.Node) -> QParams | None:
    """How the node's result is quantized, or None when it is not."""
    return qparams(output_quantize(node))


def is_constant(node: fx.Node, constants: Mapping[str, object]) -> bool:
    """Whether the compiler knows the node's result: it is a constant, or the dequantize of one by constants."""
    if is_dequantize(node):
        return all(is_constant(source, constants) for source in node.all_input_nodes)
    return node.op == "get_attr" or (node.op == "placeholder" and node.name in constants)
