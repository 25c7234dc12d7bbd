"""Convolutions and linear layers, on channels-last images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npu_assay.partitioners.ethosu.lowering.context import CODES
from npu_assay.partitioners.ethosu.lowering.layout import strided
from npu_assay.partitioners.ethosu.lowering.operation import Operation
from npu_assay.partitioners.ethosu.lowering.values import FLOAT, PerChannel, Value, permuted, viewed
from npu_assay.partitioners.ethosu.lowering.windows import NHWC, channels_last, fitted, spread
from npu_assay.partitioners.ethosu.tosa_model import Array
from npu_assay.partitioners.exir.layout import arranged
from npu_assay.partitioners.exir.qdq import QParams

_SAME_STEP = 2.0**-23
"""By what part two steps may differ that are one in float32."""


@dataclass(frozen=True)
class Weights:
    """Filters in torch's order (outputs first), the scale of each output or one for all, and the zero point."""

    value: Value
    scales: tuple[float, ...]
    zero_point: int

    @property
    def outputs(self) -> int:
        """Number of filters."""
        return self.value.shape[0]

    def part(self, start: int, count: int) -> Weights:
        """Some of the filters, which are constants."""
        assert self.value.data is not None
        data = self.value.data[start : start + count]
        value = Value(self.value.name, data.shape, self.value.dtype, data=data)
        scales = self.scales if len(self.scales) == 1 else self.scales[start : start + count]
        return Weights(value, scales, self.zero_point)


@dataclass(frozen=True)
class Product:
    """What all convolutions of one operation share: the input's quantization and the bias."""

    operation: Operation
    quant: QParams
    bias: Array

    @property
    def accumulator(self) -> str:
        """The type of the sums."""
        return "INT32" if CODES[self.quant.dtype] == "INT8" else "INT48"

    def emit(
        self,
        code: str,
        tensor: str,
        weights: str,
        found: Weights,
        start: int,
        shape: Sequence[int],
        attributes: Mapping[str, Any],
    ) -> str:
        """The operator on a tensor, and the RESCALE to the result's codes. `start` counts outputs before these."""
        operation, model = self.operation, self.operation.model
        outputs = shape[-1]
        bias = np.broadcast_to(self.bias[start : start + outputs], (outputs,))
        operands = [
            tensor,
            weights,
            model.constant(f"{operation.node.name}_bias", bias, self.accumulator),
            model.number(self.quant.zero_point, model.dtype(tensor)),
            model.number(found.zero_point, "INT8"),
        ]
        made = operation.emit(code, operands, shape, self.accumulator, acc_type=self.accumulator, **attributes)
        ratios = [(self.quant.scale * scale) / operation.y.scale for scale in found.scales]
        return operation.narrowed(made, ratios)


def weights_of(operation: Operation, value: Value, axis: int) -> Weights:
    """Filters of int8 codes whose scales, when there are several, run along `axis`, the outputs."""
    quant = value.quant
    operation.require(quant is not None and value.dtype == "INT8", "weights", value.dtype, "int8 codes")
    if isinstance(quant, PerChannel):
        operation.require(quant.axis == axis, "axis of the weights' scales", quant.axis, axis)
        return Weights(value, quant.scales, 0)
    found = operation.quant_of(value)
    return Weights(value, (found.scale,), found.zero_point)


def bias_codes(operation: Operation, source: object, steps: Sequence[float], outputs: int) -> Array:
    """The bias as codes of scale input scale * weight scale; zeros if there is none. int64 [outputs].

    Codes of another scale, and real numbers, are rounded to these.
    """
    if source is None:
        return np.zeros(outputs, np.int64)
    value = operation.operand(source)
    operation.require(value.data is not None, "bias", f"{value.name}, computed at run time", "a constant")
    assert value.data is not None
    operation.require(value.data.size in (1, outputs), "size of the bias", value.data.size, outputs)
    quant, flat = value.quant, np.broadcast_to(value.data.reshape(-1), (outputs,))
    wanted = np.asarray(steps)
    if value.dtype == FLOAT:
        return _rounded(flat.astype(np.float64) / wanted)
    operation.require(value.dtype == "INT32" and quant is not None, "bias", value.dtype, "int32 codes or numbers")
    scales = np.asarray(quant.scales if isinstance(quant, PerChannel) else [quant.scale])  # type: ignore[union-attr]
    zero = 0 if isinstance(quant, PerChannel) else quant.zero_point  # type: ignore[union-attr]
    codes = flat.astype(np.int64) - zero
    if np.allclose(scales, wanted, rtol=_SAME_STEP, atol=0):
        return codes
    return _rounded(codes * scales / wanted)


