"""Rules of operators that select by index or by condition; Ethos-U85 alone has them."""

from __future__ import annotations

import math

import torch
from torch import fx

from npu_assay.partitioners.ethosu.support.common import dtype_of, is_dequantize, type_text
from npu_assay.partitioners.ethosu.support.rule import Context, Rule, limit
from npu_assay.partitioners.exir.nodes import argument, operand, rank, shape, size_text

MAX_ELEMENTS = 2**31 - 1
SELECTED = (torch.bool, torch.int8, torch.int16, torch.int32)


def _is_mask(index: object) -> bool:
    return isinstance(index, fx.Node) and dtype_of(index) == torch.bool


def index_dtype(position: int, wanted: str = "int32") -> Rule:
    """The indices, an argument by position, must be 32 bits wide."""

    @limit("index_dtype", wanted)
    def check(node: fx.Node, context: Context) -> str | None:
        index = operand(node, position)
        found = None if index is None else dtype_of(index)
        return None if found == torch.int32 else type_text(found)

    return check


@limit("index_shape")
def gathered_shape(node: fx.Node, context: Context) -> str | None:
    """GATHER takes rows out of each batch."""
    sizes, chosen = shape(operand(node)), shape(node.args[2])
    if len(sizes) in (2, 3) and len(chosen) == len(sizes) and (sizes[0], *sizes[2:]) == (chosen[0], *chosen[2:]):
        return None
    return f"{size_text(sizes)}, indices {size_text(chosen)}"


@limit("dims", 1)
def gathered_dim(node: fx.Node, context: Context) -> str | None:
    """The dimension behind the batch."""
    count = rank(operand(node))
    found = argument(node, 1, "dim")
    return None if count and found % count == 1 else f"dimension {found}"


@limit("min_rank", 1)
def no_scalar(node: fx.Node, context: Context) -> str | None:
    """There must be something to select from."""
    return "a scalar" if rank(operand(node)) == 0 else None


@limit("rank", "1, of the indices")
def list_of_indices(node: fx.Node, context: Context) -> str | None:
    """Indices of one dimension."""
    found = rank(node.args[2])
    return None if found == 1 else f"indices of rank {found}"


@limit("explicit_indices")
def explicit_indices(node: fx.Node, context: Context) -> str | None:
    """Flat indices are computed from all of them."""
    found = argument(node, 1, "indices")
    return f"{list(found)}" if any(index is None for index in found) else None


@limit("max_elements", MAX_ELEMENTS)
def few_elements(node: fx.Node, context: Context) -> str | None:
    """Flat indices have 32 bits."""
    found = math.prod(shape(operand(node)))
    return None if found <= MAX_ELEMENTS else f"{found} elements"


@limit("mask_alone")
def mask_alone(node: fx.Node, context: Context) -> str | None:
    """A mask is a condition, not an index."""
    given = [index for index in argument(node, 1, "indices") if index is not None]
    if not any(map(_is_mask, given)):
        return None
    values = math.prod(shape(node.args[2]))
    return None if len(given) == 1 and values == 1 else f"{len(given)} indices, {values} values"


@limit("accumulate", False)
def no_accumulate(node: fx.Node, context: Context) -> str | None:
    """SCATTER writes every place once."""
    return "accumulate = True" if argument(node, 3, "accumulate", False) else None


@limit("distinct_inputs")
def distinct_inputs(node: fx.Node, context: Context) -> str | None:
    """1.5.1 takes no node twice."""
    found = len(node.all_input_nodes)
    return None if found == 3 else f"{found} different"


@limit("condition_dtype")
def condition_dtype(node: fx.Node, context: Context) -> str | None:
    """Of what decides between two values."""
    found = dtype_of(node.all_input_nodes[0])
    return None if found == torch.bool else type_text(found)


@limit("code_dtype", "booleans, integers of up to 32 bits or dequantized")
def chosen_dtype(node: fx.Node, context: Context) -> str | None:
    """Of the two values."""
    for source in node.all_input_nodes[1:]:
        found = dtype_of(source)
        if found not in SELECTED and not (found == torch.float32 and is_dequantize(source)):
            return f"{source.name} is {type_text(found)}"
    return None


RULES: dict[str, tuple[Rule, ...]] = {
    "aten.embedding.default": (index_dtype(1),),
    "aten.gather.default": (index_dtype(2), gathered_dim, gathered_shape),
    "aten.index_select.default": (no_scalar, index_dtype(2), list_of_indices),
    "aten.index.Tensor": (explicit_indices, few_elements),
    "aten.index_put.default": (explicit_indices, mask_alone, no_accumulate),
    "aten.masked_fill.Scalar": (),
    "aten.where.self": (distinct_inputs, condition_dtype, chosen_dtype),
}
