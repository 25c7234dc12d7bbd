"""Evaluates predicates for one application: true, false, or undefined if it lacks a feature.

An undefined part makes the whole undefined, unless the other parts decide: `x.rank < 4 or x.shape[3] % 4 == 0` is
true of a matrix, which has no fourth dimension.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

from npu_assay.conformance.predicates.grammar import VALUE, Atom, Predicate, PredicateError, features_in

Find = Callable[[str], Any]
"""The value of a name. Raises Undefined when the application has no such feature."""
STEPS = 4096
"""The parts that `all` and `any` evaluate, those of all items counted; shipped predicates need 192 at most."""


class Undefined(Exception):
    """A feature that this application does not have."""


def _exact(left: Any, right: Any) -> Any:
    """A quotient of whole numbers is not rounded: 3 / 2 is a fraction, 4 / 2 is 2."""
    if float in (type(left), type(right)) or not right:
        return left / right
    found = Fraction(left) / Fraction(right)
    return int(found) if found.denominator == 1 else found


_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: _exact,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
        ast.Pow: operator.pow,
    }
)
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = MappingProxyType(
    {
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
        ast.In: lambda a, b: a in b,
        ast.NotIn: lambda a, b: a not in b,
    }
)
_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType({"abs": abs, "len": len, "max": max, "min": min})


def holds(predicate: Predicate, find: Find, code: str = "") -> bool | None:
    """Return whether a predicate holds, of the constraint `code` if it is of one; None if undefined.

    Raises PredicateError, which names the constraint, for values that cannot be compared and for too many steps.
    """
    try:
        return truth(predicate.tree, find)
    except PredicateError as error:
        raise PredicateError(f"{code and f'{code}: '}{error}") from error


def truth(tree: ast.expr, find: Find) -> bool | None:
    """As `holds`, for a part of a predicate."""
    match tree:
        case ast.BoolOp(op=ast.And(), values=parts):
            return _every([truth(part, find) for part in parts])
        case ast.BoolOp(values=parts):
            return _negated(_every([_negated(truth(part, find)) for part in parts]))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _negated(truth(operand, find))
    try:
        found = value(tree, find)
    except Undefined:
        return None
    except (TypeError, IndexError, ZeroDivisionError, OverflowError) as error:
        raise PredicateError(f"{ast.unparse(tree)!r}: {error}") from error
    if found is not None and not isinstance(found, bool):
        raise PredicateError(f"{ast.unparse(tree)!r} is {found!r}, expected true or false")
    return found


def wanting(tree: ast.expr, find: Find, wanted: bool = True) -> int:
    """The smallest number of atoms that must change for the part to be as wanted; 0 if it is."""
    match tree:
        case ast.BoolOp(op=op, values=parts):
            found = [wanting(part, find, wanted) for part in parts]
            return sum(found) if isinstance(op, ast.And) == wanted else min(found)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return wanting(operand, find, not wanted)
    return int(truth(tree, find) is not wanted)


def _every(found: Iterable[bool | None]) -> bool | None:
    known = set(found)
    return False if False in known else None if None in known else True


def _negated(found: bool | None) -> bool | None:
    return None if found is None else not found


def value(tree: ast.expr, find: Find) -> Any:
    """The value of a part of a predicate. Raises Undefined, and TypeError for operands of wrong types."""
    match tree:
        case ast.Constant(value=constant):
            return constant
        case ast.Name(id=name):
            return find(name)
        case ast.Attribute(value=owner, attr=name):
            return _attribute(value(owner, find), name, owner)
        case ast.Subscript(value=owner, slice=index):
            told = isinstance(owner, ast.Name) and owner.id == VALUE
            return _item(value(owner, find), value(index, find), told)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(value(item, find) for item in items)
        case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op]):
            return _is_left_out(left, find) == isinstance(op, ast.Is)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compared(type(op), value(left, find), value(right, find))
        case ast.Call(func=ast.Name(id="all" | "any" as name), args=[ast.GeneratorExp() as inner]):
            truths = _truths(inner, find)
            return _every(truths) if name == "all" else _negated(_every(map(_negated, truths)))
        case ast.Call(func=ast.Name(id="count"), args=[ast.GeneratorExp() as inner]):
            return _counted(_truths(inner, find), inner)
    return _computed(tree, find)


def _is_left_out(tree: ast.expr, find: Find) -> bool:
    try:
        return value(tree, find) is None
    except Undefined:
        return True


def _computed(tree: ast.expr, find: Find) -> Any:
    match tree:
        case ast.BinOp(left=left, op=op, right=right):
            return _calculated(op, _number(left, find), _number(right, find), right)
        case ast.UnaryOp(operand=operand):
            return -_number(operand, find)
        case ast.Call(func=ast.Name(id=name), args=args):
            return _called(name, [value(argument, find) for argument in args])
    raise PredicateError(f"{ast.unparse(tree)!r} is not part of the language")


def _calculated(op: ast.operator, left: Any, right: Any, divisor: ast.expr) -> Any:
    """What is divided by a feature is undefined where that is 0. Raises ZeroDivisionError for a constraint's own 0."""
    try:
        return _ARITHMETIC[type(op)](left, right)
    except ZeroDivisionError:
        if set(features_in(divisor)) <= {"value"}:
            raise
        raise Undefined(ast.unparse(divisor)) from None


