"""Rules of reductions, and of argmax."""

from __future__ import annotations

import math

import torch
from torch import fx

from partitioners.ethosu.support.common import (
    MAX_SIZE,
    SURROUNDED,
    code_dtype,
    dtype_of,
    is_argmax_for_int32,
    type_text,
)
from partitioners.ethosu.support.products import MAX_KERNEL_HEIGHT, on_u55
from partitioners.ethosu.support.quantisation import same_qparams
from partitioners.ethosu.support.rule import Context, Rule, limit
from partitioners.exir.nodes import argument, non_negative, operand, rank, shape, size_text

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


@limit("min_rank", 1)
def no_scalar(node: fx.Node, context: Context) -> str | None:
    """TOSA reduces along an axis."""
    return "a scalar" if rank(operand(node)) == 0 else None


@on_u55
@limit("reduced_size", MAX_SIZE)
def reduced_size(node: fx.Node, context: Context) -> str | None:
    """Whatever axis the device finds last in memory."""
    sizes = shape(operand(node))
    for dim in reduced_dims(node):
        around = (sizes[dim], math.prod(sizes[:dim]), math.prod(sizes[dim + 1 :]))
        if any(not 1 <= size <= MAX_SIZE for size in around):
            return f"dimension {dim} of {size_text(sizes)}"
    return None


@limit("dtype")
def output_dtype(node: fx.Node, context: Context) -> str | None:
    """A sum in another type is a conversion besides."""
    found = node.kwargs.get("dtype")
    return None if found is None or found == dtype_of(node.all_input_nodes[0]) else f"dtype = {found}"


@on_u55
@limit("kernel_height", MAX_KERNEL_HEIGHT)
def summed_size(node: fx.Node, context: Context) -> str | None:
    """A running sum is a convolution with as many weights as numbers."""
    sizes = shape(operand(node))
    found = sizes[non_negative(argument(node, 1, "dim", 0), len(sizes))] if sizes else 1
    return None if found <= MAX_KERNEL_HEIGHT else f"{found} numbers"


# ------------------------------------------------------------------------------------ argmax


@limit("int32_indices")
def int32_indices(node: fx.Node, context: Context) -> str | None:
    """ARGMAX gives int32."""
    return None if is_argmax_for_int32(node) else "int64 indices"


@limit("one_dim")
def one_dim(node: fx.Node, context: Context) -> str | None:
    """ARGMAX goes along one axis."""
    found = argument(node, 1, "dim")
    return None if isinstance(found, int) else f"dim = {found}"


@limit("keepdim", False)
def no_keepdim(node: fx.Node, context: Context) -> str | None:
    """ARGMAX removes its axis."""
    return "keepdim = True" if argument(node, 2, "keepdim", False) else None


@limit("code_dtype", "int8 or int16")
def raw_codes(node: fx.Node, context: Context) -> str | None:
    """Not dequantised: indices have no scale, so there would be nothing to quantise behind it."""
    found = dtype_of(node.all_input_nodes[0])
    return None if found in (torch.int8, torch.int16) else type_text(found)


@on_u55
@limit("last_dim")
def last_dim(node: fx.Node, context: Context) -> str | None:
    """Of argmax: the channels as the device has them."""
    dims, found = rank(operand(node)), argument(node, 1, "dim")
    if not isinstance(found, int) or not dims:
        return None
    return None if non_negative(found, dims) == dims - 1 else f"dimension {found} of {dims}"


@on_u55
@limit("max_channels", MAX_ARGMAX_CHANNELS)
def few_choices(node: fx.Node, context: Context) -> str | None:
    """Of argmax."""
    sizes = shape(operand(node))
    return None if not sizes or 1 <= sizes[-1] <= MAX_ARGMAX_CHANNELS else f"{sizes[-1]}"


@on_u55
@limit("max_input_rank", 4)
def argmax_rank(node: fx.Node, context: Context) -> str | None:
    """Of argmax."""
    found = rank(operand(node))
    return None if found <= 4 else f"rank {found}"


@on_u55
@limit("batch", 1)
def argmax_batch(node: fx.Node, context: Context) -> str | None:
    """Of argmax with four dimensions."""
    sizes = shape(operand(node))
    return f"batch size {sizes[0]}" if len(sizes) == 4 and sizes[0] != 1 else None


@on_u55
@limit("max_elements", MAX_SIZE)
def argmax_positions(node: fx.Node, context: Context) -> str | None:
    """Of argmax: one for each."""
    found = math.prod(shape(operand(node))[:-1])
    return None if 1 <= found <= MAX_SIZE else f"{found} positions"


_EXTREMES = (no_scalar, same_qparams, code_dtype(torch.int8, torch.int16))
_ANY: tuple[Rule, ...] = ()
RULES: dict[str, tuple[Rule, ...]] = {
    "aten.amax.default": _EXTREMES,
    "aten.amin.default": _EXTREMES,
    "aten.any.default": _ANY,
    "aten.any.dim": (no_scalar,),
    "aten.any.dims": (no_scalar,),
    "aten.sum.dim_IntList": (no_scalar, reduced_size, output_dtype),
    "aten.mean.dim": (*SURROUNDED, reduced_size, output_dtype),
    "aten.cumsum.default": (summed_size, output_dtype),
    "aten.argmax.default": (
        int32_indices,
        one_dim,
        no_keepdim,
        raw_codes,
        last_dim,
        few_choices,
        argmax_rank,
        argmax_batch,
        argmax_positions,
        no_scalar,
    ),
}
