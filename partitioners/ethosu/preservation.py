"""Operators that are kept whole on the way to the edge dialect, because Ethos-U has them as they are."""

from __future__ import annotations

import torch
from torch import fx
from torch._ops import OpOverload

from npu_assay.partitioners.ethosu.support.common import dtype_of, is_integer, is_named
from npu_assay.partitioners.exir.ops import DEQUANTIZE, QUANTIZE, target_name

aten = torch.ops.aten
OPERATORS: tuple[OpOverload, ...] = (
    aten.celu.default,
    aten.eye.default,
    aten.hardsigmoid.default,
    aten.hardswish.default,
    aten.linear.default,
    aten.linspace.default,
    aten.logit.default,
    aten.pad.default,
    aten.selu.default,
    aten.silu.default,
)
RESIZING: tuple[OpOverload, ...] = (aten.upsample_bilinear2d.vec, aten.upsample_nearest2d.vec)
"""Kept on Ethos-U85 only, as 1.5.1 does; no default decomposition takes them apart."""
IF_QUANTISED = frozenset(
    f"aten.{name}.default" for name in ("eye", "hardsigmoid", "hardswish", "linear", "linspace", "silu", "pad")
)
IF_INTEGER = frozenset(f"aten.{name}.default" for name in ("eye", "linspace", "silu"))
LINEAR = "aten.linear.default"
ACTIVATIONS = ("aten.relu.default", "aten.hardtanh.default")
CAST = "aten.to.dtype"
LOGIT = "aten.logit.default"


def preserved_operators(is_u55: bool) -> list[OpOverload]:
    """What to name to the decomposition."""
    return [*OPERATORS, *(() if is_u55 else RESIZING)]


def is_preserved(node: fx.Node, custom: frozenset[str] = frozenset()) -> bool:
    """Whether to keep a node whole: it is quantised, computes integers, or its operator is one of `custom`."""
    if node.op != "call_function":
        return False
    name = target_name(node.target)
    if name in custom:
        return True
    if dtype_of(node) == torch.float64 and any(name == target_name(op) for op in (*OPERATORS, *RESIZING)):
        return False
    if name in IF_QUANTISED and _is_quantised(node):
        return True
    return _is_integer(node) if name in IF_INTEGER else name == LOGIT


def _is_quantised(node: fx.Node) -> bool:
    """Between dequantize and quantize nodes; behind a linear layer there may be an activation."""
    if not all(is_named(source, *DEQUANTIZE) for source in node.all_input_nodes):
        return False
    users = list(node.users)
    activated = is_named(node, LINEAR) and len(users) == 1 and is_named(users[0], *ACTIVATIONS)
    return activated or all(is_named(user, *QUANTIZE) for user in users)


def _is_integer(node: fx.Node) -> bool:
    """Integers by itself, or by the casts of all of its users."""
    if is_integer(dtype_of(node)):
        return True
    return all(is_named(user, CAST) and is_integer(dtype_of(user)) for user in node.users)
