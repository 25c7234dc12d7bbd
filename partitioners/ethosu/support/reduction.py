"""Rules of reductions, and of argmax."""

from __future__ import annotations

import math

import torch
from torch import fx

from npu_assay.partitioners.ethosu.support.common import MAX_SIZE, dtype_of, is_argmax_for_int32
from npu_assay.partitioners.ethosu.support.linear import MAX_KERNEL_AREA, MAX_KERNEL_HEIGHT, on_u55
from npu_assay.partitioners.ethosu.support.rule import Context
from npu_assay.partitioners.exir.nodes import argument, non_negative, operand, rank, shape, size_text, type_text
from npu_assay.partitioners.exir.rules import rule

MAX_ARGMAX_CHANNELS = 127


def reduced_dims(node: fx.Node) -> list[int]:
    """The dimensions that a reduction goes over, counted from the front; all when none are named."""
    found = argument(node, 1, "dim")
    dims = rank(operand(node))
    several = [found] if isinstance(found, int) else list(found) if found else list(range(dims))
    return [non_negative(dim, dims) for dim in several]


def reduced_count(node: fx.Node) -> int:
    """How many elements go into one."""
    sizes = shape(operand(node))
    return math.prod(sizes[dim] for dim in reduced_dims(node) if dim < len(sizes))


@on_u55
@rule("reduced_size", MAX_SIZE)
def reduced_size(node: fx.Node, context: Context) -> str | None:
    """reduced dimensions, and the product of those on either side, must be at most {value}"""
    # Whatever axis the device finds last in memory.
    sizes = shape(operand(node))
    for dim in reduced_dims(node):
        around = (sizes[dim], math.prod(sizes[:dim]), math.prod(sizes[dim + 1 :]))
        if max(around) > MAX_SIZE:
            return f"dimension {dim} of {size_text(sizes)}"
    return None


@rule("dtype")
def output_dtype(node: fx.Node, context: Context) -> str | None:
    """real numbers must be float32 or float16, nothing complex, and the result of the input's type"""
    # A sum in another type is a conversion besides.
    found = node.kwargs.get("dtype")
    return None if found is None or found == dtype_of(node.all_input_nodes[0]) else f"dtype = {found}"


@on_u55
@rule("summed_size", f"{MAX_KERNEL_HEIGHT}, of the last dimension {MAX_KERNEL_AREA}")
def summed_size(node: fx.Node, context: Context) -> str | None:
    """the number of elements to sum must be at most {value}"""
    # A running sum is a convolution with as many weights as numbers; the last dimension is the width.
    sizes = shape(operand(node))
    dim = non_negative(argument(node, 1, "dim", 0), len(sizes))
    wide = math.prod(sizes[dim + 1 :]) == 1
    found = sizes[dim] if sizes else 1
    return None if found <= (MAX_KERNEL_AREA if wide else MAX_KERNEL_HEIGHT) else f"{found} numbers"


# ------------------------------------------------------------------------------------ argmax


@rule("int32_indices")
def int32_indices(node: fx.Node, context: Context) -> str | None:
    """every user must turn the indices into int32"""
    # ARGMAX gives int32.
    return None if is_argmax_for_int32(node) else "int64 indices"


@rule("one_dim")
def one_dim(node: fx.Node, context: Context) -> str | None:
    """the dimension must be given"""
    # ARGMAX goes along one axis.
    found = argument(node, 1, "dim")
    return None if isinstance(found, int) else f"dim = {found}"


@rule("code_dtype")
def raw_codes(node: fx.Node, context: Context) -> str | None:
    """the values must be int8 or int16"""
    # Not dequantized: indices have no scale, so there would be nothing to quantize behind it.
    found = dtype_of(node.all_input_nodes[0])
    return None if found in (torch.int8, torch.int16) else type_text(found)


@on_u55
@rule("code_dtype")
def narrow_codes(node: fx.Node, context: Context) -> str | None:
    """the values must be int8"""
    # Vela 5.1.0 ends with an error for argmax of int16, whatever its report says.
    found = dtype_of(node.all_input_nodes[0])
    return "int16" if found == torch.int16 else None


def choices(node: fx.Node) -> tuple[int, tuple[int, ...]]:
    """Between how many numbers argmax decides, and the sizes of the other dimensions."""
    sizes, found = shape(operand(node)), argument(node, 1, "dim")
    if not isinstance(found, int) or not sizes:
        return 1, ()
    dim = non_negative(found, len(sizes))
    return sizes[dim], sizes[:dim] + sizes[dim + 1 :]


@on_u55
@rule("max_channels", MAX_ARGMAX_CHANNELS)
def few_choices(node: fx.Node, context: Context) -> str | None:
    """the channel count must be at most {value}"""
    found, _ = choices(node)
    return None if found <= MAX_ARGMAX_CHANNELS else f"{found}"


@on_u55
@rule("max_input_rank")
def argmax_rank(node: fx.Node, context: Context) -> str | None:
    """the input must have rank 4 or less"""
    found = rank(operand(node))
    return None if found <= 4 else f"rank {found}"


@on_u55
@rule("batch")
def argmax_batch(node: fx.Node, context: Context) -> str | None:
    """the batch size must be 1"""
    _, others = choices(node)
    return f"batch size {others[0]}" if len(others) == 3 and others[0] != 1 else None


@on_u55
@rule("max_elements", MAX_SIZE)
def argmax_positions(node: fx.Node, context: Context) -> str | None:
    """there must be at most {value} elements"""
    found = math.prod(choices(node)[1])
    return None if found <= MAX_SIZE else f"{found} positions"
