"""The nodes that are not decomposed on the way to the edge dialect, because Ethos-U has their operators."""

from __future__ import annotations

import torch
from torch import fx
from torch._ops import OpOverload

from npu_assay.partitioners.ethosu.operators import OPERATORS
from npu_assay.partitioners.ethosu.operators.row import Kept, Row
from npu_assay.partitioners.ethosu.support.common import dtype_of, is_integer, is_named
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE, find_overload, target_name

CAST = "aten.to.dtype"


def preserved_operators(is_u55: bool) -> list[OpOverload]:
    """What to name to the decomposition."""
    asked = (name for name, row in OPERATORS.items() if row.kept is not None and (row.kept_on_u55 or not is_u55))
    return [operator for operator in map(find_overload, asked) if operator is not None]


def is_preserved(node: fx.Node, custom: frozenset[str] = frozenset()) -> bool:
    """Whether not to decompose a node: it is quantized, computes integers, or its operator is one of `custom`."""
    if node.op != "call_function":
        return False
    name = target_name(node.target)
    kept = OPERATORS.get(name, Row()).kept
    if name in custom:
        return True
    if kept is None or dtype_of(node) == torch.float64:
        return False
    if Kept.ALWAYS in kept or (Kept.QUANTIZED in kept and _is_quantised(node)):
        return True
    return Kept.INTEGER in kept and _is_integer(node)


def _is_quantised(node: fx.Node) -> bool:
    """Between dequantize and quantize nodes; after a product there may be an activation."""
    if not all(is_named(source, *DEQUANTIZE) for source in node.all_input_nodes):
        return False
    row, *users = (OPERATORS.get(target_name(one.target), Row()) for one in (node, *node.users))
    activated = row.is_weighted and len(users) == 1 and users[0].is_activation
    return activated or all(is_named(user, *QUANTIZE) for user in node.users)


def _is_integer(node: fx.Node) -> bool:
    """Integers by itself, or by the casts of all of its users."""
    if is_integer(dtype_of(node)):
        return True
    return all(is_named(user, CAST) and is_integer(dtype_of(user)) for user in node.users)
