"""Arithmetic on numbers: sizes, and what a program computes from them."""

from __future__ import annotations

import operator
from typing import Any

import torch

PRIMITIVES: dict[Any, str] = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.floordiv: "floordiv",
    operator.truediv: "truediv",
    operator.mod: "mod",
    operator.neg: "neg",
    operator.eq: "eq",
    operator.ge: "ge",
    operator.gt: "gt",
    operator.le: "le",
    operator.lt: "lt",
    torch.sym_float: "sym_float",
    torch.sym_int: "sym_int",
    torch.sym_max: "sym_max",
    torch.sym_min: "sym_min",
    torch.sym_not: "sym_not",
    torch.sym_ite: "sym_ite",
    round: "round",
}
"""Arithmetic on numbers, as the runtime's own operators `executorch_prim::<name>.Scalar`."""
PRIMITIVES_BY_NAME = {"ceil": "ceil", "trunc": "trunc"}
"""The operators for functions of torch's symbolic shapes, which are other objects in every release."""


def primitive(target: Any) -> str | None:
    """The name of the runtime's operator for arithmetic on numbers, or None."""
    try:
        found = PRIMITIVES.get(target)
    except TypeError:
        return None
    return found or PRIMITIVES_BY_NAME.get(str(getattr(target, "__name__", "")).lower().removesuffix("toint"))
