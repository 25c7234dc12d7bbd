"""Sizes in `.pt2` files: arithmetic on symbols, and nothing else, as torch hands them to sympy, which runs Python."""

from __future__ import annotations

import ast
import re

from npu_assay.conformance.common.errors import UsageError

CALLS = frozenset(
    (
        *("Integer", "Rational", "Add", "Mul", "Mod", "Max", "Min", "Abs", "floor", "ceiling", "Piecewise"),
        *("FloorDiv", "CleanDiv", "CeilDiv", "IntTrueDiv", "FloatTrueDiv", "ModularIndexing", "PythonMod", "Where"),
        *("CeilToInt", "FloorToInt", "TruncToInt", "RoundToInt", "TruncToFloat", "ToFloat", "Identity"),
        *("Equality", "Unequality", "GreaterThan", "LessThan", "StrictGreaterThan", "StrictLessThan"),
        *("And", "Or", "Not"),
    )
)
"""What torch may call in the size of a program with dynamic sizes: Mul(Integer(16), Symbol('s77', integer=True))."""
POWERS = ("Pow", "PowByNatural", "FloatPow")
SYMBOL = re.compile(r"(?:[suz]|zf|zuf|ps)\d{1,6}")
"""What torch calls sizes. It counts up to the number of an unknown one (u3), so that may not be large."""
LONGEST = 4_000  # characters
LARGEST = 2**63  # of a number
POWER = 64  # the largest product of exponents: numbers stay short
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Div, ast.USub)
_COMPARED = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def arithmetic(text: str) -> str:
    """The size as Python writes it. Raises UsageError for anything but arithmetic on symbols."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body if len(text) <= LONGEST else ast.Tuple([])
        if _is_size(tree, POWER):
            return ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise UsageError(f"found the size {text[:60]!r}, expected arithmetic on symbols")


def _is_size(node: ast.AST, power: int) -> bool:
    """True for operators, symbols, numbers, and calls of the known classes."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return abs(number) <= LARGEST
        case ast.Name(id=name):
            return SYMBOL.fullmatch(name) is not None or name in ("true", "false")
        case ast.Call(func=ast.Name(id=name)):
            return _is_call(name, node, power)
        case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
            return _is_power(base, exponent, power)
        case ast.BinOp(op=operator) | ast.UnaryOp(op=operator) if isinstance(operator, _OPERATORS):
            return _are_sizes(node, power)
        case ast.Compare(ops=[operator]) if isinstance(operator, _COMPARED):
            return _are_sizes(node, power)
    return False


def _are_sizes(node: ast.AST, power: int) -> bool:
    return all(_is_size(each, power) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))


def _is_call(name: str, node: ast.Call, power: int) -> bool:
    match node:
        case ast.Call(args=[ast.Constant(value=str(symbol))], keywords=keywords) if name == "Symbol":
            return SYMBOL.fullmatch(symbol) is not None and all(map(_is_assumption, keywords))
        case ast.Call(args=[ast.Constant(value=str(number))], keywords=keywords) if name == "Float":
            return re.fullmatch(r"-?[\d.]{1,40}(e[+-]?\d{1,3})?", number) is not None and all(map(_is_digits, keywords))
        case ast.Call(args=[base, exponent], keywords=[]) if name in POWERS:
            return _is_power(base, exponent, power)
        case ast.Call(args=arguments, keywords=[]) if name in CALLS:
            return all(_is_size(each, power) for each in arguments)
    return False


def _is_power(base: ast.AST, exponent: ast.AST, power: int) -> bool:
    whole = _exponent(exponent)
    return 0 < whole <= power and _is_size(base, power // whole)


def _exponent(node: ast.AST) -> int:
    """How much longer a number gets by this exponent, at most; 0 for no number."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=inside):
            return _exponent(inside)
        case ast.Call(func=ast.Name(id="Integer" | "Rational"), args=[inside, *_], keywords=[]):
            return _exponent(inside) if _is_size(node, 1) else 0
    return 0


def _is_assumption(keyword: ast.keyword) -> bool:
    return isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool)


def _is_digits(keyword: ast.keyword) -> bool:
    return keyword.arg == "precision" and isinstance(keyword.value, ast.Constant) and keyword.value.value == 53
