"""Rules of matrix products and convolutions."""

from __future__ import annotations

import torch
from torch import fx

from npu_assay.partitioners.exir.cluster import HARDTANH
from npu_assay.partitioners.exir.nodes import argument, rank, shape, size_text, type_text
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.qdq import SMALLEST_NORMAL, qparams
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.xnnpack.linear import (
    CONVOLUTION,
    LINEAR,
    Product,
    bias_codes,
    groups,
    is_transposed,
    output_axis,
    output_count,
)
from npu_assay.partitioners.xnnpack.options import ConfigPrecisionType
from npu_assay.partitioners.xnnpack.patterns import QuantisedWeight, code_range, is_dequantize, result_path
from npu_assay.partitioners.xnnpack.site import Site
from npu_assay.partitioners.xnnpack.support.elementwise import limits_of_hardtanh
from npu_assay.partitioners.xnnpack.support.layout import open_sizes

GROUP_MULTIPLE = 32
RESCALE_LIMIT = 256.0
MAX_WEIGHT_RANK = 4


@rule("static_weights")
def static_weights(node: fx.Node, site: Site) -> str | None:
    """weights and bias must be constants"""
    found = site.product
    if found is None or may_be_computed(node, site):
        return None
    for name, source in (("weight", found.stored), ("bias", found.bias)):
        if source is not None and not site.program.is_constant(source):
            return f"{name} {source.name} is computed"
    return None


def may_be_computed(node: fx.Node, site: Site) -> bool:
    """Whether a product on real numbers takes its weight and bias when it runs."""
    found = site.product
    if found is None or found.precision is not ConfigPrecisionType.FP32 or is_convolution(node):
        return False
    dequantized = is_linear(node) and site.is_overridden
    return dequantized or site.program.options.force_non_static_weights_for_f32_linear


def is_convolution(node: fx.Node) -> bool:
    """Whether it is a convolution, transposed or not."""
    return target_name(node.target) == CONVOLUTION


def is_linear(node: fx.Node) -> bool:
    """Whether it is a linear layer that was not decomposed."""
    return target_name(node.target) == LINEAR


@rule("spatial_rank")
def spatial_rank(node: fx.Node, site: Site) -> str | None:
    """the weight must have rank 4 or less"""
    found = rank(site.product.weight) if site.product else 0
    return None if found <= MAX_WEIGHT_RANK else f"weight of rank {found}"


@rule("open_sizes")
def flat_open_sizes(node: fx.Node, site: Site) -> str | None:
    """at most 1 size may be open: with one spatial dimension, the input is reshaped to have two"""
    return open_sizes.check(node, site) if rank(node) == 3 else None


@rule("rank")
def matrix_weight(node: fx.Node, site: Site) -> str | None:
    """the weight must have rank 2"""
    found = rank(site.product.weight) if site.product else 2
    return None if found == 2 else f"weight of rank {found}"


@rule("output_padding")
def output_padding(node: fx.Node, site: Site) -> str | None:
    """the output padding must be smaller than the stride"""
    if not is_transposed(node):
        return None
    spatial = rank(node) - 2
    strides, extra = (_repeated(argument(node, position, ""), spatial) for position in (3, 7))
    larger = any(e >= s for e, s in zip(extra, strides, strict=True))
    return f"output padding {size_text(extra)}, stride {size_text(strides)}" if larger else None


def _repeated(numbers: list[int], count: int) -> list[int]:
    return list(numbers) * count if len(numbers) == 1 else list(numbers)


@rule("bias_shape")
def bias_shape(node: fx.Node, site: Site) -> str | None:
    """the bias must have one element per output"""
    bias = site.product.bias if site.product else None
    if bias is None or shape(bias) == (output_count(node),):
        return None
    return f"bias {size_text(shape(bias))}, {output_count(node)} outputs"


# ------------------------------------------------------------------------------------ activations and results


@rule("quantized")
def quantized(node: fx.Node, site: Site) -> str | None:
    """a product of quantized weights must stand between dequantize and one quantize node,
    with at most a relu or a hardtanh before that"""
    found = site.product
    if found is None or found.precision is not ConfigPrecisionType.STATIC_QUANT:
        return None
    if qparams(found.activation) is None:
        return f"operand {found.activation} is not dequantized"
    activation, output = result_path(node, site.fused)
    if output is None:
        return f"{len(activation.users if activation else node.users)} users of the unquantized result"
    return None if qparams(output) is not None else f"{output.name} uses the unquantized result"


