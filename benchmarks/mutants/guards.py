"""The parts of a module that only refuse bad files and arguments, or say why: unit tests judge them, not cases."""

from __future__ import annotations

import ast
from collections.abc import Iterator

MODULES = ("check", "work")
"""Modules of these names only check files, or count what a program would take, which limits are put on."""

PREFIXES = ("require", "check", "refuse", "fits", "work")
SITE = "site"
"""An operator with its tensors, as devices are given it. It never changes: a call whose result nobody takes refuses."""


def guards(tree: ast.AST) -> frozenset[int]:
    """The ids of the nodes inside checks and messages.

    A check is what is raised, the condition that it is raised on, a call of a function named as one that checks, all
    of such a function and of those that say so ("Refuse ..."), and what is computed for a check alone. Messages are the
    strings with numbers in them.
    """
    found = {id(inner) for part in _parts(tree) for inner in ast.walk(part)}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        found |= _for_checks(function, found)
    return frozenset(found)


def called(call: ast.Call) -> str:
    """The last part of the name of what is called, or nothing."""
    return getattr(call.func, "attr", None) or getattr(call.func, "id", None) or ""


def _parts(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if _refuses(node):
            yield node
        elif isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
            yield node.test


def _refuses(node: ast.AST) -> bool:
    inner = node.value if isinstance(node, ast.Expr) else node
    if isinstance(inner, ast.Call):
        return _checks(called(inner)) or (isinstance(node, ast.Expr) and _of_a_site(inner.func))
    if isinstance(node, ast.FunctionDef):
        return (_checks(node.name) and not _is_rule(node)) or (ast.get_docstring(node) or "").startswith("Refuse ")
    return isinstance(node, ast.Raise | ast.JoinedStr)


def _is_rule(function: ast.FunctionDef) -> bool:
    """Whether it is a partitioner's rule, which answers what it found: cases see both sides of it."""
    return function.returns is not None and ast.unparse(function.returns) == "str | None"


def _of_a_site(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == SITE


def _checks(name: str) -> bool:
    return name.lstrip("_").startswith(PREFIXES)


def _for_checks(function: ast.FunctionDef, found: set[int]) -> set[int]:
    """Assignments to names that checks alone read."""
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    free = {name.id for name in names if isinstance(name.ctx, ast.Load) and id(name) not in found}
    assigned = (
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) and t.id not in free for t in node.targets)
    )
    return {id(inner) for node in assigned for inner in ast.walk(node)}
