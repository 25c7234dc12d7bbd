"""Rules of convolutions, plain, depthwise and transposed."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.exir.compiling import pair
from npu_assay.partitioners.exir.nodes import argument, operand, rank, shape
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.neutron.support.rule import Context


def _is_transposed(node: fx.Node) -> bool:
    return bool(argument(node, 6, "transposed"))


@rule("spatial_rank")
def spatial_rank(node: fx.Node, context: Context) -> str | None:
    """only 1-D and 2-D convolutions are supported"""
    found = rank(operand(node))
    return None if found in (3, 4) else f"input of rank {found}"


@rule("batch")
def batch_is_one(node: fx.Node, context: Context) -> str | None:
    """the batch size must be 1"""
    batch, *_ = shape(operand(node))
    return None if batch == 1 else f"batch size {batch}"


@rule("groups")
def groups(node: fx.Node, context: Context) -> str | None:
    """groups must be 1 or, with as many outputs as inputs, the channel count"""
    count = int(argument(node, 8, "groups"))
    inputs, outputs = shape(operand(node)), shape(node)
    if count == 1 or _is_transposed(node) or count == inputs[1] == outputs[1]:
        return None
    return f"{count} groups, {inputs[1]} input and {outputs[1]} output channels"


@rule("transposed")
def transposed(node: fx.Node, context: Context) -> str | None:
    """a transposed convolution must have kernel 1 x even, stride (1, kernel width or half of it), dilation 1, no \
groups and channels that are multiples of the number of MAC units; half strides need output height 1, padding \
must be horizontal, smaller than the kernel, and needs input height 1"""
    if not _is_transposed(node):
        return None
    x, weight = operand(node), operand(node, 1)
    if rank(x) != 4 or rank(weight) != 4:
        return f"input of rank {rank(x)}, only 4 is supported"
    found = [*_transposed_numbers(node, shape(x), shape(weight)), *_transposed_channels(node, context)]
    return "; ".join(found) or None


def _transposed_numbers(node: fx.Node, x: tuple[int, ...], weight: tuple[int, ...]) -> list[str]:
    """What is wrong with kernel, stride, padding and dilation. Source: v1.3.1."""
    named = ((3, "stride"), (4, "padding"), (5, "dilation"), (7, "output_padding"))
    stride, padding, dilation, extra = (pair(argument(node, *one)) for one in named)
    height, width = weight[2:]
    whole_or_half = stride[1] == width or (2 * stride[1] == width and shape(node)[2] == 1)
    conditions = {
        f"kernel {height}x{width}": height == 1 and width % 2 == 0,
        f"stride {stride}": stride[0] == 1 and stride[1] % 2 == 0 and whole_or_half,
        f"padding {padding}": padding[0] == 0 and padding[1] < width and (padding[1] == 0 or x[2] == 1),
        f"dilation {dilation}": dilation == (1, 1),
        f"output padding {extra}": extra == (0, 0),
    }
    return [text for text, holds in conditions.items() if not holds]


def _transposed_channels(node: fx.Node, context: Context) -> list[str]:
    count = int(argument(node, 8, "groups"))
    channels = (shape(operand(node))[1], shape(node)[1])
    found = [] if count == 1 else [f"{count} groups"]
    return found + [f"{c} channels" for c in dict.fromkeys(channels) if c % context.macs]
