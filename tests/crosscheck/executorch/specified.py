"""What `npu_assay.reference.arithmetic.xnnpack` says that a subgraph of one operator computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from npu_assay.partitioners.xnnpack.xnn_model import PerChannel, PerGroup, PerTensor, XNode, XValue, unpacked_int4
from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic import xnnpack
from npu_assay.reference.arithmetic.xnnpack import dynamic, static
from tests.crosscheck.executorch.subgraphs import Array, Program

Values = Sequence[XValue | None]
Rule = Callable[[XNode, Values, XValue, Sequence[Tensor]], Tensor]
"""Node, operands, result, the inputs' numbers: the result's numbers, before a fused activation."""


def result(program: Program) -> Array:
    """Raises ValueError for what the specification refuses."""
    model, node = program.model, program.model.nodes[-1]
    y = model.values[node.outputs[0]]
    operands = [None if index < 0 else model.values[index] for index in node.inputs]
    found = RULES[node.op](node, operands, y, [torch.from_numpy(array) for array in program.inputs])
    low, high = node.limits or (-inf, inf)
    if node.op == "Clamp" or (low, high) == (-inf, inf):
        return found.numpy()
    return (static.clamp(found, low, high, affine(y), affine(y)) if y.quant else found.clamp(low, high)).numpy()


def affine(value: XValue | None) -> Affine:
    assert value is not None and isinstance(value.quant, PerTensor)
    return Affine(value.quant.scale, value.quant.zero_point)


def _constant(value: XValue | None) -> Tensor | None:
    if value is None or value.data is None:
        return None
    if value.dtype in ("qcint4", "qbint4"):
        return torch.from_numpy(unpacked_int4(value.data, value.shape[1]))
    return torch.from_numpy(np.array(value.data))


def _scales(value: XValue | None) -> tuple[float, ...]:
    assert value is not None
    if isinstance(value.quant, PerChannel):
        return tuple(float(scale) for scale in value.quant.scales)
    assert isinstance(value.quant, PerTensor)
    return (value.quant.scale,)


def _binary(function: Callable[..., Tensor]) -> Rule:
    return lambda node, operands, y, given: function(*given, affine(operands[0]), affine(operands[1]), affine(y))


def _clamp(node: XNode, operands: Values, y: XValue, given: Sequence[Tensor]) -> Tensor:
    low, high = (None if abs(limit) == inf else limit for limit in node.limits or (-inf, inf))
    return static.clamp(given[0], low, high, affine(operands[0]), affine(y))


def _mean(node: XNode, operands: Values, y: XValue, given: Sequence[Tensor]) -> Tensor:
    return static.mean(given[0], affine(operands[0]), affine(y))


def _linear(node: XNode, operands: Values, y: XValue, given: Sequence[Tensor]) -> Tensor:
    x, w, bias = operands
    weights, add = _constant(w), _constant(bias)
    assert weights is not None and w is not None and x is not None
    if x.dtype == "qint8":
        return static.linear(given[0], weights, add, affine(x), _scales(w), affine(y))
    if isinstance(w.quant, PerGroup):
        return dynamic.groupwise_linear(given[0], weights, torch.from_numpy(np.array(w.quant.scales)), add)
    return dynamic.linear(given[0], weights, _scales(w), add)


def _convolution(node: XNode, operands: Values, y: XValue, given: Sequence[Tensor]) -> Tensor:
    x, w, bias = operands
    weights, add, o = _constant(w), _constant(bias), node.options
    assert weights is not None and x is not None
    if node.op == "DepthwiseConv2d":
        weights = weights.permute(3, 1, 2, 0)
    stride, step, more = ((o[f"{n}_height"], o[f"{n}_width"]) for n in ("subsampling", "dilation", "adjustment"))
    padding = ((o["padding_top"], o["padding_bottom"]), (o["padding_left"], o["padding_right"]))
    window: tuple[Any, ...] = (stride, step, padding, *([more] if node.op == "ConvTranspose2d" else []))
    codes = x.dtype == "qint8"
    kernels: Any = static if codes else dynamic
    function = kernels.transpose_conv2d if node.op == "ConvTranspose2d" else kernels.conv2d
    constants = (weights, add, affine(x), _scales(w), affine(y)) if codes else (weights, _scales(w), add)
    found: Tensor = function(given[0], *constants, *window)
    return found


def _convert(node: XNode, operands: Values, y: XValue, given: Sequence[Tensor]) -> Tensor:
    return xnnpack.quantize(given[0], affine(y))


RULES: dict[str, Rule] = {
    "Add": _binary(static.add),
    "Clamp": _clamp,
    "Conv2d": _convolution,
    "ConvTranspose2d": _convolution,
    "Convert": _convert,
    "DepthwiseConv2d": _convolution,
    "FullyConnected": _linear,
    "GlobalAvgPooling2d": _mean,
    "Multiply": _binary(static.mul),
    "Subtract": _binary(static.sub),
}
