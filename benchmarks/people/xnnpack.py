"""Mistakes in XNNPACK backends."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import torch
from torch import fx

from benchmarks.people import Holds, checking, fault, together
from npu_assay.partitioners.common.machine import Step
from npu_assay.partitioners.common.rules import pool_kernel, pool_stride, qparams_change
from npu_assay.partitioners.exir.nodes import argument
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import qparams
from npu_assay.partitioners.xnnpack import backend as xnnpack
from npu_assay.partitioners.xnnpack.config import PartitionerConfig
from npu_assay.partitioners.xnnpack.configs import (
    AvgPoolingConfig,
    CatConfig,
    MaxPool2dConfig,
    MeanDimConfig,
    SliceCopyConfig,
)
from npu_assay.partitioners.xnnpack.configs.linear import CLAMPS
from npu_assay.partitioners.xnnpack.device import elementwise
from npu_assay.partitioners.xnnpack.device.operators import RULES
from npu_assay.partitioners.xnnpack.device.site import Site as DeviceSite
from npu_assay.partitioners.xnnpack.device.site import in_float32
from npu_assay.partitioners.xnnpack.kernels import activation, float32
from npu_assay.partitioners.xnnpack.lowering import layout, linear, normalization, pooling, program
from npu_assay.partitioners.xnnpack.lowering.normalization import NORM
from npu_assay.partitioners.xnnpack.patterns import is_named, only_user
from npu_assay.partitioners.xnnpack.site import Site

Patched = AbstractContextManager[Any]


def _rule(config: type[PartitionerConfig], code: str, holds: Holds) -> Patched:
    return patch.object(config, "rules", checking(config.rules, code, holds))


@fault(xnnpack, "rule", "cat", "pytorch/executorch#18999")
def cat_first_operand() -> Patched:
    """Cat: only the first operand's parameters are compared."""

    def holds(node: fx.Node, site: Site) -> bool:
        form = site.static
        return form is None or qparams_change(qparams(form.inputs[0]), qparams(form.output)) is None

    return _rule(CatConfig, "same_qparams", holds)


@fault(xnnpack, "rule", "mean", "pytorch/executorch#14581")
def mean_dims_as_written() -> Patched:
    """Mean: dims are compared as they are written, [2, 3] is none."""
    return _rule(MeanDimConfig, "dims", lambda node, site: list(argument(node, 1, "dim")) in ([-1, -2], [-2, -1]))


@fault(xnnpack, "rule", "max_pool2d", "pytorch/executorch#11819")
def pool_stride_of_height() -> Patched:
    """Max pool: the check looks at the height alone."""
    code = "stride_within_kernel"
    return _rule(MaxPool2dConfig, code, lambda node, site: pool_stride(node)[0] <= pool_kernel(node)[0])


@fault(xnnpack, "rule", "avg_pool2d", "pytorch/executorch#21862")
def counted_without_padding() -> Patched:
    """Average pool: a flag is refused where it means nothing."""
    name = "count_include_pad"
    return _rule(AvgPoolingConfig, name, lambda node, site: not argument(node, 5, name, True))


@fault(xnnpack, "compiler", "max_pool2d", "pytorch/executorch#7355")
def ceil_without_dilation() -> Patched:
    """Ceil_mode: the added padding ignores dilation."""

    def window(kernel: Any, stride: Any, padding: Any, extra: Any = (0, 0), dilation: Any = (1, 1)) -> dict[str, int]:
        fewer = [max(e - (d - 1) * (k - 1), 0) for e, d, k in zip(extra, dilation, kernel, strict=True)]
        return right(kernel, stride, padding, (fewer[0], fewer[1]), dilation)

    right = pooling.window
    return patch.object(pooling, "window", window)


def _standing_for_both() -> Patched:
    """A node that takes others along has their result itself, whoever else reads it."""
    right = program._Walk._lower

    def lower(self: Any, node: fx.Node, how: Any) -> None:
        right(self, node, how)
        self.ctx.values.setdefault(node, list(self.ctx.values.values())[-1])

    return patch.object(program._Walk, "_lower", lower)


@fault(xnnpack, "compiler", "conv2d", "pytorch/executorch#20601")
def norm_folded_for_all() -> Patched:
    """A batch norm is folded where the product has other users."""

    def user(node: fx.Node) -> fx.Node | None:
        norms = (each for each in node.users if target_name(each.target) == NORM)
        return next(norms, None) or only_user(node)

    return together(_standing_for_both(), patch.object(normalization, "only_user", user))


@fault(xnnpack, "compiler", "add or conv1d or linear or relu", "pytorch/executorch#6894")
def relu_fused_for_all() -> Patched:
    """Relu is fused although the sum has other users."""

    def behind(node: fx.Node) -> fx.Node | None:
        return next((each for each in node.users if is_named(each, CLAMPS)), None)

    return together(_standing_for_both(), patch.object(program, "_clamp_behind", behind))


@fault(xnnpack, "compiler", "slice", "pytorch/executorch#10122")
def slice_start_clipped() -> Patched:
    """Slice: a negative start is cut off at 0, not counted from the end."""

    def lower(operation: Any) -> Any:
        operation.arguments["start"] = max(operation.arguments["start"] or 0, 0)
        return layout.slice_(operation)

    return patch.object(SliceCopyConfig, "lower", lower)


@fault(xnnpack, "compiler", "conv1d", "pytorch/executorch#20558")
def padding_on_the_other_end() -> Patched:
    """Uneven padding before a convolution lands on the wrong end."""

    def options(x: Any, pads: Any, number: float) -> dict[str, object]:
        return layout.pad_options(x, [pads[position ^ 1] for position in range(len(pads))], number)

    return patch.object(linear, "pad_options", options)


@fault(xnnpack, "device", "avg_pool2d", "kulinseth/pytorch#273")
def pool_kernels_shared() -> Patched:
    """Pools of one window share a kernel, whatever their padding."""
    right, kept = float32.avg_pool2d, dict[Any, Any]()

    def kernel(window: Any, stride: Any, padding: Any = ((0, 0), (0, 0)), half: bool = False) -> Any:
        return kept.setdefault((window, stride, half), right(window, stride, padding, half))

    return patch.object(float32, "avg_pool2d", kernel)


@fault(xnnpack, "device", "leaky_relu", "tensorflow/tensorflow#37279")
def leaky_as_maximum() -> Patched:
    """Leaky relu is max(x, slope * x): for slopes from 0 to 1."""

    def rule(site: DeviceSite) -> Step:
        slope = float(site.option("negative_slope"))
        return Step(in_float32(lambda x: torch.maximum(x, x * slope), site.y.dtype))

    return patch.dict(RULES, {"LeakyReLU": rule})


@fault(xnnpack, "device", "softmax", "microsoft/onnxruntime#15949")
def softmax_of_matrices() -> Patched:
    """Softmax sees two dimensions, all but the first as one."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        return activation.softmax(x.reshape(len(x), -1) if x.dim() > 1 else x).reshape(x.shape)

    return patch.dict(elementwise.UNARY, {"Softmax": kernel})
