"""Specifications of activations, weights and biases."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch.fx import Node

from npu_assay.partitioners.exir.annotations import activation_spec, bias_spec, weight_spec
from npu_assay.partitioners.exir.observers import HistogramObserver
from npu_assay.partitioners.exir.pt2e import DerivedQuantizationSpec, FixedQParamsQuantizationSpec, QuantizationSpec

aten = torch.ops.aten
SMALLEST_8 = 2.0**-16
SMALLEST_16 = 2.0**-12
"""Smallest scales of int8 tensors and of int16 activations."""
LARGEST_16 = 32767


@dataclass(frozen=True)
class QuantizationConfig:
    """How to quantize. Take one from `get_symmetric_quantization_config` or `get_symmetric_a16w8_quantization_config`.

    activation: per tensor. weight: symmetric int8, per tensor or along the first axis; transposed: the same along the
    second axis, where transposed convolutions without groups have their output channels; grouped: per tensor, for
    transposed convolutions with groups.
    """

    activation: QuantizationSpec
    weight: QuantizationSpec
    transposed: QuantizationSpec
    grouped: QuantizationSpec

    @property
    def is_affine(self) -> bool:
        """Whether activations have zero points; without, a relu keeps its own input."""
        return bool(self.activation.qscheme == torch.per_tensor_affine)

    def weights_of(self, node: Node) -> QuantizationSpec:
        """The specification of a product's weights."""
        if node.target != aten.conv_transpose2d.input:
            return self.weight
        groups = node.args[6] if len(node.args) > 6 else node.kwargs.get("groups", 1)
        return self.transposed if groups == 1 else self.grouped

    def bias_of(self, node: Node) -> DerivedQuantizationSpec:
        """int32, with the product of the scales of input and weights."""
        data, weight = node.args[:2]
        assert isinstance(data, Node) and isinstance(weight, Node)  # by the operators' schemas
        per_channel = self.weights_of(node).ch_axis is not None
        return bias_spec(node, data, weight, per_channel, _product_of_scales)

    def fixed_input(self, domain: tuple[float, float]) -> FixedQParamsQuantizationSpec:
        """The input of an operator with a bounded domain: its largest number in 8 and in 16 bits."""
        info = torch.iinfo(self.activation.dtype)
        largest = domain[info.bits > 8]
        return FixedQParamsQuantizationSpec(
            dtype=self.activation.dtype,
            scale=2 * largest / 2**info.bits,
            zero_point=0,
            quant_min=self.activation.quant_min,
            quant_max=self.activation.quant_max,
            qscheme=self.activation.qscheme,
        )


def integers(dtype: torch.dtype) -> FixedQParamsQuantizationSpec:
    """Real numbers that are integers of a type: scale 1."""
    info = torch.iinfo(dtype)
    return FixedQParamsQuantizationSpec(
        dtype=dtype,
        scale=1.0,
        zero_point=0,
        quant_min=info.min,
        quant_max=info.max,
        qscheme=torch.per_tensor_symmetric,
    )


def _product_of_scales(observers: list[torch.nn.Module]) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and zero points of a bias from the observers of input and weights; float32."""
    (data, _), (weight, _) = (observer.calculate_qparams() for observer in observers)  # type: ignore[operator]
    return (data * weight).to(torch.float32), torch.zeros_like(weight, dtype=torch.int32)


def wide_spec() -> QuantizationSpec:
    """int16 [-32767, 32767], per-tensor symmetric."""
    return QuantizationSpec(
        dtype=torch.int16,
        observer_or_fake_quant_ctr=HistogramObserver.with_args(eps=SMALLEST_16),
        quant_min=-LARGEST_16,
        quant_max=LARGEST_16,
        qscheme=torch.per_tensor_symmetric,
    )


@cache
def get_symmetric_quantization_config(is_per_channel: bool = True) -> QuantizationConfig:
    """int8 activations with zero points, symmetric int8 weights."""
    return _config(activation_spec(SMALLEST_8), is_per_channel)


@cache
def get_symmetric_a16w8_quantization_config(is_per_channel: bool = True) -> QuantizationConfig:
    """int16 activations without zero points, symmetric int8 weights."""
    return _config(wide_spec(), is_per_channel)


def _config(activation: QuantizationSpec, is_per_channel: bool) -> QuantizationConfig:
    first, second = (0, 1) if is_per_channel else (None, None)
    weights = (weight_spec(axis, SMALLEST_8) for axis in (first, second, None))
    return QuantizationConfig(activation, *weights)
