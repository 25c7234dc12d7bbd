"""Methods that return constants: what they may return, and under which names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from npu_assay.partitioners.exir.errors import ExirError
from npu_assay.partitioners.exir.execution.data import check_plain
from npu_assay.partitioners.exir.execution.table import value_code

CONSTANT_TYPES = (bool, int, float, str, torch.dtype, torch.layout, torch.Tensor)
"""What a constant method may return, also nested in lists, tuples and dicts."""

INTEGERS = (-(2**63), 2**63 - 1)
"""The smallest and the largest integer that a program file can hold."""


def check_constant_methods(methods: object, programs: Iterable[str]) -> dict[str, Any]:
    """The constant methods as a new dict. Refuse what no file can hold, and names that a program already has."""
    if methods is None:
        return {}
    if not isinstance(methods, Mapping):
        raise ExirError(
            "constant_methods of the wrong type",
            type(methods).__name__,
            "a dict from method name to the constant it returns",
            "constant_methods",
        )
    for name in methods:
        check_method_name(name, "constant_methods")
    clash = sorted(set(methods) & set(programs))
    if clash:
        raise ExirError("two methods of one name", clash[0], "a name that no program has", "constant_methods")
    for name, value in methods.items():
        for leaf in tree_leaves(value):
            check_constant(leaf, f"constant_methods[{name!r}]")
    return dict(methods)


def check_known(name: object, methods: Collection[str], where: str) -> None:
    """Refuse a name that no method has."""
    if name not in methods:
        raise ExirError("unknown method", repr(name), f"one of {sorted(methods)}", where)


def check_method_name(name: object, where: str) -> None:
    """Refuse anything but a str that UTF-8 can encode."""
    if not isinstance(name, str):
        raise ExirError("method name of the wrong type", repr(name), "a str", where)
    check_text(name, "method name", where)


def check_text(text: str, what: str, where: str) -> None:
    """Refuse lone surrogates, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ExirError(
            f"{what} that is not valid Unicode", repr(text), "a str without lone surrogates", where
        ) from error


def check_constant(leaf: object, where: str) -> None:
    """Refuse a constant that no program file can hold."""
    if not isinstance(leaf, CONSTANT_TYPES):
        raise ExirError(
            "constant of the wrong type",
            type(leaf).__name__,
            f"{', '.join(t.__name__ for t in CONSTANT_TYPES)}, or lists, tuples and dicts of these",
            where,
        )
    if isinstance(leaf, torch.Tensor):
        check_plain(leaf, where)
    elif isinstance(leaf, str):
        check_text(leaf, "constant", where)
    elif isinstance(leaf, int) and not INTEGERS[0] <= leaf <= INTEGERS[1]:
        raise ExirError("integer that is too wide", str(leaf), "one of 64 bits", where)
    elif isinstance(leaf, (torch.dtype, torch.layout)) and value_code(leaf) is None:
        raise ExirError(
            "constant without a number in program files", str(leaf), "torch.strided, or a dtype of plain numbers", where
        )
