"""Rules of pools and reductions."""

from __future__ import annotations

import operator

from torch import fx

from npu_assay.partitioners.common.rules import pool_kernel, pool_padding, pool_stride
from npu_assay.partitioners.exir.nodes import argument, is_open, non_negative, operand, rank, shape, size_text
from npu_assay.partitioners.exir.ops import GETITEM, target_name
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.xnnpack.site import Site


@rule("count_include_pad")
def count_include_pad(node: fx.Node, site: Site) -> str | None:
    """count_include_pad must be False where there is padding"""
    counted = argument(node, 5, "count_include_pad", True)
    return f"padding {pool_padding(node)} is counted" if counted and any(pool_padding(node)) else None


@rule("divisor_override")
def divisor_override(node: fx.Node, site: Site) -> str | None:
    """divisor_override must be left out or, without padding, the size of the window"""
    found = argument(node, 6, "divisor_override")
    height, width = pool_kernel(node)
    if found is None or (found == height * width and not any(pool_padding(node))):
        return None
    return f"divisor {found}, window {height}x{width}, padding {pool_padding(node)}"


@rule("stride_within_kernel")
def stride_within_kernel(node: fx.Node, site: Site) -> str | None:
    """the stride must not be larger than the kernel, in height and in width"""
    found, sizes = pool_stride(node), pool_kernel(node)
    return f"stride {size_text(found)}, kernel {size_text(sizes)}" if any(map(operator.gt, found, sizes)) else None


@rule("static_ceil_mode")
def static_ceil_mode(node: fx.Node, site: Site) -> str | None:
    """ceil_mode needs an output whose size is known ahead of time"""
    is_ceil = argument(node, 5, "ceil_mode", False)
    return f"output {size_text(shape(node))}" if is_ceil and any(map(is_open, shape(node))) else None


@rule("dims")
def mean_dims(node: fx.Node, site: Site) -> str | None:
    """the reduced dimensions must be [-2, -1], in either order"""
    found = argument(node, 1, "dim")
    dims = [found] if isinstance(found, int) else list(found or range(rank(operand(node))))
    dimensions = rank(operand(node))
    counted = sorted(non_negative(dim, dimensions) for dim in dims)
    # The last two of any rank: that there must be four dimensions is a rule of its own.
    return None if counted == [dimensions - 2, dimensions - 1] else f"dimensions {dims}"


@rule("dims")
def spatial_dim(node: fx.Node, site: Site) -> str | None:
    """the reduced dimension must be 2 or 3"""
    found = non_negative(argument(node, 1, "dim"), rank(operand(node)))
    return None if found in (2, 3) else f"dimension {found}"


@rule("output_dtype")
def output_dtype(node: fx.Node, site: Site) -> str | None:
    """dtype must be left out"""
    found = node.kwargs.get("dtype")
    return None if found is None else f"dtype = {found}"


@rule("first_result")
def first_result(node: fx.Node, site: Site) -> str | None:
    """only the first result may be used"""
    other = (user for user in node.users if target_name(user.target) != GETITEM or user.args[1] != 0)
    return next((f"{user.name} uses another" for user in other), None)


@rule("static_shape")
def known_channels(node: fx.Node, site: Site) -> str | None:
    """every dimension must be known ahead of time"""
    sizes = shape(operand(node))
    return f"channels {sizes[1]}" if is_open(sizes[1]) else None


@rule("static_weights")
def constant_statistics(node: fx.Node, site: Site) -> str | None:
    """weights and bias must be constants"""
    found = (operand(node, position) for position in (1, 2, 3, 4))
    computed = [source for source in found if source is not None and not site.program.is_constant(source)]
    return f"{computed[0].name} is computed" if computed else None
