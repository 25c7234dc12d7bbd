"""Rules of operators that only move data: permutation, reshape, copy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from npu_assay.partitioners.exir.layout import arranged, to_channels_first, to_channels_last
from npu_assay.partitioners.exir.nodes import argument, non_negative, operand, rank, shape, size_text, value
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.neutron.formats import is_trivial_transposition, supported_transposition
from npu_assay.partitioners.neutron.support.rule import Context


def combined(first: Sequence[int], then: Sequence[int]) -> tuple[int, ...]:
    """The one permutation that does `first` and `then` after it."""
    return arranged(first, then)


@rule("transposition")
def permutation(node: fx.Node, context: Context) -> str | None:
    """this transposition is not one that the NPU can do"""
    x = operand(node)
    if x is None or context.is_constant(x):
        return None
    dims = tuple(non_negative(dim, rank(x)) for dim in argument(node, 1, "dims"))
    formats = context.is_channels_first(x), context.is_channels_first(node)
    if _permutation_supported(shape(x), dims, formats, context.macs):
        return None
    names = ["channels-first" if first else "formatless" for first in formats]
    return f"{size_text(shape(x))} by {dims}, {names[0]} to {names[1]}"


def _permutation_supported(
    sizes: tuple[int, ...], dims: tuple[int, ...], channels_first: tuple[bool, bool], macs: int
) -> bool:
    """Whether some chain of transpositions on the device does it. Source: v1.3.1.

    A channels-first input has to be brought back to the graph's order before (`to_channels_first`) and a
    channels-first output to the device's order afterwards (`to_channels_last`); neighbors may merge.
    """
    before, after = to_channels_first(len(sizes)), to_channels_last(len(sizes))
    device, result = arranged(sizes, after), arranged(sizes, dims)
    if is_trivial_transposition(sizes, dims) and is_trivial_transposition(device, dims):
        return True

    def can(shape_: tuple[int, ...], *steps: tuple[int, ...]) -> bool:
        merged = tuple(range(len(sizes)))
        for step in steps:
            merged = combined(merged, step)
        return supported_transposition(shape_, merged, macs)

    main = can(sizes, dims)
    enter, enter_main = can(device, before), can(device, before, dims)
    leave, main_leave = can(result, after), can(sizes, dims, after)
    return {
        (False, False): main,
        (True, False): (enter and main) or enter_main,
        (False, True): (leave and main) or main_leave,
        # The last chain is judged on the graph's shape, as v1.3.1 does.
        (True, True): (enter and main and leave)
        or (enter and main_leave)
        or (enter_main and leave)
        or can(sizes, before, dims, after),
    }[channels_first]


@rule("memory_format")
def memory_format(node: fx.Node, context: Context) -> str | None:
    """the copy must keep or set the contiguous dim order"""
    layout, order = node.kwargs.get("memory_format"), node.kwargs.get("dim_order")
    if order is None and layout in (torch.preserve_format, torch.contiguous_format):
        return None
    if layout is None and order is not None and tuple(order) == tuple(range(rank(node))):  # type: ignore[arg-type]
        return None
    return f"memory_format = {layout}, dim_order = {order}"


@rule("memory_format_given")
def memory_format_given(node: fx.Node, context: Context) -> str | None:
    """the copy must be given a memory format, or a dim order"""
    return None if {"memory_format", "dim_order"} & node.kwargs.keys() else "neither is given"


def is_plain_layout(node: fx.Node) -> bool:
    """Whether the value lies contiguous or channels-last in memory."""
    tensor = value(node)
    if tensor is None or tensor.is_contiguous():
        return True
    return tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
