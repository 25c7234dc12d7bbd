"""Rules of convolutions and matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import fx

from npu_assay.partitioners.ethosu.support.common import MAX_SIDE, MAX_SIZE, MAX_STRIDE, dtype_of, is_named
from npu_assay.partitioners.ethosu.support.quantization import operand_params
from npu_assay.partitioners.ethosu.support.rule import Context, Rule
from npu_assay.partitioners.exir.nodes import argument, operand, rank, shape, size_text, type_text
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_CHANNEL
from npu_assay.partitioners.exir.qdq import input_qparams, is_dequantize, qparams
from npu_assay.partitioners.exir.rules import rule

CONVOLUTION = "aten.convolution.default"
MAX_KERNEL_HEIGHT = 64
MAX_KERNEL_AREA = 4096
MAX_WEIGHT_SUM = 127 * 65536
MAX_WEIGHT = 128


# ------------------------------------------------------------------------------------ reading


def is_transposed(node: fx.Node) -> bool:
    """Whether the node is a transposed convolution."""
    return is_named(node, CONVOLUTION) and bool(argument(node, 6, "transposed"))


def groups(node: fx.Node) -> int:
    """The number of groups; 1 for a linear layer."""
    return int(argument(node, 8, "groups")) if is_named(node, CONVOLUTION) else 1


def per_axis(node: fx.Node, position: int, name: str) -> list[int]:
    """A convolution's argument with one number per spatial axis, which may be written once for all."""
    found = list(argument(node, position, name, []) or [])
    return found * (rank(operand(node, 1)) - 2) if len(found) == 1 else found


def plane(node: fx.Node) -> tuple[int, int]:
    """Height and width of a convolution's kernel; 1 high where there is one spatial axis."""
    sizes = shape(operand(node, 1))[2:]
    return (1, sizes[0]) if len(sizes) == 1 else (sizes[-2], sizes[-1])


def output_axis(node: fx.Node) -> int:
    """The axis of the weight that runs over the outputs."""
    return 1 if is_transposed(node) else 0


def weight_codes(node: fx.Node, context: Context) -> torch.Tensor | None:
    """The integers of the weight; None when they are not known."""
    weight = operand(node, 1)
    return None if weight is None or not is_dequantize(weight) else context.data(weight.args[0])


def weight_scales(node: fx.Node, context: Context) -> torch.Tensor | None:
    """Scales of the weight as float64: one, or one per output; None when they are not known."""
    weight = operand(node, 1)
    return None if weight is None else scales_of(weight, context)


def scales_of(source: fx.Node, context: Context) -> torch.Tensor | None:
    """The scales that a dequantize uses, as float64; None when they are not known."""
    params = qparams(source)
    if params is not None:
        return torch.tensor([params.scale], dtype=torch.float64)
    data = context.data(source.args[1]) if is_named(source, DEQUANTIZE_PER_CHANNEL) else None
    return None if data is None or not data.numel() else data.to(torch.float64)