def _rounded(numbers: Array) -> Array:
    codes: Array = np.clip(np.rint(numbers), -(2**47), 2**47 - 1).astype(np.int64)
    return codes


def convolution(operation: Operation) -> Value:
    """aten.convolution of one, two or three dimensions, transposed in two."""
    bound = operation.arguments
    x, weight = operation.operand(bound["input"]), operation.operand(bound["weight"])
    quant = operation.quant_of(x)
    if bound["transposed"]:
        return _transposed(operation, x, weight, quant)
    found = weights_of(operation, weight, 0)
    bias = bias_codes(operation, bound["bias"], [quant.scale * scale for scale in found.scales], found.outputs)
    window, (batch, *sizes) = _window(operation, x, found)
    found = Weights(viewed(found.value, (*found.value.shape[:2], *window.kernel)), found.scales, found.zero_point)
    layout = channels_last(x.rank)
    tensor = operation.tensor(x, layout)
    if len(window.kernel) < x.rank - 2:
        tensor = strided(operation, tensor, 1, 0, operation.shape[2], bound["stride"][0])
    tensor = operation.model.reshape(tensor, (batch, *sizes, x.shape[1]), f"{x.name}_image")
    tensor, pads = fitted(operation, tensor, window.outputs, window.reach, window.stride, window.padding)
    attributes = {"pad": pads, "stride": window.stride, "dilation": window.dilation}
    product = Product(operation, quant, bias)
    made = _direct(product, found, tensor, (batch, *window.outputs), bound["groups"], attributes)
    made = operation.model.reshape(made, arranged(operation.shape, layout), operation.node.name)
    return operation.result(made, layout, quant=operation.y)


@dataclass(frozen=True)
class Window:
    """How a kernel moves over an image of two or three dimensions, and how often along each."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """The elements that a window spans."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.kernel, self.dilation, strict=True))


def _window(operation: Operation, x: Value, found: Weights) -> tuple[Window, tuple[int, ...]]:
    """The window and [batches, sizes ...] of the image.

    A line is an image of height 1. Planes that the kernel takes one by one are images of their own, those between
    left out: Vela 5.1.0 compiles no CONV3D of int16 for Ethos-U55.
    """
    dims, batch, sizes = x.rank - 2, x.shape[0], x.shape[2:]
    stride, padding, dilation = (spread(operation.arguments[name], dims) for name in ("stride", "padding", "dilation"))
    kernel, outputs = found.value.shape[2:], operation.shape[2:]
    if dims == 1:
        line = Window((1, *kernel), (1, *stride), (0, *padding), (1, *dilation), (1, *outputs))
        return line, (batch, 1, *sizes)
    if dims == 3 and (kernel[0], padding[0]) == (1, 0):
        plane = Window(kernel[1:], stride[1:], padding[1:], dilation[1:], outputs[1:])
        return plane, (batch * outputs[0], *sizes[1:])
    return Window(kernel, stride, padding, dilation, outputs), (batch, *sizes)


def _direct(
    product: Product, found: Weights, tensor: str, shape: Sequence[int], groups: int, attributes: Mapping[str, Any]
) -> str:
    """One convolution; a depthwise one for a group per channel; else one per group and a CONCAT."""
    operation, model = product.operation, product.operation.model
    channels, rank = model.shape(tensor)[-1], len(model.shape(tensor))
    if groups > 1:
        constant = found.value.data is not None
        operation.require(constant, "weights of groups", "computed at run time", "constants")
    if groups == channels and groups > 1 and rank == 4:
        return _depthwise(product, found, tensor, shape, attributes)
    code, parts = "CONV2D" if rank == 4 else "CONV3D", []
    count, inputs = found.outputs // groups, channels // groups
    for group in range(groups):
        part = operation.slice(tensor, rank - 1, group * inputs, inputs)
        some = found if groups == 1 else found.part(group * count, count)
        filters = operation.tensor(some.value, channels_last(rank))
        parts.append(product.emit(code, part, filters, some, group * count, (*shape, count), attributes))
    return model.concat(parts, rank - 1, operation.node.name)


