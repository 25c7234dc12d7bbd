"""Static int8 as XNNPACK computes it: ATen operators on codes, by `npu_assay.reference.arithmetic.xnnpack.static`.

Which operators there are, and that movement and max pooling never rescale: ExecuTorch's XNNPACK delegate.
A bias is real, and made into codes of the accumulator's steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from npu_assay.reference.affine import Affine
from npu_assay.reference.arithmetic.xnnpack import static
from npu_assay.reference.golden.aten import aten
from npu_assay.reference.integer.operand import Given, QTensor, Rule, added, binary, on_images, operand, require, window
from npu_assay.reference.operators.home import ByName

NEARLY = 1e-9
"""How far a factor of 1 may be from 1: ExecuTorch compares it so, and then leaves it out."""

add = binary("aten.add.Tensor", static.add, NEARLY)
sub = binary("aten.sub.Tensor", static.sub, NEARLY)
mul = binary("aten.mul.Tensor", static.mul, NEARLY)


def _limits(lower: str | float, upper: str | float | None) -> Rule:
    """relu and its kin: limits are numbers, or the names of the arguments that hold them."""

    def rule(given: Given, y: Affine) -> Tensor:
        x = operand(given, "self")
        lo, hi = (given[limit] if isinstance(limit, str) else limit for limit in (lower, upper))
        if lo is not None and hi is not None:
            lo = min(lo, hi)  # torch takes the upper of two crossed limits
        return static.clamp(x.codes, lo, hi, x.affine, y)

    return rule


relu, relu6 = _limits(0.0, None), _limits(0.0, 6.0)
hardtanh, clamp = _limits("min_val", "max_val"), _limits("min", "max")


def _bias(given: Given, x: QTensor, weight: QTensor) -> Tensor | None:
    """The real bias (a float32 tensor) as codes."""
    found = given["bias"]
    if found is None:
        return None
    require(isinstance(found, Tensor), "bias", type(found).__name__, "a real tensor")
    return static.quantize_bias(found, x.affine, weight.scales)


def linear(given: Given, y: Affine) -> Tensor:
    x, weight = operand(given, "input"), operand(given, "weight")
    require(weight.zero_point == 0, "linear", f"weight zero point {weight.zero_point}", "0")
    return static.linear(x.codes, weight.codes, _bias(given, x, weight), x.affine, weight.scales, y)


def convolution(given: Given, y: Affine) -> Tensor:
    """1-D and 2-D, grouped and transposed; weights [O, I / groups, ...] or, transposed, [I, O / groups, ...]."""
    x, weight = operand(given, "input"), operand(given, "weight")
    require(weight.zero_point == 0, "convolution", f"weight zero point {weight.zero_point}", "0")
    rank = weight.codes.dim() - 2
    require(rank in (1, 2), "convolution", f"rank {rank + 2} weights", "rank 3 or 4")
    kernel = weight.codes if rank == 2 else weight.codes.unsqueeze(-2)
    constants = (_bias(given, x, weight), x.affine, weight.scales, y)
    places = window(given, rank)
    if given["transposed"]:
        more, laid = added(given["output_padding"], rank), output_major(kernel, int(given["groups"]))
        return on_images(lambda codes: static.transpose_conv2d(codes, laid, *constants, *places, more), x.codes)
    laid = kernel.permute(0, 2, 3, 1)
    return on_images(lambda codes: static.conv2d(codes, laid, *constants, *places), x.codes)


def output_major(kernel: Tensor, groups: int) -> Tensor:
    """Transposed weights [I, O / groups, KH, KW] as [O, KH, KW, I / groups]."""
    inputs, outputs, height, width = kernel.shape
    split = kernel.reshape(groups, inputs // groups, outputs, height, width)
    return split.permute(0, 2, 3, 4, 1).reshape(groups * outputs, height, width, inputs // groups)


def mean(given: Given, y: Affine) -> Tensor:
    x = operand(given, "self")
    rank = max(1, x.codes.dim())
    dims = sorted(axis % rank for axis in given["dim"])
    images = x.codes.dim() == 4 and dims == [2, 3] and bool(given["keepdim"])
    require(images, "mean", f"dims {dims} of rank {x.codes.dim()}", "height and width of images, kept")
    return on_images(lambda codes: static.mean(codes, x.affine, y), x.codes)


def max_pool(given: Given, y: Affine) -> Tensor:
    """torch's own on the codes, which keep their order as reals do; padding is never the largest."""
    x = operand(given, "self")
    _same_quantisation(x, y, "max_pool2d")
    arguments = [given[name] for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")]
    pooled: Tensor = torch.ops.aten.max_pool2d.default(x.codes.float(), *arguments)
    return pooled.char()


@ByName
def moved(op: str) -> Rule:
    """The operator itself on codes, which never rescales."""

    def rule(given: Given, y: Affine) -> Tensor:
        x = operand(given, "self")
        _same_quantisation(x, y, op)
        rest = [value for name, value in given.items() if name not in _LAYOUT]
        found: Tensor = aten(op)(x.codes, *rest)
        return found.contiguous()

    return rule


_LAYOUT = frozenset({"self", "memory_format", "dim_order", "non_blocking"})


@ByName
def copied(op: str) -> Rule:
    """The codes: all further arguments name a layout or a type."""

    def rule(given: Given, y: Affine) -> Tensor:
        x = operand(given, "self")
        _same_quantisation(x, y, op)
        return x.codes.contiguous()

    return rule


def cat(given: Given, y: Affine) -> Tensor:
    for piece in given["tensors"]:
        _same_quantisation(piece, y, "cat")
    return torch.cat([piece.codes for piece in given["tensors"]], given["dim"])


def _same_quantisation(x: QTensor, y: Affine, op: str) -> None:
    same = (x.affine.scale32, x.zero_point) == (y.scale32, y.zero_point)
    require(same, op, f"scale {x.scale}, zero point {x.zero_point}", f"the output's {y.scale32}, {y.zero_point}")