@rule(limits_of_hardtanh[0].code)
def fused_limits(node: fx.Node, site: Site) -> str | None:
    """the limits of a hardtanh that becomes part of the operator must be numbers"""
    activation = result_path(node, site.fused)[0]
    if site.product is None or site.product.precision is ConfigPrecisionType.DYNAMIC_QUANT:
        return None
    if activation is None or target_name(activation.target) != HARDTANH:
        return None
    found = (limit.check(activation, site) for limit in limits_of_hardtanh)
    return next((f"{activation.name}: {text}" for text in found if text is not None), None)


@rule("run_time_qparams")
def run_time_qparams(node: fx.Node, site: Site) -> str | None:
    """an activation quantized at run time must get its parameters from its own range, and the codes -128..127"""
    found = site.product
    if found is None or found.precision is not ConfigPrecisionType.DYNAMIC_QUANT:
        return None
    if found.dynamic is None:
        return f"operand {found.activation} is not quantized with parameters of its own"
    for member in (found.dynamic.choose, found.dynamic.quantize, found.dynamic.dequantize):
        if code_range(member) != (-128, 127, torch.int8):
            low, high, dtype = code_range(member)
            return f"{member.name} has {dtype} codes {low}..{high}"
    return None


@rule("dtype")
def run_time_dtype(node: fx.Node, site: Site) -> str | None:
    """activations that are quantized at run time must be float32"""
    dynamic = site.product.dynamic if site.product else None
    found = None if dynamic is None else dynamic.source.meta["val"].dtype
    return None if found in (None, torch.float32) else f"operand is {type_text(found)}"


@rule("depthwise")
def depthwise(node: fx.Node, site: Site) -> str | None:
    """with activations quantized at run time, each group must have more than 1 input channel"""
    found = site.product
    if found is None or found.precision is not ConfigPrecisionType.DYNAMIC_QUANT:
        return None
    sizes = shape(found.weight)
    channels = sizes[0] // groups(node) if is_transposed(node) else sizes[1]
    return f"{channels} input channel of {groups(node)} groups" if channels == 1 else None


# ------------------------------------------------------------------------------------ quantized weights


def quantised_of(site: Site) -> QuantisedWeight | None:
    """The stored weight of a product that is computed on codes."""
    return site.product.quantised if site.product else None


@rule("weight_dtype")
def weight_dtype(node: fx.Node, site: Site) -> str | None:
    """quantized weights must be int8 codes with a scale per tensor, per output channel or per group"""
    found = site.product
    if found is None or found.precision is ConfigPrecisionType.FP32:
        return None
    if found.quantised is None:
        return f"{found.weight} has parameters of another kind"
    dtype = found.quantised.codes.meta["val"].dtype
    return None if dtype == torch.int8 else f"codes are {type_text(dtype)}"


@rule("weight_zero_point")
def weight_zero_point(node: fx.Node, site: Site) -> str | None:
    """quantized weights must be symmetric (zero point 0)"""
    weight = quantised_of(site)
    if weight is None or weight.zero_point is None:
        return None
    if not isinstance(weight.zero_point, fx.Node):
        return None if weight.zero_point == 0 else f"zero point {weight.zero_point}"
    data = site.program.data(weight.zero_point)
    if data is None or not bool(data.any()):
        return None
    return f"zero points {sorted(set(data.flatten().tolist()))}"


@rule("weight_scales")
def weight_scales(node: fx.Node, site: Site) -> str | None:
    """scales of weights must be constants, positive and normal"""
    weight = quantised_of(site)
    if weight is None:
        return None
    for parameter in (weight.scale, weight.zero_point):
        if isinstance(parameter, fx.Node) and not site.program.is_constant(parameter):
            return f"{parameter.name} is computed"
    scales = scales_of(weight, site)
    if scales is None:
        return None
    wrong = scales[~(torch.isfinite(scales) & (scales >= torch.finfo(torch.float32).tiny))]
    return f"scale {float(wrong[0])}" if len(wrong) else None


def scales_of(weight: QuantisedWeight, site: Site) -> torch.Tensor | None:
    """All scales as float32, flat; None when they are not known."""
    if isinstance(weight.scale, (int, float)):
        return torch.tensor([weight.scale], dtype=torch.float32)
    data = site.program.data(weight.scale)
    return None if data is None else data.to(torch.float32).flatten()


