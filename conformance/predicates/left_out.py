"""The arguments that torch lets a program leave out, of which a predicate then says nothing.

`correction in (0, 1)` is neither true nor false of a call without a correction, so such calls have no cases.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from npu_assay.conformance.predicates.grammar import Predicate
from npu_assay.reference.golden.aten import canonical, optional_parameters

Truths = frozenset[bool | None]
EITHER: Truths = frozenset({True, False})


def silent_without(op: str, predicate: Predicate) -> Iterator[str]:
    """The arguments without which a predicate may be undefined, in the schema's order."""
    for name in optional_parameters(canonical(op)):
        if name in predicate.bases and None in _possible(predicate.tree, name):
            yield name


def _possible(tree: ast.expr, name: str) -> Truths:
    """What a part can be where the argument is left out, whatever else there is; None for undefined."""
    match tree:
        case ast.BoolOp(op=op, values=parts):
            found = itertools.product(*(_possible(part, name) for part in parts))
            return frozenset(_joined(each, isinstance(op, ast.And)) for each in found)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return frozenset(None if each is None else not each for each in _possible(operand, name))
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op]) if _names(left, name):
            return frozenset({isinstance(op, ast.Is)})
        case ast.Compare(left=ast.Constant(value=asked), ops=[op], comparators=[ast.Name(id="given")]) if asked == name:
            return frozenset({isinstance(op, ast.NotIn)})
    return frozenset({None}) if _names(tree, name) else EITHER


def _joined(parts: tuple[bool | None, ...], every: bool) -> bool | None:
    """All of them, or any; what is undefined leaves it so unless another one decides."""
    return (not every) if (not every) in parts else None if None in parts else every


def _names(tree: ast.expr, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(tree))
