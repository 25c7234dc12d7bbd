"""How inputs and results are nested, as `.pt2` files write that: only in Python's own collections."""

from __future__ import annotations

import json
from typing import Any

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.archives.names import identifier, key

TUPLE, DICT = "builtins.tuple", "builtins.dict"
DICTS = (DICT, "collections.OrderedDict")
COLLECTIONS = (TUPLE, "builtins.list", *DICTS)
"""What inputs and results are nested in; other classes are those of libraries, which torch would ask for, or import."""
VERSION = 1
LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}


def nesting(text: str, *, called: bool = False) -> str:
    """The same with tuples for the classes of libraries. called: the inputs of a call, whose names are Python's.

    Raises UsageError.
    """
    if not text:
        return text
    match json.loads(text):
        case [1, tree]:
            plain = _plain(tree)
        case _:
            raise UsageError(f"found the nesting {text[:60]!r}, expected version {VERSION} with a tree")
    if called:
        _check_names(plain)
    return json.dumps([VERSION, plain])


def _plain(tree: Any) -> dict[str, Any]:
    match tree:
        case {"type": None, "context": None, "children_spec": []}:
            return LEAF
        case {"type": str(kind), "context": context, "children_spec": list(children)}:
            inside = [_plain(child) for child in children]
            if kind in DICTS:
                return {"type": kind, "context": _keys(context, len(inside)), "children_spec": inside}
            return {"type": kind if kind in COLLECTIONS else TUPLE, "context": "null", "children_spec": inside}
    raise UsageError("found an unknown nesting of inputs or results, expected tuples, lists and dicts")


def _keys(context: Any, count: int) -> str:
    """The keys of a dict, one for each of its children."""
    found = json.loads(context) if isinstance(context, str) else None
    if not isinstance(found, list) or len(found) != count:
        raise UsageError(f"found no {count} names of inputs or results in a dict, expected as many as it has values")
    if any(isinstance(each, dict) and "__enum__" in each for each in found):
        raise UsageError("found an enumeration among the names of inputs or results, expected texts")
    return json.dumps([key(each) for each in found])


def _check_names(tree: dict[str, Any]) -> None:
    """Raise UsageError where an input by name has a name that Python does not take."""
    match tree:
        case {"type": "builtins.tuple", "children_spec": [_, {"type": str(kind), "context": str(keys)}]}:
            for each in json.loads(keys) if kind in DICTS else ():
                identifier(each)
