"""operators_not_to_delegate: how its entries are written, and which nodes they match."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache

import torch
from torch import fx
from torch._ops import OpOverload

from npu_assay.partitioners.exir.ops import node_name, target_name
from npu_assay.partitioners.neutron.rewriting import ORIGIN
from npu_assay.partitioners.neutron.support.rules import RULES_OF

OPTION = "operators_not_to_delegate"
IN_THE_TABLE = {
    "aten.dim_order_ops._clone_dim_order.default": "dim_order_ops._clone_dim_order.default",
    "aten.split.default": "aten::split",
}


def entry_text(name: str) -> str:
    """An entry as the compile spec holds it: part of a node name, so that "aten::add" becomes "aten_add".

    An operator's whole name, as in the document's table, becomes that of its nodes: "aten.add.Tensor" becomes
    "aten_add_tensor". Raises ValueError for an entry that matches no operator, is empty, or holds a comma.
    """
    text = name.strip()
    # An empty part would match every operator, and a comma separates the parts.
    if not text or "," in text:
        raise ValueError(f"{OPTION} holds {name!r}, expected one operator name, e.g. 'aten::add'")
    names = _node_names()
    # Two operators have other names in the document's table.
    text = IN_THE_TABLE.get(text, text).replace("::", "_")
    if "." in text and node_name(text) in names:
        return node_name(text)
    # A node's own name may end in a number: aten_add_tensor_1.
    if not _is_known(re.sub(r"_\d+$", "", text)):
        raise ValueError(f"{OPTION} holds {name!r}, which is in no operator's name: {_hint(text)}")
    return text


def _is_known(text: str) -> bool:
    """Whether a text is in the name of an operator in the table, or whole words of another one's."""
    words = re.compile(rf"(?<![a-z0-9]){re.escape(text)}(?![a-z0-9])")
    return any(text in name for name in _table_names()) or any(map(words.search, _node_names()))


def _hint(text: str) -> str:
    """What an unknown entry may have meant."""
    near = node_name(text)
    if _is_known(near):
        return f"did you mean {near!r}? Expected e.g. 'aten::add'"
    known = {name.removeprefix("aten_").removesuffix("_default") for name in _table_names()}
    found = get_close_matches(near.removeprefix("aten_"), sorted(known), cutoff=0.5)
    return f"nearest are {', '.join(found)}" if found else "expected e.g. 'aten::add'"


@lru_cache(maxsize=1)
def _table_names() -> frozenset[str]:
    """What nodes of the operators in the support tables are called."""
    return frozenset(node_name(name) for rules in RULES_OF.values() for name in rules)


@lru_cache(maxsize=1)
def _node_names() -> frozenset[str]:
    """What nodes of torch's operators that models use, and of those in the support tables, are called."""
    aten = (name for name in torch._C._dispatch_get_all_op_names() if re.match("aten::[a-z]", name))
    whole = (name.replace("::", ".") if "." in name else f"{name.replace('::', '.')}.default" for name in aten)
    return _table_names() | frozenset(map(node_name, whole))


def match(node: fx.Node, entries: Sequence[str]) -> str | None:
    """Which entry names a node, and which of its names, as a text; None when none does."""
    found = ((entry, name) for name in _names(node) for entry in entries if entry in name)
    return next((f"{entry!r} is in {name!r}" for entry, name in found), None)


def _names(node: fx.Node) -> Iterator[str]:
    """The node's own name and its operator's, then what it was made of, where the program still tells that."""
    yield node.name
    yield node.meta.get(ORIGIN, node.name)
    yield node_name(target_name(node.target))
    original = node.meta.get("original_aten")
    if isinstance(original, OpOverload):
        yield node_name(target_name(original))
    function = node.meta.get("torch_fn")
    if isinstance(function, tuple):
        yield f"aten_{str(function[1]).rpartition('.')[2]}"
