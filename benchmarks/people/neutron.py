"""Mistakes in Neutron backends of release 1.3."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, fx

from benchmarks.people import Holds, checking, fault
from npu_assay.faults.kernels import operator
from npu_assay.partitioners.common.int8 import elementwise
from npu_assay.partitioners.common.int8.output import bounds
from npu_assay.partitioners.common.rescale import double_rounder
from npu_assay.partitioners.exir.compiling import axis_of, bind
from npu_assay.partitioners.exir.nodes import argument, rank
from npu_assay.partitioners.neutron import backend as neutron
from npu_assay.partitioners.neutron.device.operators import RULES as DEVICE
from npu_assay.partitioners.neutron.device.site import Site
from npu_assay.partitioners.neutron.formats import channel_dim
from npu_assay.partitioners.neutron.lowering import convolution, layout, matmul
from npu_assay.partitioners.neutron.operators import LOWERINGS
from npu_assay.partitioners.neutron.support import common, weights
from npu_assay.partitioners.neutron.support.rule import Context
from npu_assay.partitioners.neutron.support.rules import RULES

Patched = AbstractContextManager[Any]


def _rule(target: str, code: str, holds: Holds) -> Patched:
    return patch.dict(RULES, {target: checking(RULES[target], code, holds)})


@fault(neutron, "rule", "view_copy or clone or permute_copy", "pytorch/executorch#13844")
def zero_points_not_compared() -> Patched:
    """Shared parameters: the scales are compared, the zero points not."""

    def change(before: Any, after: Any) -> str | None:
        return None if None in (before, after) or before.scale == after.scale else "another scale"

    return patch.object(common, "qparams_change", change)


@fault(neutron, "rule", "constant_pad_nd", "pytorch/executorch#19543")
def padded_channels_first() -> Patched:
    """Pad: channels are dimension 1, whatever the format."""

    def holds(node: fx.Node, context: Context) -> bool:
        padded = {rank(node) - 1 - index // 2 for index, amount in enumerate(argument(node, 1, "pad")) if amount}
        return not padded & {0, 1}

    return _rule("aten.constant_pad_nd.default", "channel_and_batch_padding", holds)


@fault(neutron, "rule", "softmax", "pytorch/executorch#4819")
def softmax_dim_as_written() -> Patched:
    """Softmax: a negative dimension is none of the channels."""

    def holds(node: fx.Node, context: Context) -> bool:
        return bool(argument(node, 1, "dim") == channel_dim(node, context.channels_first))

    return _rule("aten._softmax.default", "channel_dim", holds)


@fault(neutron, "rule", "convolution", "pytorch/executorch#876")
def bias_scale_of_first_channel() -> Patched:
    """Bias: the scale of the first channel alone is compared."""
    right = weights.scales_of
    return patch.object(weights, "scales_of", lambda source, context: _first(right(source, context)))


def _first(scales: Tensor | None) -> Tensor | None:
    return None if scales is None else scales[:1]


@fault(neutron, "compiler", "convolution", "pytorch/executorch#13844")
def zero_bias_shared() -> Patched:
    """Convolutions without a bias share one of zeros, with its scale."""
    kept = dict[int, int]()

    def bias(ctx: Any, node: fx.Node, given: object, x: Any, filters: Any, channels: int) -> int:
        if given is None and channels in kept:
            return kept[channels]
        made = right(ctx, node, given, x, filters, channels)
        return kept.setdefault(channels, made) if given is None else made

    right = convolution.bias_tensor
    return patch.object(convolution, "bias_tensor", bias)


@fault(neutron, "compiler", "cat", "pytorch/executorch#13942")
def cat_axis_of_torch() -> Patched:
    """Cat: torch's axis of a tensor whose channels are last."""

    def cat(ctx: Any, node: fx.Node) -> None:
        bound, layout = bind(node), ctx.layout(node)
        values = [ctx.requantised(ctx.value(each, node), ctx.output_quantisation(node)) for each in bound["tensors"]]
        options = {"axis": axis_of(node, bound["dim"], len(layout)), "fused_activation_function": "NONE"}
        ctx.emit(node, "CONCATENATION", [ctx.tensor(v, layout) for v in values], options, layout=layout)

    return patch.dict(LOWERINGS, {"aten.cat.default": cat})


@fault(neutron, "compiler", "constant_pad_nd", "pytorch/executorch#13576")
def pad_without_zero_point() -> Patched:
    """Pad: the number is divided by the scale, without zero point."""

    def pad(model: Any, tensor: int, pairs: Any, name: str, value: float = 0.0) -> int:
        found = model.quantisation(tensor)
        return right(model, tensor, pairs, name, value - found.zero_point * found.scale if value else value)

    right: Any = layout.pad
    return patch.object(layout, "pad", pad)


@fault(neutron, "compiler", "convolution", "pytorch/executorch#17842")
def transposed_scales_along_inputs() -> Patched:
    """Scales per channel are those of axis 0, transposed or not."""
    right = convolution._weights
    return patch.object(convolution, "_weights", lambda *given: right(*given[:-1], 0))


@fault(neutron, "compiler", "addmm or mm", "MegEngine/mgeconvert#78")
def flattened_weights_not_permuted() -> Patched:
    """A flattened image keeps the device's order, the weights torch's."""
    right = matmul._flattened
    return patch.object(matmul, "_flattened", lambda ctx, x, rows: (right(ctx, x, rows)[0], rows))


@fault(neutron, "device", "softmax", "ARM-software/CMSIS_5#1441")
def softmax_first_row() -> Any:
    """Softmax writes its first row only."""

    def change(site: Site, kernel: Any) -> Any:
        def apply(codes: Tensor) -> Tensor:
            made = kernel(codes)
            made.view(-1, made.shape[-1])[1:] = -128
            return made

        return apply

    return operator(DEVICE, change, "SOFTMAX")()


@fault(neutron, "device", "add or mul", "tensorflow/tflite-micro#3627")
def saturated_before_zero_point() -> Patched:
    """Sums and products saturate before the zero point is added."""

    def stage(parameters: Any, y: Any, limits: Any = None) -> Any:
        rounder, (low, high) = double_rounder(parameters), bounds(y, limits)
        return lambda acc: rounder(acc).clamp_(low, high).add_(y.zero_point).char()

    return patch.object(elementwise, "double_round_stage", stage)


@fault(neutron, "device", "leaky_relu", "apache/tvm#11397")
def leaky_table_of_reals() -> Patched:
    """Leaky relu: its table is made with real numbers."""

    def make(alpha: float, x: Any, y: Any) -> Any:
        real = (elementwise.ALL_CODES - x.zero_point).double() * x.scale32
        steps = torch.round(torch.where(real < 0, alpha * real, real) / y.scale32) + y.zero_point
        return elementwise.table_kernel(steps.long(), (y.qmin, y.qmax))

    return patch.object(elementwise, "leaky_relu", make)
