"""Constant operands of convolutions and matrix products: weights and biases."""

from __future__ import annotations

import torch
from torch import fx

from npu_assay.partitioners.exir.nodes import argument, operand, shape
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_CHANNEL, target_name
from npu_assay.partitioners.exir.qdq import input_qparams, is_dequantize, qparams
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.neutron.support.rule import Context

CONVOLUTION = "aten.convolution.default"
ADDMM = "aten.addmm.default"
MM = "aten.mm.default"
LINEAR = frozenset({CONVOLUTION, ADDMM, MM})
WEIGHT_POSITION = {CONVOLUTION: 1, ADDMM: 2, MM: 1}
BIAS_POSITION = {CONVOLUTION: 2, ADDMM: 0}
PERMUTE = "aten.permute_copy.default"
# Products of scales are rounded to float32, so equal ones may differ in the last bits.
SCALE_TOLERANCE = 1e-5


def through_permute(node: fx.Node, source: fx.Node) -> fx.Node:
    """The dequantize of a weight that a linear operator gets transposed, else `source` itself."""
    if target_name(node.target) not in (ADDMM, MM) or target_name(source.target) != PERMUTE:
        return source
    inner = operand(source)
    weight = operand(node, WEIGHT_POSITION[target_name(node.target)])
    alone = source is weight and len(source.users) == 1
    return inner if alone and inner is not None and is_dequantize(inner) else source


def weight_source(node: fx.Node) -> fx.Node | None:
    """The dequantize of a convolution's or matrix product's weight, looking through its transposition."""
    weight = operand(node, WEIGHT_POSITION[target_name(node.target)])
    return None if weight is None else through_permute(node, weight)


def is_weight(node: fx.Node, source: fx.Node) -> bool:
    """Whether `source` is the weight operand of `node`, looking through its transposition."""
    return target_name(node.target) in WEIGHT_POSITION and source is weight_source(node)


def is_bias(node: fx.Node, source: fx.Node) -> bool:
    """Whether `source` is the bias operand of `node`."""
    position = BIAS_POSITION.get(target_name(node.target))
    return position is not None and source is operand(node, position)


def output_axis(node: fx.Node) -> int:
    """The axis of the stored weight that runs over the outputs."""
    if target_name(node.target) == CONVOLUTION:
        return 1 if argument(node, 6, "transposed") else 0
    permuted = operand(node, WEIGHT_POSITION[target_name(node.target)]) is not weight_source(node)
    return 0 if permuted else 1


def output_count(node: fx.Node) -> int:
    """How many outputs, and so bias elements, a convolution or matrix product has."""
    sizes = shape(node)
    return sizes[1] if len(sizes) > 1 else 1


def weight_scales(node: fx.Node, context: Context) -> torch.Tensor | None:
    """float64 scales of the weight: one, or one per output. None when they are not known."""
    source = weight_source(node)
    return None if source is None else scales_of(source, context)


def scales_of(source: fx.Node, context: Context) -> torch.Tensor | None:
    """float64 scales, rounded to float32, that a dequantize uses. None when they are not known."""
    params = qparams(source)
    if params is not None:
        return torch.tensor([params.scale32], dtype=torch.float64)
    if target_name(source.target) != DEQUANTIZE_PER_CHANNEL:
        return None
    data = context.data(source.args[1])
    return None if data is None else data.to(torch.float32).to(torch.float64)


def _symmetry_problem(node: fx.Node, source: fx.Node, context: Context) -> str | None:
    """What keeps the dequantize of a constant weight from being symmetric int8, per tensor or per output."""
    params = qparams(source)
    if params is not None:
        return f"zero point {params.zero_point}" if params.zero_point else None
    if target_name(source.target) != DEQUANTIZE_PER_CHANNEL:
        return None
    axis, dtype = source.args[3], source.args[6]
    if axis != output_axis(node):
        return f"scales along axis {axis} of the weight, expected axis {output_axis(node)}"
    if dtype != torch.int8:
        return f"type {str(dtype).removeprefix('torch.')}"
    return _channel_data_problem(source, context)


def _channel_data_problem(source: fx.Node, context: Context) -> str | None:
    zero_points, scales = context.data(source.args[2]), scales_of(source, context)
    if zero_points is not None and bool((zero_points != 0).any()):
        return f"zero points {zero_points.tolist()}"
    if scales is not None and not bool((torch.isfinite(scales) & (scales > 0)).all()):
        return f"scales {scales.tolist()}"
    return None


@rule("static_weights")
def static_weights(node: fx.Node, context: Context) -> str | None:
    """weights must be constant and symmetric (zero point 0), per tensor or per output"""
    source = weight_source(node)
    if source is None or not context.is_constant(source):
        return "the weight is computed by the model"
    return _symmetry_problem(node, source, context)


@rule("weight_zero_point")
def weight_zero_point(node: fx.Node, context: Context) -> str | None:
    """constant weights must be symmetric (zero point 0), per tensor or per output"""
    source = weight_source(node)
    if source is None:
        return None
    if context.is_constant(source):
        return _symmetry_problem(node, source, context)
    return (
        "a computed weight is quantized per channel" if target_name(source.target) == DEQUANTIZE_PER_CHANNEL else None
    )


@rule("static_bias")
def static_bias(node: fx.Node, context: Context) -> str | None:
    """the bias must be an int32 constant with scale = input scale * weight scale and one element per output"""
    position = BIAS_POSITION[target_name(node.target)]
    bias = argument(node, position, "bias")
    if bias is None:
        return None
    if not isinstance(bias, fx.Node) or not context.is_constant(bias):
        return "the bias is computed by the model"
    if not is_dequantize(bias):
        return "the bias is not quantized"
    count = output_count(node)
    if shape(bias) not in ((count,), (1, count)):
        return f"bias of shape {list(shape(bias))} for {count} outputs"
    return _bias_type_problem(bias, context) or _bias_scale_problem(node, bias, context)


def _bias_type_problem(bias: fx.Node, context: Context) -> str | None:
    params = qparams(bias)
    dtype = params.dtype if params is not None else bias.args[6]
    if dtype != torch.int32:
        return f"type {str(dtype).removeprefix('torch.')}"
    if params is not None:
        return f"zero point {params.zero_point}" if params.zero_point else None
    zero_points = context.data(bias.args[2])
    if zero_points is not None and bool((zero_points != 0).any()):
        return f"zero points {zero_points.tolist()}"
    return None


def _bias_scale_problem(node: fx.Node, bias: fx.Node, context: Context) -> str | None:
    """Relative comparison; silent when a scale's data is not known to the partitioner."""
    x = input_qparams(node, 1 if target_name(node.target) == ADDMM else 0)
    weight, found = weight_scales(node, context), scales_of(bias, context)
    if x is None or weight is None or found is None:
        return None
    expected = weight * x.scale32
    if {found.numel(), expected.numel()} - {1, output_count(node)}:
        return f"{found.numel()} bias scales and {weight.numel()} weight scales for {output_count(node)} outputs"
    wrong = (found - expected).abs() > SCALE_TOLERANCE * expected
    if not wrong.any():
        return None
    index = int(wrong.nonzero()[0])
    one_found, one_expected = (t.expand_as(wrong)[index].item() for t in (found, expected))
    return f"bias scale {one_found:.9g}, expected {one_expected:.9g} (output {index})"
