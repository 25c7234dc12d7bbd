"""Scales and zero points: read from quantize and dequantize nodes, and found for values between them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx

from npu_assay.partitioners.exir.compiling import refusal, require
from npu_assay.partitioners.exir.ops import QUANTIZE_PER_TENSOR, target_name
from npu_assay.partitioners.exir.qdq import SMALLEST_NORMAL
from npu_assay.reference.affine import float32


@dataclass(frozen=True)
class Quantisation:
    """real = scale * (code - zero point). One scale, or one per index of `axis`; all are float32 numbers."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int = 0

    @property
    def scale(self) -> float:
        """The scale of a per-tensor quantization."""
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        """The zero point of a per-tensor quantization."""
        return self.zero_points[0]

    @property
    def per_channel(self) -> bool:
        """Whether there is a scale for each index of `axis`."""
        return len(self.scales) > 1

    def moved(self, axis: int) -> Quantisation:
        """The same scales along another axis."""
        return Quantisation(self.scales, self.zero_points, axis)


# The largest float32 number.
LARGEST = (2 - 2.0**-23) * 2.0**127

LOGISTIC_OUTPUT = (1 / 256, -128)
TANH_OUTPUT = (1 / 128, 0)
"""Scale and zero point."""


def per_tensor(node: fx.Node) -> Quantisation:
    """The parameters of a per-tensor quantize or dequantize node. Raises CompileError unless they are fit numbers."""
    scale, zero_point = node.args[1], node.args[2]
    if not isinstance(scale, (int, float)) or not isinstance(zero_point, int):
        raise refusal(node, "quantization that is not constant", f"{scale}, {zero_point}", "numbers")
    return Quantisation((stored_scale(node, scale),), (zero_point,))


def stored_scale(node: fx.Node, scale: float) -> float:
    """The scale as a flatbuffer stores it. Raises CompileError unless that is a positive normal float32."""
    require(SMALLEST_NORMAL <= scale <= LARGEST, node, "scale", scale, f"a float32 from {SMALLEST_NORMAL} to {LARGEST}")
    return float32(scale)


def activation(node: fx.Node) -> Quantisation:
    """The parameters of a quantize node, whose codes must be full-range int8."""
    low, high, dtype = node.args[3:6]
    require(
        dtype == torch.int8 and (low, high) == (-128, 127),
        node,
        "quantized type",
        f"{dtype} in [{low}, {high}]",
        "torch.int8 in [-128, 127]",
    )
    found = per_tensor(node)
    require(-128 <= found.zero_point <= 127, node, "zero point", found.zero_point, "an int8 code")
    return found


def output_quantisation(node: fx.Node) -> Quantisation:
    """The parameters of a float result.

    They are those of the quantize node after it, or, where an activation or a move is fused, of the next one.
    """
    for user in node.users:
        if target_name(user.target) == QUANTIZE_PER_TENSOR:
            return activation(user)
    for user in node.users:
        if user.op == "call_function":
            return output_quantisation(user)
    raise refusal(node, "result without quantization", "no quantize node after it", "a quantize node")
