"""Rules of operators that select by index or by condition; Ethos-U85 alone has them."""

from __future__ import annotations

import math

import torch
from torch import fx

from npu_assay.partitioners.ethosu.support.common import dtype_of, is_dequantize
from npu_assay.partitioners.ethosu.support.rule import Context, Rule
from npu_assay.partitioners.exir.nodes import argument, operand, rank, shape, size_text, type_text
from npu_assay.partitioners.exir.rules import rule

MAX_ELEMENTS = 2**31 - 1
SELECTED = (torch.bool, torch.int8, torch.int16, torch.int32)


def _is_mask(index: object) -> bool:
    return isinstance(index, fx.Node) and dtype_of(index) == torch.bool


def index_dtype(position: int, wanted: str = "int32") -> Rule:
    """The indices, an argument by position, must be 32 bits wide."""

    @rule("index_dtype", wanted)
    def check(node: fx.Node, context: Context) -> str | None:
        """the indices must be {value}"""
        index = operand(node, position)
        found = None if index is None else dtype_of(index)
        return None if found == torch.int32 else type_text(found)

    return check


@rule("index_shape")
def gathered_shape(node: fx.Node, context: Context) -> str | None:
    """input and indices must have rank 2 or 3, the same rank, batch and last dimension"""
    # GATHER takes rows out of each batch.
    sizes, chosen = shape(operand(node)), shape(node.args[2])
    if len(sizes) in (2, 3) and len(chosen) == len(sizes) and (sizes[0], *sizes[2:]) == (chosen[0], *chosen[2:]):
        return None
    return f"{size_text(sizes)}, indices {size_text(chosen)}"


@rule("dims")
def gathered_dim(node: fx.Node, context: Context) -> str | None:
    """the dimensions must be 1"""
    # The dimension behind the batch.
    count = rank(operand(node))
    found = argument(node, 1, "dim")
    return None if count and found % count == 1 else f"dimension {found}"


@rule("min_rank")
def no_scalar(node: fx.Node, context: Context) -> str | None:
    """the input must have rank 1 or more"""
    # There must be something to select from.
    return "a scalar" if rank(operand(node)) == 0 else None


@rule("rank")
def list_of_indices(node: fx.Node, context: Context) -> str | None:
    """the input must have rank 1, of the indices"""
    # Indices of one dimension.
    found = rank(node.args[2])
    return None if found == 1 else f"indices of rank {found}"


@rule("explicit_indices")
def explicit_indices(node: fx.Node, context: Context) -> str | None:
    """every dimension up to the last index must have an index"""
    # Flat indices are computed from all of them.
    found = argument(node, 1, "indices")
    return f"{list(found)}" if any(index is None for index in found) else None


@rule("max_elements", MAX_ELEMENTS)
def few_elements(node: fx.Node, context: Context) -> str | None:
    """there must be at most {value} elements"""
    # Flat indices have 32 bits.
    found = math.prod(shape(operand(node)))
    return None if found <= MAX_ELEMENTS else f"{found} elements"


@rule("mask_alone")
def mask_alone(node: fx.Node, context: Context) -> str | None:
    """a boolean mask must be the only index, with one value"""
    # A mask is a condition, not an index.
    given = [index for index in argument(node, 1, "indices") if index is not None]
    if not any(map(_is_mask, given)):
        return None
    values = math.prod(shape(node.args[2]))
    return None if len(given) == 1 and values == 1 else f"{len(given)} indices, {values} values"


@rule("value_dtype")
def written_dtype(node: fx.Node, context: Context) -> str | None:
    """the values must be quantized where the input is, or have its integer type"""
    # SCATTER and SELECT write numbers of one type; torch converts values to the input's.
    x, values = operand(node), operand(node, 2)
    found, wanted = (None if source is None else dtype_of(source) for source in (values, x))
    return None if found == wanted else f"{type_text(found)} into {type_text(wanted)}"


@rule("distinct_inputs")
def distinct_inputs(node: fx.Node, context: Context) -> str | None:
    """every tensor operand must be a different node"""
    # 1.5.1 takes no node twice.
    found = len(node.all_input_nodes)
    return None if found == 3 else f"{found} different"


@rule("condition_dtype")
def condition_dtype(node: fx.Node, context: Context) -> str | None:
    """the condition must be boolean"""
    # Of what decides between two values.
    found = dtype_of(node.all_input_nodes[0])
    return None if found == torch.bool else type_text(found)


@rule("code_dtype")
def chosen_dtype(node: fx.Node, context: Context) -> str | None:
    """the values must be booleans, integers of up to 32 bits or dequantized"""
    # Of the two values.
    for source in node.all_input_nodes[1:]:
        found = dtype_of(source)
        if found not in SELECTED and not (found == torch.float32 and is_dequantize(source)):
            return f"{source.name} is {type_text(found)}"
    return None