def largest_sum(node: fx.Node, largest: int, context: Context) -> int:
    """A bound for the accumulators, for inputs of that distance from their zero point."""
    codes, weight = weight_codes(node, context), operand(node, 1)
    if codes is None:
        outputs = shape(weight)[output_axis(node)]
        return largest * MAX_WEIGHT * (math.prod(shape(weight)) // outputs) + _largest_bias(node, context)
    return largest * int(weight_sums(node, codes).max()) + _largest_bias(node, context) if codes.numel() else 0


def _largest_bias(node: fx.Node, context: Context) -> int:
    """The largest bias in steps of input scale * weight scale, which the compiler writes; 0 when it is not known."""
    bias, x, scales = operand(node, 2), input_qparams(node), weight_scales(node, context)
    coded = bias is not None and is_dequantize(bias)
    data = context.data(bias.args[0] if coded and bias is not None else bias)
    own = scales_of(bias, context) if coded and bias is not None else torch.ones(1)
    if data is None or not data.numel() or own is None or x is None or scales is None:
        return 0
    if scales.numel() not in (1, data.numel()):
        scales = scales.min()
    if own.numel() not in (1, data.numel()):
        own = own.max()
    steps = data.flatten().to(torch.float64).abs() * own / (scales * x.scale)
    return int(steps.clamp(max=2.0**47).max())


def weight_sums(node: fx.Node, codes: torch.Tensor) -> torch.Tensor:
    """For each output (of each group together, if transposed) the sum of absolute weights."""
    return codes.to(torch.int64).abs().transpose(0, output_axis(node)).flatten(1).sum(1)


# ------------------------------------------------------------------------------------ constants


@rule("static_weights")
def static_weights(node: fx.Node, context: Context) -> str | None:
    """bias and weights must be constants (on Ethos-U85 not those of flat products without groups)"""
    # Vela encodes filters ahead of time; Ethos-U85 takes those of flat convolutions without groups as they come.
    flat = rank(operand(node, 1)) < 5 and not is_transposed(node) and groups(node) == 1
    for name, position in (("weight", 1), ("bias", 2)):
        source = operand(node, position)
        free = name == "weight" and flat and not context.is_u55
        if source is not None and not free and not context.is_constant(source):
            return f"{name} {source.name} is computed"
    return None


@rule("weight_dtype")
def weight_dtype(node: fx.Node, context: Context) -> str | None:
    """weights must be int8"""
    # Of 4-bit weights the codes are in 8 bits.
    weight = operand(node, 1)
    if weight is None or not is_dequantize(weight):
        return None
    found = dtype_of(weight.all_input_nodes[0])
    return None if found == torch.int8 else f"weight is {type_text(found)}"


@rule("weight_zero_point")
def weight_zero_point(node: fx.Node, context: Context) -> str | None:
    """per-channel weights must be symmetric (zero point 0)"""
    # TOSA has one zero point for all weights.
    weight = operand(node, 1)
    if weight is None or not is_named(weight, DEQUANTIZE_PER_CHANNEL):
        return None
    data = context.data(weight.args[2])
    return f"zero points {sorted(set(data.tolist()))}" if data is not None and bool(data.any()) else None


@rule("weight_axis")
def weight_axis(node: fx.Node, context: Context) -> str | None:
    """per-channel weights must have one scale per output channel"""
    # RESCALE multiplies channel by channel of the output.
    weight = operand(node, 1)
    if weight is None or not is_named(weight, DEQUANTIZE_PER_CHANNEL):
        return None
    axis = int(argument(weight, 3, "axis")) % rank(weight)
    return None if axis == output_axis(node) else f"scales along axis {axis}"


@rule("weight_sum", MAX_WEIGHT_SUM)
def weight_sum(node: fx.Node, context: Context) -> str | None:
    """the absolute weights of one output must sum up to at most {value}"""
    # Ethos-U55's accumulators.
    codes = weight_codes(node, context) if context.is_u55 else None
    largest = 0 if codes is None or not codes.numel() else int(weight_sums(node, codes).max())
    return None if largest <= MAX_WEIGHT_SUM else f"{largest}"


@rule("bias_dtype")
def bias_dtype(node: fx.Node, context: Context) -> str | None:
    """the bias must be int32"""
    # The accumulator starts with it.
    bias = operand(node, 2)
    if bias is None or not is_dequantize(bias):
        return None
    found = dtype_of(bias.all_input_nodes[0])
    return None if found == torch.int32 else f"bias is {type_text(found)}"


# ------------------------------------------------------------------------------------ convolutions


@rule("spatial_rank")
def flat_kernel(node: fx.Node, context: Context) -> str | None:
    """the weight must have rank 4"""
    # Of transposed convolutions; others may have one, two or three spatial axes.
    found = rank(operand(node, 1))
    return f"rank {found}" if is_transposed(node) and found != 4 else None


@rule("output_padding")
def output_padding(node: fx.Node, context: Context) -> str | None:
    """output_padding must be 0"""
    # Of ordinary convolutions it means nothing.
    found = per_axis(node, 7, "output_padding")
    return f"output_padding {found}" if not is_transposed(node) and any(found) else None


@rule("dilation")
def transposed_dilation(node: fx.Node, context: Context) -> str | None:
    """dilation must be 1"""
    found = per_axis(node, 5, "dilation")
    return f"dilation {found}" if is_transposed(node) and any(d != 1 for d in found) else None


@rule("transposed_padding")
def transposed_padding(node: fx.Node, context: Context) -> str | None:
    """a transposed convolution must not crop whole kernels"""
    # TRANSPOSE_CONV2D crops less than its kernel.
    if not is_transposed(node):
        return None
    pads, extra = per_axis(node, 4, "padding"), per_axis(node, 7, "output_padding")
    kernel = shape(operand(node, 1))[2:]
    if any(pad >= size or pad - more >= size for pad, more, size in zip(pads, extra, kernel, strict=True)):
        return f"padding {pads}, kernel {size_text(kernel)}"
    return None


@rule("level_side", MAX_SIDE)
def level_side(node: fx.Node, context: Context) -> str | None:
    """stride, padding and dilation * kernel must be at most {value} on every axis"""
    # TOSA's level 8K; the dilated kernel itself is smaller than the product.
    strides, pads, spreads = (per_axis(node, *at) for at in ((3, "stride"), (4, "padding"), (5, "dilation")))
    windows = [size * spread for size, spread in zip(shape(operand(node, 1))[2:], spreads, strict=True)]
    fine = max(*strides, *pads, *windows) <= MAX_SIDE
    return None if fine else f"stride {strides}, padding {pads}, dilation * kernel {windows}"


@rule("cropped")
def cropped(node: fx.Node, context: Context) -> str | None:
    """stride and padding must leave something of the input to read"""
    # What the last window does not reach is cut off, first of the padding and then of the input.
    if is_transposed(node):
        return None
    names = ((3, "stride"), (4, "padding"), (5, "dilation"))
    strides, pads, spreads = (per_axis(node, position, name) for position, name in names)
    sizes, kernel = shape(operand(node))[2:], shape(operand(node, 1))[2:]
    for size, window, step, pad, spread in zip(sizes, kernel, strides, pads, spreads, strict=True):
        rest = (size + 2 * pad - (window - 1) * spread - 1) % step
        if rest - pad >= size:
            return f"{size_text(sizes)}, stride {strides}, padding {pads}"
    return None


@rule("transposed_size")
def transposed_size(node: fx.Node, context: Context) -> str | None:
    """the result of a transposed convolution with padding must not be smaller than its stride"""
    # Vela 5.1.0 ends with an error where padding leaves less of a row or a column than a step.
    if not is_transposed(node) or rank(operand(node, 1)) != 4:
        return None
    strides, pads = per_axis(node, 3, "stride"), per_axis(node, 4, "padding")
    sizes = shape(node)[2:]
    if any(pad > 0 and size < step for size, step, pad in zip(sizes, strides, pads, strict=True)):
        return f"{size_text(sizes)}, stride {strides}, padding {pads}"
    return None


@rule("transposed_groups")
def transposed_groups(node: fx.Node, context: Context) -> str | None:
    """a transposed convolution with per-channel weights must have 1 group"""
    # Each group would need its own scales.
    weight = operand(node, 1)
    per_channel = weight is not None and is_named(weight, DEQUANTIZE_PER_CHANNEL)
    return f"{groups(node)} groups" if is_transposed(node) and per_channel and groups(node) != 1 else None


def on_u55(rule: Rule, holds: bool = True) -> Rule:
    """The rule where the limits of Ethos-U55 and Ethos-U65 hold; holds: or where they do not."""

    def check(node: fx.Node, context: Context) -> str | None:
        return rule.check(node, context) if context.is_u55 is holds else None

    return Rule(rule.code, rule.sentence, check)


@on_u55
@rule("max_size", MAX_SIZE)
def image_size(node: fx.Node, context: Context) -> str | None:
    """height, width, channels and, of several images, the product of any two must be at most {value}"""
    # As channels are moved to the end and back, which Vela limits; the batch has no limit, and pools may have none.
    dims = len(shape(operand(node, 1))) - 1 if is_named(node, CONVOLUTION) else 3
    for member in (operand(node), node):
        sizes, images = shape(member)[-dims:], math.prod(shape(member)[:-dims])
        two = math.prod(sorted((images, *sizes))[-2:]) if images > 1 else 1
        if max(*sizes, two) > MAX_SIZE:
            return f"shape {size_text(shape(member))}"
    return None


def max_channels(axis: Callable[[fx.Node], int]) -> Rule:
    """The limit of the input's size along the axis of its channels."""

    @rule("max_channels", MAX_SIZE)
    def check(node: fx.Node, context: Context) -> str | None:
        """the channel count must be at most {value}"""
        found = shape(operand(node))[axis(node)]
        return None if found <= MAX_SIZE else f"{found}"

    return check


few_inputs = max_channels(lambda node: -1)
# For Ethos-U55, image_size has the same limit. Pools may have no batch.
image_channels = on_u55(max_channels(lambda node: 1 if is_named(node, CONVOLUTION) else -3), holds=False)


@on_u55
@rule("kernel_depth")
def kernel_depth(node: fx.Node, context: Context) -> str | None:
    """the kernel depth must be 1, without padding"""
    # Of int16, Vela 5.1.0 leaves out what reads padding alone.
    sizes, pads = shape(operand(node, 1)), per_axis(node, 4, "padding")
    if len(sizes) != 5 or (sizes[2] == 1 and pads[0] == 0):
        return None
    return f"kernel {size_text(sizes[2:])}, padding {pads}"


@on_u55
@rule("kernel_height", MAX_KERNEL_HEIGHT)
def kernel_height(node: fx.Node, context: Context) -> str | None:
    """the kernel height must be at most {value}"""
    # 1.5.1 looks at the width.
    height, width = plane(node)
    return None if height <= MAX_KERNEL_HEIGHT else f"kernel {height}x{width}"


@on_u55
@rule("kernel_area", MAX_KERNEL_AREA)
def kernel_area(node: fx.Node, context: Context) -> str | None:
    """kernel height * width must be at most {value}"""
    height, width = plane(node)
    return None if height * width <= MAX_KERNEL_AREA else f"kernel {height}x{width}"


@on_u55
@rule("stride_or_whole", MAX_STRIDE)
def stride(node: fx.Node, context: Context) -> str | None:
    """where there is padding or dilation, the stride must be at most {value}"""
    # Larger strides are possible where windows are apart from each other and from the border.
    if is_transposed(node):
        return None
    steps, dilations = per_axis(node, 3, "stride")[-2:], per_axis(node, 5, "dilation")[-2:]
    padded = any(pad > 0 for pad in per_axis(node, 4, "padding"))
    if max(steps) > MAX_STRIDE and (padded or any(dilation != 1 for dilation in dilations)):
        return f"stride {steps}, dilation {dilations}{', padded' if padded else ''}"
    return None


@on_u55
@rule("transposed_stride")
def transposed_stride(node: fx.Node, context: Context) -> str | None:
    """the stride must be 1x1, 2x2, 1x2 of one row or 2x1 of one column"""
    if not is_transposed(node) or rank(operand(node, 1)) != 4:
        return None
    sizes, (height, width) = shape(operand(node)), plane(node)
    found = tuple(per_axis(node, 3, "stride"))
    single_row, single_column = sizes[-2] == height == 1, sizes[-1] == width == 1
    fine = found in ((1, 1), (2, 2)) or (found == (1, 2) and single_row) or (found == (2, 1) and single_column)
    return None if fine else f"stride {found} of {size_text(sizes[-2:])} with kernel {height}x{width}"


@on_u55
@rule("no_wide_transposed")
def narrow_transposed(node: fx.Node, context: Context) -> str | None:
    """there are no transposed convolutions of int16"""
    # Vela 5.1.0 ends with an error for each of them.
    params = input_qparams(node)
    wide = params is not None and params.dtype == torch.int16
    return "transposed, on int16" if wide and is_transposed(node) else None


# ------------------------------------------------------------------------------------ matrix products


@on_u55
@rule("max_size", MAX_SIZE)
def matrix_size(node: fx.Node, context: Context) -> str | None:
    """height, width, channels and, of several images, the product of any two must be at most {value}"""
    # Columns of either matrix and of the result.
    for member in (operand(node), operand(node, 1), node):
        if max(shape(member)[-2:]) > MAX_SIZE:
            return f"shape {size_text(shape(member))}"
    return None


@on_u55
@rule("code_dtype")
def matrix_dtype(node: fx.Node, context: Context) -> str | None:
    """the values must be int8"""
    found = [type_text(params.dtype) for params in operand_params(node, context) if params.dtype != torch.int8]
    return found[0] if found else None
