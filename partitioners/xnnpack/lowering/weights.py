"""Weights and biases of products: constants, as numbers or as codes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import fx

from npu_assay.partitioners.exir.compiling import require
from npu_assay.partitioners.exir.qdq import qparams
from npu_assay.partitioners.xnnpack.linear import Product, bias_codes, output_axis, output_count
from npu_assay.partitioners.xnnpack.lowering.context import Context, per_tensor
from npu_assay.partitioners.xnnpack.lowering.model import ModelBuilder
from npu_assay.partitioners.xnnpack.lowering.values import DTYPES, array_of
from npu_assay.partitioners.xnnpack.patterns import QuantisedWeight
from npu_assay.partitioners.xnnpack.xnn_model import Array, PerChannel, PerGroup, PerTensor, Quantisation, packed_int4


@dataclass(frozen=True)
class Weights:
    """Constant weights in the format's type `dtype`.

    `scales` is one number, or a float32 tensor: one per index of `axis`, or [rows, groups] with `group`.
    """

    data: torch.Tensor
    dtype: str
    scales: torch.Tensor | float | None = None
    axis: int = 0
    group: int = 0

    def arranged(self, data: torch.Tensor, axis: int) -> Weights:
        """The same weights with other axes; the channels with their own scales are now `axis`."""
        return replace(self, data=data, axis=axis)

    def per_channel(self, axis: int, count: int) -> Weights:
        """The same weights with a scale for each of `count` indices of `axis`, if they had one for all.

        XNNPACK has no kernels for one scale where activations are quantized at run time.
        """
        if not isinstance(self.scales, float):
            return self
        return replace(self, dtype="qcint8", scales=torch.full((count,), self.scales), axis=axis)

    def write(self, model: ModelBuilder) -> int:
        """The constant in the subgraph."""
        array = array_of(self.data)
        packed = packed_int4(array) if self.dtype in ("qcint4", "qbint4") else array
        return model.add(self.dtype, array.shape, self._quantisation(), packed)

    def _quantisation(self) -> Quantisation | None:
        if self.scales is None:
            return None
        if isinstance(self.scales, float):
            return PerTensor(float(np.float32(self.scales)), 0)
        if self.group:
            return PerGroup(_array32(self.scales.to(torch.bfloat16)), self.group)
        return PerChannel(_array32(self.scales), self.axis)


def _array32(tensor: torch.Tensor) -> Array:
    array: Array = tensor.detach().to(torch.float32).contiguous().numpy()
    return array


def stored_weights(ctx: Context, node: fx.Node, found: Product) -> Weights | None:
    """The product's constant weights in the program's order of axes; None when they are computed.

    Raises CompileError for codes that XNNPACK cannot multiply.
    """
    if found.quantised is None:
        data = ctx.constant(found.weight)
        return None if data is None else Weights(data, DTYPES[data.dtype])
    weights = _codes(ctx, node, found.quantised)
    return weights.per_channel(output_axis(node, found), output_count(node)) if found.dynamic else weights


def _codes(ctx: Context, node: fx.Node, stored: QuantisedWeight) -> Weights:
    codes = ctx.constant(stored.codes)
    if codes is None or codes.dtype != torch.int8:
        found = "computed ones" if codes is None else codes.dtype
        require(False, node, "quantized weights", found, "int8 constants")
    assert codes is not None
    if stored.kind == "per_tensor":
        zero_point = per_tensor(stored.dequantize).zero_point
        require(zero_point == 0, node, "zero point of the weights", zero_point, 0)
        return Weights(codes, "qint8", float(stored.scale))
    scales, zeros = ctx.constant(stored.scale), ctx.constant(stored.zero_point)
    require(scales is not None, node, "scales of the weights", "computed ones", "constants")
    require(zeros is None or not zeros.any(), node, "zero points of the weights", "other numbers", 0)
    assert scales is not None
    if stored.kind == "per_channel":
        axis = stored.axis % codes.dim()
        return Weights(codes, "qcint4" if stored.bits == 4 else "qcint8", scales.reshape(-1), axis)
    require(stored.bits == 4, node, "weights with a scale per group", f"{stored.bits} bits", "4 bits")
    return Weights(codes, "qbint4", scales.reshape(codes.shape[0], -1), group=stored.group)


def write_bias(ctx: Context, bias: torch.Tensor, dtype: str) -> int:
    """A bias of numbers, in float32 unless `dtype` is float16."""
    numbers = bias.reshape(-1).to(torch.float16 if dtype == "fp16" else torch.float32)
    return ctx.model.add(DTYPES[numbers.dtype], tuple(numbers.shape), None, array_of(numbers))


def write_quantised_bias(ctx: Context, bias: torch.Tensor, activation: fx.Node, weights: Weights) -> int:
    """A bias as int32 codes whose scale is that of the activation times the weights'."""
    found = qparams(activation)
    assert found is not None and weights.scales is not None  # the codes of the activation were asked for before
    scales = weights.scales * found.scale
    data = array_of(bias_codes(bias, scales))
    quant: Quantisation
    if isinstance(scales, float):
        quant = PerTensor(float(np.float32(scales)), 0)
        return ctx.model.add("qint32", data.shape, quant, data)
    quant = PerChannel(_array32(scales), 0)
    return ctx.model.add("qcint32", data.shape, quant, data)