@rule("weight_axis")
def weight_axis(node: fx.Node, site: Site) -> str | None:
    """per-channel weights must have one scale per output channel"""
    weight, found = quantised_of(site), site.product
    if weight is None or found is None or weight.kind == "per_tensor":
        return None
    if weight.kind == "per_group":
        return None if is_linear(node) else "scales per group"
    axis = weight.axis % rank(weight.codes)
    return None if axis == output_axis(node, found) else f"{size_text(shape(weight.scale))} scales along axis {axis}"


@rule("transposed_groups")
def transposed_groups(node: fx.Node, site: Site) -> str | None:
    """a transposed convolution with per-channel weights must have 1 group"""
    weight = quantised_of(site)
    if weight is None or weight.kind == "per_tensor" or not is_transposed(node) or groups(node) == 1:
        return None
    return f"{groups(node)} groups"


@rule("group_size")
def group_size(node: fx.Node, site: Site) -> str | None:
    """the group size must be a multiple of 32 and divide the number of inputs"""
    weight = quantised_of(site)
    if weight is None or weight.kind != "per_group":
        return None
    inputs = shape(weight.codes)[-1]
    if weight.group in range(GROUP_MULTIPLE, inputs + 1, GROUP_MULTIPLE) and inputs % weight.group == 0:
        return None
    return f"groups of {weight.group}, {inputs} inputs"


@rule("group_codes")
def group_codes(node: fx.Node, site: Site) -> str | None:
    """weights with a scale per group must have 4 bits, and activations that are quantized at run time"""
    weight, found = quantised_of(site), site.product
    if weight is None or found is None or weight.kind != "per_group":
        return None
    if weight.bits != 4:
        low, high, _ = code_range(weight.dequantize)
        return f"codes {low}..{high}"
    if found.precision is ConfigPrecisionType.DYNAMIC_QUANT:
        return None
    coded = is_dequantize(found.activation)
    return "activations are quantized ahead of time" if coded else "activations are not quantized"


@rule("requant_scale")
def requant_scale(node: fx.Node, site: Site) -> str | None:
    """input scale * weight scale / output scale must be below 256"""
    found = site.product
    if found is None or found.precision is not ConfigPrecisionType.STATIC_QUANT or found.quantised is None:
        return None
    before, after = qparams(found.activation), qparams(result_path(node, site.fused)[1])
    scales = scales_of(found.quantised, site)
    if before is None or after is None or scales is None or after.scale32 == 0:
        return None
    single = torch.float32
    ratio = (torch.tensor(before.scale32, dtype=single) * scales) / torch.tensor(after.scale32, dtype=single)
    largest = float(ratio.max())
    return None if largest < RESCALE_LIMIT else f"{largest:.9g}"


@rule("accumulators")
def accumulators(node: fx.Node, site: Site) -> str | None:
    """sums of products of codes, with the bias in steps of input scale * weight scale, must fit into 32 bits"""
    found = site.product
    if found is None or found.precision is not ConfigPrecisionType.STATIC_QUANT or found.quantised is None:
        return None
    before, data = qparams(found.activation), site.program.data(found.quantised.codes)
    scales = scales_of(found.quantised, site)
    if before is None or data is None or scales is None or before.defect() is not None:
        return None
    largest = _magnitudes(node, found, data) * max(127 - before.zero_point, before.zero_point + 128)
    bias = None if found.bias is None else site.program.data(found.bias)
    fits = scales.numel() in (1, len(largest))  # else another rule refuses it
    if bias is not None and bias.numel() == len(largest) and fits:
        steps = scales * before.scale
        if bool((steps < SMALLEST_NORMAL).any()):
            return f"steps of {float(steps.min()):.6g} for the bias"
        largest = largest + bias_codes(bias, steps).to(torch.float64).abs()
    return f"up to {float(largest.max()):.0f}" if largest.numel() and float(largest.max()) >= 2**31 else None


def _magnitudes(node: fx.Node, found: Product, data: torch.Tensor) -> torch.Tensor:
    """Sums of magnitudes of the weights, one for each output: float64."""
    wide, axis = data.to(torch.float64).abs(), output_axis(node, found)
    if is_transposed(node):  # [inputs, outputs of a group, ...]
        return wide.reshape(groups(node), -1, *wide.shape[1:]).transpose(1, 2).flatten(2).sum(2).flatten()
    return wide.movedim(axis, 0).flatten(1).sum(1)
