"""Every small change of a table's predicate is told by some case that is generated from the right one.

Mutants are made from the predicates' trees, all of a kind: numbers one more, one less, twice and half; comparisons of
another kind; a feature for its sibling; `and` for `or`; a part left out. A mutant lives if every program of the row,
those that were written among them, gets the verdict of the right predicate.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest
import strict_backend

from npu_assay.conformance.cases import limits_of
from npu_assay.conformance.predicates.applications import NoProgram, application
from npu_assay.conformance.predicates.evaluation import truth
from npu_assay.conformance.predicates.features import Application
from npu_assay.conformance.predicates.grammar import PredicateError
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.table import load_table
from tests.conformance.cases.test_strict import of_row

STRICT = load_table(strict_backend.TABLE)
LIMITED = sorted((row.name, c.code) for row in STRICT.rows for c in row.constraints)
SIBLINGS = {"_h": "_w", "_w": "_h"}
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
EQUAL = {
    ("aten._softmax.default", "last_axis"): {"GtE"},  # no axis is beyond the last
    ("aten.add.Tensor", "one_image"): {"LtE"},  # an image at least
    ("aten.convolution.default", "images"): {"GtE"},  # max_dims excludes more
}
"""By row and code, the changes that make no difference while the row's other limits hold."""
Change = Callable[[Any], ast.expr | None]


def mutants(tree: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What was changed, and the tree with that one change."""
    for index, node in enumerate(ast.walk(tree)):
        for text, change in _changes(node):
            copied = copy.deepcopy(tree)
            target = list(ast.walk(copied))[index]
            changed = change(target)
            yield f"{text} in {ast.unparse(tree)}", copied if changed is None else _replaced(copied, target, changed)


def _replaced(tree: Any, old: ast.AST, new: ast.expr) -> ast.expr:
    class Put(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    found = Put().visit(tree)
    assert isinstance(found, ast.expr)
    return found


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    match node:
        case ast.Constant(value=int(found)) if not isinstance(found, bool):
            for number in sorted({found + 1, found - 1, found * 2, found // 2} - {found}):
                yield f"{found} -> {number}", partial(_set, "value", number)
        case ast.Compare():
            yield from _of_comparison(node)
        case ast.Name(id=name) if name[-2:] in SIBLINGS:
            sibling = name[:-2] + SIBLINGS[name[-2:]]
            yield f"{name} -> {sibling}", partial(_set, "id", sibling)
        case ast.BoolOp(op=op, values=values):
            yield (
                "and" if isinstance(op, ast.Or) else "or",
                partial(_set, "op", ast.And() if isinstance(op, ast.Or) else ast.Or()),
            )
            yield from ((f"part {index} alone", lambda n, index=index: n.values[index]) for index in range(len(values)))
        case ast.BinOp(op=ast.Mult()):
            yield "left factor alone", lambda n: n.left
            yield "right factor alone", lambda n: n.right
        case ast.Call(func=ast.Name(id=name)):
            yield "any for all", lambda n: _set("id", "any" if name == "all" else "all", n.func)


def _set(name: str, value: object, node: ast.AST) -> None:
    setattr(node, name, value)


def _of_comparison(node: ast.Compare) -> Iterator[tuple[str, Change]]:
    if isinstance(node.ops[0], ORDERED):
        for op in ORDERED:
            if not isinstance(node.ops[0], op) and not _same_of_remainders(node, op):
                yield op.__name__, partial(_set, "ops", [op()])
    if isinstance(node.comparators[0], ast.Tuple):
        for index in range(len(node.comparators[0].elts)):
            yield f"without member {index}", partial(_without, index)


def _without(index: int, node: Any) -> None:
    del node.comparators[0].elts[index]


def _same_of_remainders(node: ast.Compare, op: type[ast.cmpop]) -> bool:
    """A remainder is never below 0."""
    return isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Mod) and op is ast.LtE


class _Valued(ast.NodeTransformer):
    """The number beside the constraint for `value`."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id != "value":
            return node
        if isinstance(self.value, tuple):
            return ast.Tuple([ast.Constant(item) for item in self.value])
        return ast.Constant(self.value)


@cache
def applications(row: str) -> tuple[tuple[Case, Application], ...]:
    found = []
    for case in of_row(row):
        try:
            if case.expect != "unspecified":
                found.append((case, application(case.graph, case.subject)))
        except NoProgram:
            continue
    return tuple(found)


def living(row: str, code: str) -> Iterator[str]:
    """The mutants that no case of the row tells."""
    table_row = STRICT.row(row)
    constraint = table_row.constraint(code)
    precision = next(p for p in table_row.precisions if constraint.holds_for(p))
    rule = dict(limits_of(STRICT, table_row, precision).own)[code]
    assert rule.holds is not None
    right = _Valued(constraint.value).visit(copy.deepcopy(rule.holds.tree))
    known = [(case, a) for case, a in applications(row) if constraint.holds_for(case.precision)]
    told = [(case, a) for case, a in known if case.expect == "accept" or case.reason == code]
    for text, mutant in mutants(right):
        try:
            if all(truth(mutant, a.find) is (case.expect == "accept") for case, a in told):
                yield text
        except PredicateError:
            continue


@pytest.mark.long
@pytest.mark.parametrize(("row", "code"), LIMITED)
def test_every_small_change_of_a_predicate_is_told_by_some_case(row: str, code: str) -> None:
    found = {text.partition(" in ")[0] for text in living(row, code)}
    assert found == EQUAL.get((row, code), set())
