"""Where a module can be changed a little, and the changed module."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.guards import MODULES, called, guards

Swap = dict[type[ast.AST], type[ast.AST]]
COMPARISONS: Swap = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: Swap = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}

SYMMETRIC = frozenset({"max", "min", "maximum", "minimum", "gcd", "addcmul", "addcmul_", "logical_and", "logical_or"})
"""Functions whose first two arguments may change places."""

CHECKS = "tosa_rules"
"""A folder of modules that do nothing but check files."""


@dataclass(frozen=True)
class Site:
    """One change: the file, the line, the place of the node in a walk, which change of that node, and its text.

    guards: whether it belongs to a check of files and arguments, or to a message; no case reaches what they refuse.
    """

    file: str
    line: int
    node: int
    change: int
    text: str
    guards: bool = False

    @property
    def id(self) -> str:
        """The name of the mutant in records."""
        return f"{self.file}:{self.line}:{self.node}:{self.change}"


Change = Callable[[ast.AST], ast.AST | None]


def sites(root: Path, file: Path) -> Iterator[Site]:
    """Every change of a file, in the order of the text."""
    tree = ast.parse(file.read_text())
    skipped = _annotations(tree) | _docstrings(tree) | _strict(tree)
    whole = file.parent.name == CHECKS or any(name in file.stem for name in MODULES)
    guarding = None if whole else guards(tree)
    for index, node in enumerate(ast.walk(tree)):
        if index in skipped or not hasattr(node, "lineno"):
            continue
        for number, change in enumerate(changes(node)):
            changed = change(copy.deepcopy(node))
            before = ast.unparse(node)
            after = "(dropped)" if changed is None else ast.unparse(changed)
            if after != before:
                name = file.relative_to(root).as_posix()
                text = f"{_short(before)} -> {_short(after)}"
                yield Site(name, node.lineno, index, number, text, guarding is None or id(node) in guarding)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 90 else f"{line[:87]}..."


def _annotations(tree: ast.AST) -> set[int]:
    """Nodes that say types, which nothing computes with."""
    places = {id(node): index for index, node in enumerate(ast.walk(tree))}
    found = set[int]()
    for node in ast.walk(tree):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        for part in filter(None, parts):
            found |= {places[id(inner)] for inner in ast.walk(part)}
    return found


def _docstrings(tree: ast.AST) -> set[int]:
    """Strings that stand alone, and the statements that they are."""
    found = set[int]()
    for index, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found.add(index)
    return found


def _strict(tree: ast.AST) -> set[int]:
    """The `strict=True` of zips, which changes nothing while the lengths are equal, as they are."""
    words = [node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "strict"]
    values = {id(word.value) for word in words}
    return {index for index, node in enumerate(ast.walk(tree)) if id(node) in values}


def changes(node: ast.AST) -> Iterator[Change]:
    """The changes that a node permits; each is made to a copy of it."""
    yield from _of_expressions(node)
    yield from _of_statements(node)


def _of_expressions(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        yield from (_compared(place) for place, each in enumerate(node.ops) if type(each) in COMPARISONS)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield _computed
    elif isinstance(node, ast.BoolOp):
        yield _other_boolean
        yield from map(_without, range(len(node.values)))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield lambda copied: copied.operand  # type: ignore[attr-defined]  # a UnaryOp, as its original
    elif isinstance(node, ast.Constant) and not isinstance(node.value, str):
        yield from _constants(node.value)
    elif isinstance(node, ast.Call) and _has_order(node):
        yield _other_order


def _has_order(call: ast.Call) -> bool:
    """Whether the first two arguments can change places, and that may change the result."""
    symmetric = called(call) == "fma" or (called(call) in SYMMETRIC and len(call.args) == 2)
    return len(call.args) > 1 and not symmetric and not any(isinstance(each, ast.Starred) for each in call.args)


def _of_statements(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.If | ast.IfExp):
        yield _negated
    elif isinstance(node, ast.AugAssign):
        if type(node.op) in ARITHMETIC:
            yield _computed
        yield lambda copied: None
    elif isinstance(node, ast.Expr) and not isinstance(node.value, ast.Yield | ast.YieldFrom):
        yield lambda copied: None
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield _nothing


def _constants(value: object) -> Iterator[Change]:
    if isinstance(value, bool):
        yield lambda copied: ast.Constant(not value)
    elif isinstance(value, int | float):
        yield lambda copied: ast.Constant(value + 1)
        yield lambda copied: ast.Constant(value - 1)


def _compared(place: int) -> Change:
    def change(copied: ast.AST) -> ast.AST:
        assert isinstance(copied, ast.Compare)
        copied.ops[place] = COMPARISONS[type(copied.ops[place])]()  # type: ignore[call-overload]  # an operator
        return copied

    return change


def _computed(copied: ast.AST) -> ast.AST:
    assert isinstance(copied, ast.BinOp | ast.AugAssign)
    copied.op = ARITHMETIC[type(copied.op)]()  # type: ignore[assignment]  # an operator
    return copied


def _other_boolean(copied: ast.AST) -> ast.AST:
    assert isinstance(copied, ast.BoolOp)
    copied.op = ast.Or() if isinstance(copied.op, ast.And) else ast.And()
    return copied


def _without(place: int) -> Change:
    def change(copied: ast.AST) -> ast.AST:
        assert isinstance(copied, ast.BoolOp)
        del copied.values[place]
        return copied if len(copied.values) > 1 else copied.values[0]

    return change


def _other_order(copied: ast.AST) -> ast.AST:
    assert isinstance(copied, ast.Call)
    copied.args[:2] = reversed(copied.args[:2])
    return copied


def _negated(copied: ast.AST) -> ast.AST:
    assert isinstance(copied, ast.If | ast.IfExp)
    copied.test = ast.UnaryOp(ast.Not(), copied.test)
    return copied


def _nothing(copied: ast.AST) -> ast.AST:
    assert isinstance(copied, ast.Return)
    copied.value = ast.Constant(None)
    return copied


class _Changed(ast.NodeTransformer):
    def __init__(self, target: ast.AST, changed: ast.AST | None) -> None:
        self.target, self.changed = target, changed

    def visit(self, node: ast.AST) -> ast.AST:
        if node is not self.target:
            return self.generic_visit(node)
        return ast.copy_location(ast.Pass() if self.changed is None else self.changed, node)


def mutation(tree: ast.Module, site: Site) -> tuple[ast.expr | ast.stmt, ast.AST | None]:
    """The node of the file's tree that a mutant changes, and what it becomes; None for a dropped statement."""
    target = next(node for index, node in enumerate(ast.walk(tree)) if index == site.node)
    assert isinstance(target, ast.expr | ast.stmt)
    return target, list(changes(target))[site.change](copy.deepcopy(target))


def changed(root: Path, site: Site) -> ast.Module:
    """The module with that one change."""
    tree = ast.parse((root / site.file).read_text())
    made = _Changed(*mutation(tree, site)).visit(tree)
    assert isinstance(made, ast.Module)
    return ast.fix_missing_locations(made)
