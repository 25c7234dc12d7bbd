"""Matrix products and convolutions: on numbers, on codes, and on activations quantized at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import fx

from npu_assay.partitioners.exir.compiling import require
from npu_assay.partitioners.exir.nodes import argument
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.xnnpack.linear import LINEAR, PLACES, Product, product
from npu_assay.partitioners.xnnpack.lowering.layout import flat, pad_options, reshaped
from npu_assay.partitioners.xnnpack.lowering.normalization import folded
from npu_assay.partitioners.xnnpack.lowering.operation import Operation
from npu_assay.partitioners.xnnpack.lowering.pooling import convolution_options
from npu_assay.partitioners.xnnpack.lowering.values import DTYPES, TO_NHWC, Value
from npu_assay.partitioners.xnnpack.lowering.weights import Weights, stored_weights, write_bias, write_quantised_bias
from npu_assay.partitioners.xnnpack.options import ConfigPrecisionType
from npu_assay.partitioners.xnnpack.xnn_model import ABSENT, TRANSPOSE_WEIGHTS, PerToken

FP32, STATIC, DYNAMIC = ConfigPrecisionType.FP32, ConfigPrecisionType.STATIC_QUANT, ConfigPrecisionType.DYNAMIC_QUANT


def found_product(node: fx.Node) -> Product:
    """How the product is computed, as the graph around it says."""
    return product(node, PLACES[target_name(node.target)], (FP32, STATIC, DYNAMIC))


@dataclass(frozen=True)
class _Site:
    """A product that is being lowered."""

    operation: Operation
    found: Product

    def activation(self) -> Value:
        """The activation: codes with constant parameters, else numbers."""
        ctx, node = self.operation.ctx, self.operation.node
        if self.found.precision is STATIC:
            assert self.found.activation is not None
            return ctx.codes(self.found.activation)
        return ctx.value(self.found.activation if self.found.dynamic is None else self.found.dynamic.source, node)

    def converted(self, source: int, nonbatch: int) -> int:
        """The activation's place, quantized there when that is done at run time."""
        if self.found.precision is not DYNAMIC:
            return source
        return self.operation.ctx.converted(source, PerToken(nonbatch))

    @cached_property
    def folded(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Weights and bias with the batch norm that is right after, if there is one."""
        norm = self.operation.norm
        return None if norm is None else folded(self.operation.ctx, norm, self.operation.node)

    def weights(self) -> Weights | None:
        """The constant weights in the program's order of axes; None when they are computed."""
        if self.folded is None:
            return stored_weights(self.operation.ctx, self.operation.node, self.found)
        data = self.folded[0]
        return Weights(data, DTYPES[data.dtype])

    def bias(self, weights: Weights | None, dtype: str) -> int:
        """The bias: int32 codes for codes, float32 with parameters from run time, else numbers of `dtype`."""
        ctx, node = self.operation.ctx, self.found.bias
        if self.folded is not None:
            return write_bias(ctx, self.folded[1], dtype)
        if node is None:
            return ABSENT
        data = ctx.constant(node)
        if data is None:
            return self.operation.id_of(ctx.value(node, self.operation.node))
        if self.found.precision is STATIC:
            assert self.found.activation is not None and weights is not None
            return write_quantised_bias(ctx, data, self.found.activation, weights)
        return write_bias(ctx, data, dtype if self.found.precision is FP32 else "fp32")


def fully_connected(operation: Operation) -> Value:
    """aten.linear, addmm and mm -> FullyConnected."""
    site = _Site(operation, found_product(operation.node))
    _check_factors(operation)
    x, node = site.activation(), operation.node
    rows_first = target_name(node.target) == LINEAR or site.found.permute is not None
    weights, flags = site.weights(), 0
    if weights is None:
        place = operation.id_of(operation.ctx.value(site.found.weight, node))
        flags = 0 if rows_first else TRANSPOSE_WEIGHTS
    else:
        weights = weights if rows_first else weights.arranged(weights.data.t(), 1 - weights.axis)
        place = weights.write(operation.ctx.model)
    inputs = [site.converted(operation.id_of(x), 1), place, site.bias(weights, x.dtype)]
    return operation.result(operation.emit("FullyConnected", inputs, flags=flags, limits=operation.limits))


def _check_factors(operation: Operation) -> None:
    for name in ("alpha", "beta"):
        factor = operation.arguments.get(name, 1)
        require(factor == 1, operation.node, name, factor, 1)


def batch_matmul(operation: Operation) -> Value:
    """aten.bmm -> BatchMatrixMultiply."""
    ids = [operation.id_of(operation.operand(source)) for source in operation.node.args[:2]]
    return operation.result(operation.emit("BatchMatrixMultiply", ids))


def convolution(operation: Operation) -> Value:
    """aten.convolution -> Conv2d, DepthwiseConv2d or ConvTranspose2d; a single spatial axis gets a second of size 1."""
    site = _Site(operation, found_product(operation.node))
    x, arguments = site.activation(), operation.arguments
    weights = site.weights()
    if weights is None or weights.data.dim() not in (3, 4) or x.rank != weights.data.dim():
        found = "computed" if weights is None else f"rank {weights.data.dim()} for rank {x.rank}"
        require(False, operation.node, "weights", found, "constants of the input's rank, 3 or 4")
    assert weights is not None
    if weights.data.dim() == 3:
        weights = weights.arranged(weights.data.unsqueeze(-1), weights.axis)
    if weights.scales is None:  # XNNPACK keeps the filters of convolutions in float32, whatever it computes in
        weights = Weights(weights.data.to(torch.float32), "fp32")
    kind, options, filters = _filters(weights, arguments, x.rank - 2)
    made = _convolved(site, _spatial(site, x), kind, options, filters)
    return operation.result(made, True) if x.rank == 4 else flat(operation, made)


def _convolved(site: _Site, source: int, kind: str, options: dict[str, int], filters: Weights) -> int:
    """The convolution's result, channels-last.

    An activation that is quantized at run time gets one scale per image. The runtime turns a convolution of
    single elements into a matrix product and then gives it one scale per element, even where another
    convolution reads the same codes; so such a product is written as a linear node, with codes of its own.
    """
    model, single = site.operation.ctx.model, kind == "Conv2d" and options == _single_element(options)
    if site.found.precision is DYNAMIC and single:
        kind, options, nonbatch = "FullyConnected", {}, 1
        filters = filters.arranged(filters.data.reshape(filters.data.shape[0], -1), 0)
    else:
        nonbatch = 3
    bias = site.bias(filters, "fp32")
    inputs = [site.converted(source, nonbatch), filters.write(model), bias]
    return site.operation.emit(kind, inputs, options, limits=site.operation.limits)


def _single_element(options: dict[str, int]) -> dict[str, int]:
    """The options of the convolution of single elements, one group of them, that has the same dilation."""
    ends = (options["group_input_channels"], options["group_output_channels"])
    dilation = (options["dilation_height"], options["dilation_width"])
    return convolution_options((1, 1), dilation=dilation, group_channels=ends)


def _filters(weights: Weights, arguments: dict[str, object], axes: int) -> tuple[str, dict[str, int], Weights]:
    """The operator, its options, and the weights in its order of axes. axes: in space, before one was added."""
    groups, transposed = arguments["groups"], arguments["transposed"]
    assert isinstance(groups, int)
    data = weights.data
    ends = (data.shape[0] // groups, data.shape[1]) if transposed else (data.shape[1], data.shape[0] // groups)
    kernel = (data.shape[2], data.shape[3])
    sizes = [_sizes(arguments[name], axes, fill) for name, fill in (("stride", 1), ("padding", 0), ("dilation", 1))]
    adjustment = _sizes(arguments["output_padding"], axes, 0) if transposed else (0, 0)
    options = convolution_options(kernel, sizes[0], sizes[1], sizes[2], groups, ends, adjustment)
    if weights.dtype == "qcint4":  # only matrix products store pairs of 4-bit codes
        weights = Weights(weights.data, "qcint8", weights.scales, weights.axis)
    if transposed:
        return "ConvTranspose2d", options, weights.arranged(_swapped(data, groups).permute(TO_NHWC), 0)
    if ends[0] == 1:
        return "DepthwiseConv2d", options, weights.arranged(data.permute(1, 2, 3, 0), 3)
    return "Conv2d", options, weights.arranged(data.permute(TO_NHWC), 0)


def _swapped(data: torch.Tensor, groups: int) -> torch.Tensor:
    """[inputs, outputs / groups, ...] as [outputs, inputs / groups, ...]."""
    inputs, outputs, *kernel = data.shape
    split = data.reshape(groups, inputs // groups, outputs, *kernel)
    return split.transpose(1, 2).reshape(groups * outputs, inputs // groups, *kernel)


def _sizes(value: object, axes: int, fill: int) -> tuple[int, int]:
    """A size for each axis, or one for all; `fill` is the size along an axis that was added."""
    assert isinstance(value, Sequence)
    return value[0], value[-1] if axes == 2 else fill


def _spatial(site: _Site, x: Value) -> int:
    """The activation channels-last, with two spatial axes, and padded where that was done before the product."""
    operation, found = site.operation, site.found
    if x.rank == 4:
        place = operation.id_of(x, True)
    else:
        line = reshaped(operation, operation.id_of(x), (*x.shape, 1), x.open_axes)
        place = operation.moved("StaticTranspose", [line], {"perm": TO_NHWC})
    if found.pad is None:
        return place
    pads = argument(found.pad, 1, "pad")
    across = tuple(pads) if x.rank == 4 else (0, 0, *pads)
    view = Value(x.name, (*x.shape, 1)[:4], x.dtype, ids={True: place})
    return operation.moved("StaticConstantPad", [place], pad_options(view, across, 0.0))