def _called(name: str, given: list[Any]) -> Any:
    """A function's value; min and max of an empty list are undefined."""
    if given == [()] and name in ("max", "min"):
        raise Undefined(name)
    return _FUNCTIONS[name](*given)


def _number(tree: ast.expr, find: Find) -> Any:
    found = value(tree, find)
    if type(found) not in (int, float, Fraction):
        raise TypeError(f"{ast.unparse(tree)} is {found!r}, expected a number")
    return found


def _attribute(owner: Any, name: str, tree: ast.expr) -> Any:
    found = getattr(owner, name, None)
    if not hasattr(owner, "is_constant"):
        raise TypeError(f"{ast.unparse(tree)} is {owner!r}, expected an operand")
    if found is None:
        raise Undefined(name)
    return found


def _item(owner: Any, index: Any, told: bool) -> Any:
    """An item of a list; of one that a table tells there must be one."""
    if not isinstance(owner, tuple) or type(index) is not int:
        raise TypeError(f"found [{index!r}] of {owner!r}, expected a list and a whole number")
    if not -len(owner) <= index < len(owner):
        if told:
            raise TypeError(f"found [{index}] of {owner!r}, expected a longer list")
        raise Undefined(index)
    if owner[index] is None:  # the bound of a clamp that has none
        raise Undefined(index)
    return owner[index]


def _compared(op: type[ast.cmpop], left: Any, right: Any) -> bool:
    listed = op in (ast.In, ast.NotIn)
    if listed and not isinstance(right, tuple):
        raise TypeError(f"{right!r} is not a list")
    for other in right if listed else (right,):
        if _kind(left) is not _kind(other):
            raise TypeError(f"{left!r} and {other!r} cannot be compared")
    return _COMPARISONS[op](left, right)


def _kind(found: Any) -> type:
    return float if type(found) in (int, float, Fraction) else type(found)


@dataclass(frozen=True)
class _Item:
    """The features of an application, and an item of a list by its name. left: steps that this list still has."""

    name: str
    item: Any
    find: Find
    left: list[int]

    def __call__(self, asked: str) -> Any:
        return self.item if asked == self.name else self.find(asked)


def _counted(truths: list[bool | None], inner: ast.GeneratorExp) -> int:
    """How many are true. Raises Undefined where one is."""
    if None in truths:
        raise Undefined(ast.unparse(inner))
    return truths.count(True)


def _truths(inner: ast.GeneratorExp, find: Find) -> list[bool | None]:
    """What is said of each item. Raises PredicateError where all of that takes too many steps."""
    (over,) = inner.generators
    assert isinstance(over.target, ast.Name)
    target, items = over.target.id, value(over.iter, find)
    if not isinstance(items, tuple):
        raise TypeError(f"{ast.unparse(over.iter)} is {items!r}, expected a list")
    left = find.left if isinstance(find, _Item) else [STEPS]
    left[0] -= len(items) * _parts(inner)
    if left[0] < 0:
        raise PredicateError(f"{ast.unparse(inner)!r}: found more than {STEPS} steps to evaluate it, expected fewer")
    return [truth(inner.elt, _Item(target, item, find, left)) for item in items]


@lru_cache(1024)
def _parts(inner: ast.GeneratorExp) -> int:
    """The parts of what is evaluated of each item."""
    return sum(isinstance(each, ast.expr) for each in ast.walk(inner.elt))


# ------------------------------------------------------------------------------------ of atoms


def atom_truth(atom: Atom, find: Find) -> bool | None:
    """Whether an atom holds."""
    return truth(atom.tree, find)


@cache
def says(predicate: Predicate, atoms: tuple[bool | None, ...]) -> bool | None:
    """The value of a predicate whose atoms, in their order, have these values."""
    known = dict(zip((atom.text for atom in predicate.atoms), atoms, strict=True))
    return _said(predicate.tree, known)


def _said(tree: ast.expr, atoms: Mapping[str, bool | None]) -> bool | None:
    match tree:
        case ast.BoolOp(op=ast.And(), values=parts):
            return _every([_said(part, atoms) for part in parts])
        case ast.BoolOp(values=parts):
            return _negated(_every([_negated(_said(part, atoms)) for part in parts]))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _negated(_said(operand, atoms))
    return atoms[ast.unparse(tree)]


def side(atom: Atom, find: Find) -> Any:
    """The left side of an atom's comparison; None if it is undefined or the atom is not a comparison."""
    if not isinstance(atom.tree, ast.Compare):
        return None
    try:
        return value(atom.tree.left, find)
    except Undefined:
        return None


def distance(atom: Atom, find: Find) -> float | None:
    """The absolute distance of an ordered atom from its limit; None if that is undefined."""
    assert isinstance(atom.tree, ast.Compare)
    try:
        return float(abs(value(atom.tree.left, find) - value(atom.tree.comparators[0], find)))
    except Undefined:
        return None
    except OverflowError:  # more than a float can be
        return math.inf


def members(atom: Atom, find: Find) -> tuple[Any, ...]:
    """The list of an atom with `in`, or the right side of a comparison; () if it is undefined."""
    assert isinstance(atom.tree, ast.Compare)
    try:
        found = value(atom.tree.comparators[0], find)
    except Undefined:
        return ()
    return found if isinstance(found, tuple) else (found,)


def feature_value(text: str, find: Find) -> Any:
    """The value of a feature, written as in a predicate; None if it is undefined."""
    try:
        return value(_parsed(text), find)
    except Undefined:
        return None


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