def _depthwise(
    product: Product, found: Weights, tensor: str, shape: Sequence[int], attributes: Mapping[str, Any]
) -> str:
    """Weights [channels * multiplier, 1, kh, kw] as [kh, kw, channels, multiplier]."""
    operation, sizes = product.operation, found.value.shape
    channels = operation.model.shape(tensor)[-1]
    whole = viewed(found.value.seen_as(None), (channels, sizes[0] // channels, *sizes[2:]))
    filters = operation.tensor(whole, (2, 3, 0, 1))
    return product.emit("DEPTHWISE_CONV2D", tensor, filters, found, 0, (*shape, sizes[0]), attributes)


def _transposed(operation: Operation, x: Value, weight: Value, quant: QParams) -> Value:
    """TRANSPOSE_CONV2D, whose negative pads cut the border off. Weights are [inputs, outputs, kh, kw] in torch."""
    bound, groups = operation.arguments, operation.arguments["groups"]
    operation.require(x.rank == 4, "rank of the input", x.rank, 4)
    dilation = spread(bound["dilation"], 2)
    operation.require(dilation == (1, 1), "dilation", dilation, (1, 1))
    found = weights_of(operation, weight, 1)
    operation.require(found.value.data is not None, "weights", "computed at run time", "constants")
    single = groups == 1 or len(found.scales) == 1
    operation.require(single, "scales of the weights of groups", len(found.scales), 1)
    inputs, count = x.shape[1] // groups, found.value.shape[1]
    bias = bias_codes(operation, bound["bias"], [quant.scale * s for s in found.scales], count * groups)
    product, tensor = Product(operation, quant, bias), operation.tensor(x, NHWC)
    shape = (x.shape[0], *operation.shape[2:])
    attributes = {"out_pad": _cropped(operation), "stride": spread(bound["stride"], 2)}
    parts = []
    for group in range(groups):
        part = operation.slice(tensor, 3, group * inputs, inputs)
        taken = Weights(found.value.seen_as(None), found.scales, found.zero_point).part(group * inputs, inputs)
        filters = operation.tensor(permuted(taken.value, (1, 0, 2, 3), taken.value.name), NHWC)
        some = Weights(taken.value, found.scales, found.zero_point)
        parts.append(product.emit("TRANSPOSE_CONV2D", part, filters, some, group * count, (*shape, count), attributes))
    made = operation.model.concat(parts, 3, operation.node.name)
    return operation.result(made, NHWC, quant=operation.y)


def _cropped(operation: Operation) -> tuple[int, ...]:
    """What is added (or, negative, cut off) before and after the full result along both axes."""
    padding, added = (spread(operation.arguments[name], 2) for name in ("padding", "output_padding"))
    return tuple(amount for p, a in zip(padding, added, strict=True) for amount in (-p, a - p))


def linear(operation: Operation) -> Value:
    """aten.linear: a 1x1 CONV2D over images of one element, of which there are as many as rows."""
    bound = operation.arguments
    x, found = operation.operand(bound["input"]), weights_of(operation, operation.operand(bound["weight"]), 0)
    quant = operation.quant_of(x)
    operation.require(found.value.rank == 2, "rank of the weight", found.value.rank, 2)
    bias = bias_codes(operation, bound["bias"], [quant.scale * s for s in found.scales], found.outputs)
    rows, inputs = int(np.prod(x.shape[:-1])), x.shape[-1]
    tensor = operation.tensor(viewed(x, (rows, inputs, 1, 1)), NHWC)
    filters = operation.tensor(viewed(found.value, (found.outputs, inputs, 1, 1)), NHWC)
    shape, attributes = (rows, 1, 1, found.outputs), {"pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1)}
    made = Product(operation, quant, bias).emit("CONV2D", tensor, filters, found, 0, shape, attributes)
    return operation.held(made, NHWC, operation.y)


def matmul(operation: Operation) -> Value:
    """aten.bmm, aten.mm -> MATMUL of two tensors of codes."""
    values = [operation.operand(source) for source in operation.node.args]
    a, b = (operation.quant_of(value) for value in values)
    operation.require(a.dtype == b.dtype, "types of the operands", (a.dtype, b.dtype), "one type")
    left, right = (viewed(value, (1,) * (3 - value.rank) + value.shape) for value in values)
    operands = [operation.tensor(value, (0, 1, 2)) for value in (left, right)]
    zeros = [operation.model.number(quant.zero_point, CODES[quant.dtype]) for quant in (a, b)]
    shape = (*left.shape[:2], right.shape[2])
    wide = "INT32" if a.dtype == b.dtype and CODES[a.dtype] == "INT8" else "INT48"
    made = operation.emit("MATMUL", [*operands, *zeros], shape, wide)
    codes = operation.narrowed(made, ((a.scale * b.scale) / operation.y.scale,))
    return operation.held(codes, (0, 1, 2), operation.y)
