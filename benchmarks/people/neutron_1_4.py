"""Mistakes in Neutron backends of release 1.4: broadcasting, reductions and joins that 1.3 does not have."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, fx

from benchmarks.people import Holds, calling, checking, count, fault, wrapped
from npu_assay.faults.kernels import operator
from npu_assay.partitioners.common.int8 import elementwise, pool
from npu_assay.partitioners.common.int8.output import double_round_stage
from npu_assay.partitioners.common.rescale import quantize_multiplier
from npu_assay.partitioners.common.rules import qparams_change
from npu_assay.partitioners.exir.nodes import operand, shape
from npu_assay.partitioners.exir.qdq import input_qparams, output_qparams
from npu_assay.partitioners.neutron import backend_1_4 as neutron
from npu_assay.partitioners.neutron.device.operators import RULES as DEVICE
from npu_assay.partitioners.neutron.lowering import elementwise as lowering
from npu_assay.partitioners.neutron.lowering import reduction
from npu_assay.partitioners.neutron.operators import LOWERINGS
from npu_assay.partitioners.neutron.support import slicing
from npu_assay.partitioners.neutron.support.rules import RULES_OF
from npu_assay.reference.affine import float32

Patched = AbstractContextManager[Any]
RULES: Any = RULES_OF["1.4"]


def _rule(code: str, holds: Holds, *targets: str) -> Patched:
    return patch.dict(RULES, {target: checking(RULES[target], code, holds) for target in targets})


@fault(neutron, "rule", "add or sub or mul", "pytorch/executorch#19336")
def first_operand_whole() -> Patched:
    """Broadcasting: only the second operand may be the smaller one."""
    sums = ("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor")
    return _rule("broadcast", lambda node, context: shape(node) == shape(operand(node)), *sums)


@fault(neutron, "rule", "maximum or minimum", "tensorflow/tflite-micro#2336")
def extreme_of_first_parameters() -> Patched:
    """Extremes: only the first operand's parameters are compared."""

    def holds(node: fx.Node, context: Any) -> bool:
        return qparams_change(input_qparams(node), output_qparams(node)) is None

    return _rule("same_qparams", holds, "aten.maximum.default", "aten.minimum.default")


@fault(neutron, "rule", "upsample", "yuanyuanli85/tf-hrnet#17")
def resize_by_height() -> Patched:
    """Resize: the height alone is looked at."""

    def holds(node: fx.Node, context: Any) -> bool:
        return shape(node)[2] in [scale * shape(operand(node))[2] for scale in slicing.AXIS_SCALES]

    return _rule("axis_scale", holds, "aten.upsample_bilinear2d.vec", "aten.upsample_nearest2d.vec")


@fault(neutron, "rule", "cat", "tlc-pack/relax#160")
def cat_counts_operands() -> Patched:
    """Cat: operands are counted, not different ones."""
    return _rule("min_inputs", lambda node, context: len(slicing.cat_operands(node)) >= 2, "aten.cat.default")


@fault(neutron, "compiler", "sub", "pytorch/executorch#19588")
def difference_sorted() -> Patched:
    """A difference is compiled as sums are, the larger operand first."""

    def sub(ctx: Any, node: fx.Node) -> None:
        layout = ctx.layout(node)
        operands = sorted(node.args[:2], key=lambda each: -count(shape(each)))
        ctx.emit(node, "SUB", [lowering.operand(ctx, node, each, layout) for each in operands], layout=layout)

    return patch.dict(LOWERINGS, {"aten.sub.Tensor": sub})


@fault(neutron, "compiler", "sum or mean", "pytorch/pytorch#83357")
def no_dims_are_none() -> Patched:
    """Reductions: no dimensions are none, not all."""
    return calling(reduction, "range", lambda dimensions: ())


@fault(neutron, "compiler", "amax or amin or sum", "pytorch/executorch#16578")
def reduced_in_device_order() -> Patched:
    """The axes that a reduction leaves are taken for torch's order."""
    return calling(reduction, "sorted", list)


@fault(neutron, "compiler", "prelu", "pytorch/executorch#16131")
def slopes_along_last_axis() -> Patched:
    """Prelu: slopes go along the last axis, also where that is no channel."""

    def prelu(ctx: Any, node: fx.Node) -> None:
        value, slopes = ctx.value(node.args[0], node), ctx.constant(node.args[1], node, "slopes")
        layout = ctx.layout(node)
        alpha = ctx.model.constant(slopes.name, slopes.data.reshape(-1), slopes.quantisation)
        ctx.emit(node, "PRELU", [ctx.tensor(value, layout), alpha], layout=layout)

    return patch.dict(LOWERINGS, {"aten.prelu.default": prelu})


@fault(neutron, "device", "sum", "tensorflow/tflite-micro#3597")
def sums_of_16_bits() -> Patched:
    """Sums are added up in 16 bits."""

    def sum_(axes: Any, keep_dims: bool, x: Any, y: Any) -> Any:
        finish = double_round_stage([quantize_multiplier(x.scale32 / y.scale32)], y)
        return lambda codes: finish(wrapped((codes.long() - x.zero_point).sum(axes, keepdim=keep_dims)))

    return patch.object(pool, "sum_", sum_)


@fault(neutron, "device", "maximum", "google-ai-edge/LiteRT#8928")
def maximum_in_place() -> Any:
    """The result of a maximum takes the memory of its first operand."""

    def kernel(p: Tensor, q: Tensor) -> Tensor:
        return torch.maximum(p, q, out=p) if q.shape == p.shape else torch.maximum(p, q)

    return operator(DEVICE, lambda site, right: kernel, "MAXIMUM")()


@fault(neutron, "device", "mul", "tensorflow/tensorflow#35461")
def products_of_16_bits() -> Patched:
    """Products of two codes are held in 16 bits."""

    def mul(a: Any, b: Any, y: Any, activation: Any = None) -> Any:
        ratio = float32(float32(a.scale32 * b.scale32) / y.scale32)
        finish = double_round_stage([quantize_multiplier(ratio)], y, activation)
        return lambda p, q: finish(wrapped((p.int() - a.zero_point) * (q.int() - b.zero_point)))

    return patch.object(elementwise, "mul", mul)


@fault(neutron, "device", "mean", "pytorch/executorch#14581")
def mean_over_images() -> Patched:
    """A mean divides by height times width, whatever it goes over."""

    def mean(axes: Any, keep_dims: bool, x: Any, y: Any) -> Any:
        multiplier, shift = quantize_multiplier(x.scale32 / y.scale32)

        def apply(codes: Tensor) -> Tensor:
            cells = count(codes.shape[1:3])
            extra = min(cells.bit_length() - 1, 32, 31 + shift)
            total = (codes.long() - x.zero_point).sum(axes, keepdim=keep_dims)
            return double_round_stage([((multiplier << extra) // cells, shift - extra)], y)(total)

        return apply

    return patch.object(pool, "mean", mean)
