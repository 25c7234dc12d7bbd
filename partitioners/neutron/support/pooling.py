"""Rules of pooling and of the mean over height and width."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.common.rules import pool_padding, pool_stride
from npu_assay.partitioners.exir.nodes import argument, non_negative, operand, pair, rank, shape
from npu_assay.partitioners.exir.ops import GETITEM, target_name
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.neutron.support.rule import Context


@rule("output_divides_input")
def output_divides_input(node: fx.Node, context: Context) -> str | None:
    """the output height and width must divide the input's"""
    before, after = shape(operand(node))[-2:], shape(node)[-2:]
    if all(big % small == 0 for big, small in zip(before, after, strict=True)):
        return None
    return f"{before[0]}x{before[1]} to {after[0]}x{after[1]}"


@rule("count_include_pad")
def count_include_pad(node: fx.Node, context: Context) -> str | None:
    """count_include_pad = False needs zero padding"""
    padding = pool_padding(node)
    if argument(node, 5, "count_include_pad", True) or padding == (0, 0):
        return None
    return f"count_include_pad = False with padding {padding}"


@rule("divisor_override")
def divisor_override(node: fx.Node, context: Context) -> str | None:
    """divisor_override must be left out"""
    found = argument(node, 6, "divisor_override")
    return None if found is None else f"divisor_override = {found}"


@rule("dilation")
def dilation_is_one(node: fx.Node, context: Context) -> str | None:
    """dilation must be 1"""
    found = pair(argument(node, 4, "dilation"))
    return None if found in (None, (1, 1)) else f"dilation {found}"


@rule("stride_h")
def stride_h(node: fx.Node, context: Context) -> str | None:
    """the vertical stride must be one of [1, 2]"""
    # Without a stride the window is the stride.
    found = pair(argument(node, 2, "stride")) or pair(argument(node, 1, "kernel_size"))
    return None if found is None or found[0] in (1, 2) else f"vertical stride {found[0]}"


LARGEST_STRIDE = 4095


@rule("stride_below", LARGEST_STRIDE + 1)
def stride_limit(node: fx.Node, context: Context) -> str | None:
    """both strides must be below {value}"""
    found = pool_stride(node)
    return None if max(found) <= LARGEST_STRIDE else f"strides {found}"


@rule("indices_unused")
def indices_unused(node: fx.Node, context: Context) -> str | None:
    """the index output must have no consumer"""
    indices = (user for user in node.users if target_name(user.target) == GETITEM and user.args[1] != 0)
    taker = next((taker for user in indices for taker in user.users), None)
    return None if taker is None else f"{taker.name} uses the indices"


@rule("dims")
def mean_dims(node: fx.Node, context: Context) -> str | None:
    """the reduced dimensions must be [-1, -2]"""
    found = argument(node, 1, "dim")
    dims = [found] if isinstance(found, int) else list(found or [])
    dimensions = rank(operand(node))
    if dimensions != 4 or sorted(non_negative(dim, dimensions) for dim in dims) == [2, 3]:
        return None
    return f"dimensions {found}"
