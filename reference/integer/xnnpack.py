"""Static int8 as XNNPACK computes it: ATen operators on codes, by `npu_assay.reference.arithmetic.xnnpack.static`.

Which operators there are, and that movement and max pooling never rescale: ExecuTorch's XNNPACK delegate.
A bias is real, and made into codes of the accumulator's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic.xnnpack import static
from npu_assay.reference.golden.aten import CLONE, aten
from npu_assay.reference.integer.operand import (
    Given,
    QTensor,
    Rule,
    on_images,
    operand,
    pair,
    require,
    symmetric,
)

NEARLY = 1e-9
"""How far a factor of 1 may be from 1: ExecuTorch compares it so, and then leaves it out."""

Binary = Callable[[Tensor, Tensor, Affine, Affine, Affine], Tensor]


def _binary(op: str, function: Binary) -> Rule:
    def rule(given: Given, y: Affine) -> Tensor:
        a, b = operand(given, "self"), operand(given, "other")
        alpha = given.get("alpha", 1)
        require(abs(alpha - 1) <= NEARLY, op, f"alpha = {alpha}", "alpha = 1")
        return function(a.codes, b.codes, a.affine, b.affine, y)

    return rule


def _limits(lower: str | float, upper: str | float | None) -> Rule:
    """relu and its kin: limits are numbers, or the names of the arguments that hold them."""

    def rule(given: Given, y: Affine) -> Tensor:
        x = operand(given, "self")
        lo, hi = (given[limit] if isinstance(limit, str) else limit for limit in (lower, upper))
        if lo is not None and hi is not None:
            lo = min(lo, hi)  # torch takes the upper of two crossed limits
        return static.clamp(x.codes, lo, hi, x.affine, y)

    return rule


def _bias(given: Given, x: QTensor, weight: QTensor) -> Tensor | None:
    """The real bias (a float32 tensor) as codes."""
    found = given["bias"]
    if found is None:
        return None
    require(isinstance(found, Tensor), "bias", type(found).__name__, "a real tensor")
    return static.quantize_bias(found, x.affine, weight.scales)


def _linear(given: Given, y: Affine) -> Tensor:
    x, weight = operand(given, "input"), operand(given, "weight")
    require(weight.zero_point == 0, "linear", f"weight zero point {weight.zero_point}", "0")
    return static.linear(x.codes, weight.codes, _bias(given, x, weight), x.affine, weight.scales, y)


def _convolution(given: Given, y: Affine) -> Tensor:
    """1-D and 2-D, grouped and transposed; weights [O, I / groups, ...] or, transposed, [I, O / groups, ...]."""
    x, weight = operand(given, "input"), operand(given, "weight")
    require(weight.zero_point == 0, "convolution", f"weight zero point {weight.zero_point}", "0")
    rank = weight.codes.dim() - 2
    require(rank in (1, 2), "convolution", f"rank {rank + 2} weights", "rank 3 or 4")
    kernel = weight.codes if rank == 2 else weight.codes.unsqueeze(-2)
    constants = (_bias(given, x, weight), x.affine, weight.scales, y)
    window = (pair(given["stride"], rank), pair(given["dilation"], rank), symmetric(given["padding"], rank))
    if given["transposed"]:
        more = (0, pair(given["output_padding"], 1)[1]) if rank == 1 else pair(given["output_padding"])
        laid = output_major(kernel, int(given["groups"]))
        return on_images(lambda codes: static.transpose_conv2d(codes, laid, *constants, *window, more), x.codes)
    laid = kernel.permute(0, 2, 3, 1)
    return on_images(lambda codes: static.conv2d(codes, laid, *constants, *window), x.codes)


def output_major(kernel: Tensor, groups: int) -> Tensor:
    """Transposed weights [I, O / groups, KH, KW] as [O, KH, KW, I / groups]."""
    inputs, outputs, height, width = kernel.shape
    split = kernel.reshape(groups, inputs // groups, outputs, height, width)
    return split.permute(0, 2, 3, 4, 1).reshape(groups * outputs, height, width, inputs // groups)


def _mean(given: Given, y: Affine) -> Tensor:
    x = operand(given, "self")
    dims = sorted(axis % x.codes.dim() for axis in given["dim"])
    images = x.codes.dim() == 4 and dims == [2, 3] and bool(given["keepdim"])
    require(images, "mean", f"dims {dims} of rank {x.codes.dim()}", "height and width of images, kept")
    return on_images(lambda codes: static.mean(codes, x.affine, y), x.codes)


def _max_pool(given: Given, y: Affine) -> Tensor:
    """torch's own on the codes, which keep their order as reals do; padding is never the largest."""
    x = operand(given, "self")
    _same_quantisation(x, y, "max_pool2d")
    arguments = [given[name] for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")]
    pooled: Tensor = torch.ops.aten.max_pool2d.default(x.codes.float(), *arguments)
    return pooled.char()


def _moved(op: str) -> Rule:
    def rule(given: Given, y: Affine) -> Tensor:
        x = operand(given, "self")
        _same_quantisation(x, y, op)
        ignored = {"self", "memory_format", "dim_order", "non_blocking", "dtype", "layout", "device", "pin_memory"}
        rest = [value for name, value in given.items() if name not in ignored]
        moved: Tensor = x.codes if op in _COPIES else aten(op)(x.codes, *rest)
        return moved.contiguous()

    return rule


def _cat(given: Given, y: Affine) -> Tensor:
    for piece in given["tensors"]:
        _same_quantisation(piece, y, "cat")
    return torch.cat([piece.codes for piece in given["tensors"]], given["dim"])


def _same_quantisation(x: QTensor, y: Affine, op: str) -> None:
    same = (x.affine.scale32, x.zero_point) == (y.scale32, y.zero_point)
    require(same, op, f"scale {x.scale}, zero point {x.zero_point}", f"the output's {y.scale32}, {y.zero_point}")


_COPIES = frozenset({CLONE, "aten.clone.default", "dim_order_ops._to_dim_order_copy.default"})
_MOVED = (
    "aten.permute_copy.default",
    "aten.slice_copy.Tensor",
    "aten.unsqueeze_copy.default",
    "aten.view_copy.default",
    *sorted(_COPIES),
)

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "aten.relu.default": _limits(0.0, None),
        "aten.relu6.default": _limits(0.0, 6.0),
        "aten.hardtanh.default": _limits("min_val", "max_val"),
        "aten.clamp.default": _limits("min", "max"),
        "aten.add.Tensor": _binary("aten.add.Tensor", static.add),
        "aten.sub.Tensor": _binary("aten.sub.Tensor", static.sub),
        "aten.mul.Tensor": _binary("aten.mul.Tensor", static.mul),
        "aten.linear.default": _linear,
        "aten.convolution.default": _convolution,
        "aten.mean.dim": _mean,
        "aten.max_pool2d.default": _max_pool,
        "aten.cat.default": _cat,
        **{op: _moved(op) for op in _MOVED},
    }
)

PRODUCTS = frozenset({"aten.linear.default", "aten.convolution.default"})
"""Operators whose third operand, the bias, is real."""

_CLAMPS = frozenset({"aten.relu.default", "aten.hardtanh.default"})
FUSED: Mapping[str, frozenset[str]] = MappingProxyType(
    {**dict.fromkeys(PRODUCTS, _CLAMPS), "aten.add.Tensor": frozenset({"aten.relu.default"})}
)
"""What an operator computes together with the activation behind it."""
