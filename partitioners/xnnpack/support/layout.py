"""Rules of operators that only move or copy elements."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.common.rules import qparams_change
from npu_assay.partitioners.exir.nodes import argument, is_open, operand, rank, shape, size_text, value
from npu_assay.partitioners.exir.qdq import qparams
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.xnnpack.site import Site
from npu_assay.partitioners.xnnpack.support.common import tensors


@rule("same_qparams")
def same_qparams(node: fx.Node, site: Site) -> str | None:
    """inputs and output must have the same scale and zero point"""
    if site.static is None:
        return None
    after = qparams(site.static.output)
    for source in site.static.inputs:
        changed = qparams_change(qparams(source), after)
        if changed is not None:
            return changed
    return None


@rule("min_inputs")
def min_inputs(node: fx.Node, site: Site) -> str | None:
    """there must be at least 2 different inputs"""
    found = len(node.all_input_nodes)
    return None if found >= 2 else f"{found} different input"


@rule("non_negative_padding")
def non_negative_padding(node: fx.Node, site: Site) -> str | None:
    """padding must not be negative"""
    found = [p for p in argument(node, 1, "pad") if isinstance(p, int) and p < 0]
    return f"padding {found[0]}" if found else None


@rule("memory_format")
def memory_format(node: fx.Node, site: Site) -> str | None:
    """the dimensions must keep their order in memory"""
    before, after = value(operand(node)), value(node)
    if before is None or after is None:
        return None
    # What is asked for decides: sizes of 1 have no order that could be read off the result.
    asked = node.kwargs.get("dim_order")
    order = tuple(asked) if isinstance(asked, (list, tuple)) else after.dim_order()
    return None if before.dim_order() == order else f"order {before.dim_order()} to {order}"


@rule("static_shape")
def static_shape(node: fx.Node, site: Site) -> str | None:
    """every dimension must be known ahead of time"""
    for member, tensor in tensors(node):
        if any(map(is_open, tensor.shape)):
            return f"{member.name} has shape {size_text(tuple(tensor.shape))}"
    return None


@rule("last_dim")
def new_last_dim(node: fx.Node, site: Site) -> str | None:
    """the dimension must be the last one"""
    found, dims = argument(node, 1, "dim"), rank(operand(node))
    return None if found in (-1, dims) else f"dimension {found} of {dims + 1}"


@rule("static_shape")
def known_target(node: fx.Node, site: Site) -> str | None:
    """every dimension must be known ahead of time"""
    sizes = argument(node, 1, "size")
    return next((f"size {size} is computed" for size in sizes if is_open(size)), None)


@rule("open_sizes")
def open_sizes(node: fx.Node, site: Site) -> str | None:
    """at most 1 size may be open"""
    found = shape(operand(node))
    return None if sum(map(is_open, found)) <= 1 else f"input of shape {size_text(found)}"


@rule("static_output_size")
def static_output_size(node: fx.Node, site: Site) -> str | None:
    """the output size must be known ahead of time"""
    return f"output {size_text(shape(node))}" if any(map(is_open, shape(node))) else None


@rule("exact_scale")
def exact_scale(node: fx.Node, site: Site) -> str | None:
    """without align_corners, the output size must be exactly the input size times the scale factors,
    if those are given"""
    factors = argument(node, 3, "scale_factors")
    if not factors or argument(node, 2, "align_corners"):
        return None
    before, after = shape(operand(node))[2:], shape(node)[2:]
    for size, factor, found in zip(before, factors, after, strict=False):
        if not is_open(found) and size * factor != found:
            return f"{size} times {factor} is not {found}"
    return None
