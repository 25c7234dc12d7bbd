"""What people call an operator: `cat` and `aten.cat` for `aten.cat.default`, `softmax` for `aten._softmax.default`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from npu_assay.conformance.common.memory import keep

CLOSEST = 5  # names that a message lists
ALSO: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "convolution": ("conv", "conv1d", "conv2d", "conv3d", "conv_transpose2d"),
        "max_pool2d_with_indices": ("max_pool2d",),
        "constant_pad_nd": ("pad",),
        "clone_dim_order": ("clone",),
        "linalg_vector_norm": ("vector_norm",),
        "scaled_dot_product_attention": ("sdpa",),
    }
)
"""Names that programs have for operators of the edge dialect."""


@keep(4096)
def names_of(operator: str) -> frozenset[str]:
    """Every name of an edge operator, in small letters: whole, without its overload, and as programs write it."""
    *space, name, _ = operator.lower().split(".")
    short = name.lstrip("_")
    found = {name, short, short.removesuffix("_copy"), *ALSO.get(short, ())}
    return frozenset({operator.lower(), *found, *(".".join([*space, each]) for each in found)})


def called(word: str, operators: Iterable[str]) -> tuple[str, ...]:
    """The operators of that name; the one that is spelled so alone, if there is one."""
    known = tuple(operators)
    exact = tuple(operator for operator in known if operator == word)
    return exact or tuple(operator for operator in known if word.lower() in names_of(operator))


def nearest_operators(name: str, known: Iterable[str]) -> str:
    """`; nearest: ...` with the few operators that are called most like `name`, or how many there are.

    Of several overloads the one of that name, else the first.
    """
    operators = sorted(known)
    spelled: dict[str, list[str]] = {}
    for operator in operators:
        for own in _own(operator):
            spelled.setdefault(own, []).append(operator)
    close = [own for word in _own(name) for own in difflib.get_close_matches(word, spelled, CLOSEST)]
    overload = name.rpartition(".")[2]
    found = (next((o for o in spelled[own] if o.endswith(f".{overload}")), spelled[own][0]) for own in close)
    listed = list(dict.fromkeys(found))[:CLOSEST]
    return f"; nearest: {', '.join(listed)}" if listed else f"; none of {len(operators)} is called like it"


def _own(operator: str) -> tuple[str, ...]:
    """The name without namespace and overload, as it is and as programs write it."""
    parts = operator.lower().split(".")
    name = parts[-2] if len(parts) > 2 else parts[-1]
    return tuple(dict.fromkeys((name, name.strip("_").removesuffix("_copy"))))
