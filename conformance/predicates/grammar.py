"""The language of predicates: a small subset of Python's expressions, read with `ast` and never run as Python.

    kernel_h * dilation_h <= 64         stride_h in (1, 2, 4)       x.rank < 4 or x.shape[3] % 4 == 0
    weight.bytes <= 512 * 1024          other.is_constant           all(t.shape[1] % 16 == 0 for t in tensors)
    out.elements / 4 <= 1024            bias is not None            (kernel_h, kernel_w) in ((1, 1), (3, 3))

Numbers, texts, features, `+ - * / // %`, powers of numbers, comparisons, `in`, `is None`, `and`, `or`, `not`, lists in
parentheses, `min`, `max`, `abs`, `len`, and `all`, `any` or `count` over a list. `/` is exact, `//` rounds down.
See `features` for the features.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from npu_assay.conformance.common.errors import UsageError, nearest

LONGEST, DEEPEST, LARGEST = 400, 24, 2**40
LISTS_WITHIN = 3  # `all` and `any` in one another: each goes over its list for every item of those around it
LEVELS = 4 * DEEPEST  # of Python's tree, which has several for each of the language; checks and messages walk them
ATTRIBUTES = (
    *("bytes", "channel_axis", "channels", "codes", "dtype", "elements", "group", "has_zero"),
    *("is_constant", "is_contiguous", "is_input", "is_per_channel", "is_quantized", "largest_scale", "largest_sum"),
    *(
        "only_number",
        "open_axes",
        "open_sizes",
        "rank",
        "real",
        "scale",
        "scale_axis",
        "shape",
        "smallest_scale",
        "zero_point",
    ),
)
"""The features of an operand."""
FUNCTIONS = ("abs", "len", "max", "min")
QUANTIFIERS, COUNT = ("all", "any"), "count"
LISTS = (ast.Name, ast.Attribute)
"""The features over which `all`, `any` and `count` iterate: lists of operands, or sizes of one operand."""
VALUE = "value"  # the number or list beside a constraint's id
_DIVISIONS = (ast.Div, ast.FloorDiv, ast.Mod)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, *_DIVISIONS)
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_COMPARISONS = (*_ORDERED, ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_PRESENCE = (ast.Is, ast.IsNot)


class PredicateError(UsageError):
    """A text is not a predicate; the message says what was found where, and what is expected."""


@dataclass(frozen=True)
class Atom:
    """A part of a predicate that is true or false, without `and`, `or` and `not`. features: as written in it."""

    tree: ast.expr
    text: str
    features: tuple[str, ...]

    @property
    def ordered(self) -> bool:
        """Whether it compares two numbers with <, <=, > or >=, so that it has a limit."""
        return isinstance(self.tree, ast.Compare) and isinstance(self.tree.ops[0], _ORDERED)

    @property
    def asks_presence(self) -> bool:
        """Whether it is about an argument that may be left out."""
        return isinstance(self.tree, ast.Compare) and isinstance(self.tree.ops[0], _PRESENCE)

    @property
    def quantified(self) -> bool:
        """Whether it is an `all` or `any`."""
        return isinstance(self.tree, ast.Call)


@dataclass(frozen=True)
class Predicate:
    """A parsed predicate: `tree` contains only what the language has."""

    text: str
    tree: ast.expr = field(compare=False, repr=False)

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:
        """The distinct atoms, from left to right."""
        found = {ast.unparse(tree): tree for tree in _leaves(self.tree)}
        return tuple(Atom(tree, text, tuple(features_in(tree))) for text, tree in found.items())

    @cached_property
    def paired(self) -> bool:
        """Whether it compares several features at once, whose items share features."""
        found = ast.walk(ast.parse(self.text, mode="eval"))
        return any(isinstance(tree, ast.Compare) and isinstance(tree.left, ast.Tuple | ast.List) for tree in found)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The whole numbers in it, and the values of constant expressions: 524288 for `512 * 1024`."""
        found = {_amount(tree) for tree in ast.walk(self.tree)}
        return tuple(sorted(n for n in found if n is not None))

    @cached_property
    def reals(self) -> tuple[float, ...]:
        """The numbers in it that are not whole."""
        constants = (tree.value for tree in ast.walk(self.tree) if isinstance(tree, ast.Constant))
        return tuple(sorted({found for found in constants if type(found) is float}))

    @cached_property
    def bases(self) -> tuple[str, ...]:
        """The distinct first names of features, without those that `all` and `any` bind."""
        return tuple(dict.fromkeys(_bases(self.tree, frozenset())))


def parse_predicate(text: str) -> Predicate:
    """Read a predicate. Raises PredicateError."""
    if len(text) > LONGEST:
        raise PredicateError(f"found {len(text)} characters, expected at most {LONGEST}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise PredicateError(f"{text!r} is not an expression: {said}") from error
    _check_levels(tree)
    whole: ast.expr = _Apart().visit(tree)
    found = Predicate(text.strip(), _truth(whole, 0))
    if (lists := _lists_within(whole)) > LISTS_WITHIN:
        raise PredicateError(f"found {lists} of 'all' and 'any' in one another, expected at most {LISTS_WITHIN}")
    return found


def _lists_within(tree: ast.AST) -> int:
    inner = max(map(_lists_within, ast.iter_child_nodes(tree)), default=0)
    return inner + isinstance(tree, ast.GeneratorExp)


def _check_levels(tree: ast.AST) -> None:
    """Raise PredicateError for more levels than the functions below can go down; without going down itself."""
    level: list[ast.AST] = [tree]
    for _ in range(LEVELS):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise PredicateError("nested too deeply")


def _amount(tree: ast.AST) -> int | None:
    """The value of a part that contains only whole numbers; None for any other."""
    match tree:
        case ast.Constant(value=found) if type(found) is int:
            return found
        case ast.BinOp(left=left, op=ast.Mult() | ast.Pow() as op, right=right):
            a, b = _amount(left), _amount(right)
            return None if a is None or b is None else _product(op, a, b)
    return None


def _product(op: ast.operator, a: int, b: int) -> int | None:
    """The product or power; None if it is larger than any limit."""
    if isinstance(op, ast.Mult):
        return a * b
    return a**b if 0 <= a <= 16 and 0 <= b <= 40 and a**b <= LARGEST else None


def features_in(tree: ast.expr) -> Iterator[str]:
    """The distinct features of a checked tree, as written: `x.shape[2]`, `kernel_h`."""
    return iter(dict.fromkeys(_features(tree)))


def _features(tree: ast.AST) -> Iterator[str]:
    if isinstance(tree, ast.Call):
        for argument in tree.args:
            yield from _features(argument)
    elif isinstance(tree, ast.GeneratorExp):
        yield ast.unparse(tree.generators[0].iter)
    elif isinstance(tree, ast.Name | ast.Attribute | ast.Subscript):
        yield ast.unparse(tree)
        if isinstance(tree, ast.Subscript):
            yield from _features(tree.slice)
    else:
        for child in ast.iter_child_nodes(tree):
            yield from _features(child)


def _bases(tree: ast.AST, bound: frozenset[str]) -> Iterator[str]:
    if isinstance(tree, ast.Name):
        if tree.id not in bound:
            yield tree.id
    elif isinstance(tree, ast.GeneratorExp):
        (over,) = tree.generators
        assert isinstance(over.target, ast.Name)
        yield from _bases(over.iter, bound)
        yield from _bases(tree.elt, bound | {over.target.id})
    elif isinstance(tree, ast.Call):
        for argument in tree.args:
            yield from _bases(argument, bound)
    else:
        for child in ast.iter_child_nodes(tree):
            yield from _bases(child, bound)


def _leaves(tree: ast.expr) -> Iterator[ast.expr]:
    if isinstance(tree, ast.BoolOp):
        for part in tree.values:
            yield from _leaves(part)
    elif isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        yield from _leaves(tree.operand)
    else:
        yield tree


# ------------------------------------------------------------------------------------ checks


class _Apart(ast.NodeTransformer):
    """Splits comparisons: `1 <= a <= 3` becomes two, and `(a, b) in ((1, 1), (3, 3))` two for each pair.

    What is compared is in both: comparisons within it, which no value has, would become twice as many at every level.
    """

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        ends = [node.left, *node.comparators]
        for inner in (each for end in ends for each in _outside_of_counts(end)):
            if isinstance(inner, ast.Compare | ast.BoolOp):
                raise _unexpected(inner, "a number, a text or a feature, which is compared")
        if len(node.ops) == 1:
            return _items_apart(node)
        parts = [ast.Compare(a, [op], [b]) for a, op, b in zip(ends, node.ops, ends[1:], strict=False)]
        return ast.BoolOp(ast.And(), [_items_apart(part) for part in parts])


def _outside_of_counts(tree: ast.expr) -> Iterator[ast.AST]:
    """The parts of what is compared, but for what is counted, which has comparisons of its own."""
    if not isinstance(tree, ast.GeneratorExp):
        yield tree
        for part in ast.iter_child_nodes(tree):
            if isinstance(part, ast.expr):
                yield from _outside_of_counts(part)


def _items_apart(tree: ast.Compare) -> ast.expr:
    """A comparison of features in parentheses with lists that are written out, item by item. Raises PredicateError."""
    left, (op,), (right,) = tree.left, tree.ops, tree.comparators
    if not isinstance(left, ast.Tuple | ast.List) or not isinstance(right, ast.Tuple | ast.List):
        return tree  # beside a list that a row gives it stays whole
    if isinstance(op, ast.Eq | ast.NotEq):
        whole = _equal_items(left, right)
    elif isinstance(op, ast.In | ast.NotIn) and right.elts:
        each = [_equal_items(left, item) for item in right.elts]
        whole = each[0] if len(each) == 1 else ast.BoolOp(ast.Or(), each)
    else:
        raise _unexpected(tree, "one of == != in, of lists that have something in them")
    return ast.UnaryOp(ast.Not(), whole) if isinstance(op, ast.NotEq | ast.NotIn) else whole


def _equal_items(left: ast.Tuple | ast.List, right: ast.expr) -> ast.expr:
    """Raise PredicateError unless both have as many items, and at least one."""
    if not left.elts or not isinstance(right, ast.Tuple | ast.List) or len(right.elts) != len(left.elts):
        raise _unexpected(right, f"{len(left.elts)} items in parentheses, as {ast.unparse(left)!r} has")
    pairs = zip(left.elts, right.elts, strict=True)
    parts = [_items_apart(ast.Compare(a, [ast.Eq()], [b])) for a, b in pairs]
    return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)


def _truth(tree: ast.expr, depth: int) -> ast.expr:
    """Check a part that must be true or false. Raises PredicateError."""
    if depth > DEEPEST:
        raise PredicateError("nested too deeply")
    if isinstance(tree, ast.BoolOp):
        for part in tree.values:
            _truth(part, depth + 1)
    elif isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        _truth(tree.operand, depth + 1)
    elif isinstance(tree, ast.Compare):
        _comparison(tree, depth)
    elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in QUANTIFIERS:
        _quantified(tree, depth)
    elif isinstance(tree, ast.Name | ast.Attribute | ast.Subscript):
        _value(tree, depth)
    else:
        raise _unexpected(tree, "a comparison, or a feature that is true or false")
    return tree


def _comparison(tree: ast.Compare, depth: int) -> None:
    (op,), (right,) = tree.ops, tree.comparators
    if isinstance(op, _PRESENCE):
        _presence(tree)
    elif not isinstance(op, _COMPARISONS):
        raise _unexpected(tree, "one of < <= > >= == != in")
    elif isinstance(right, ast.Constant) and right.value is None:
        raise _unexpected(tree, "'is None' or 'is not None'")
    else:
        _compared_values(tree, depth)


def _presence(tree: ast.Compare) -> None:
    """`bias is None`: only of a feature by its name, for a part of what is left out is left out as well."""
    (right,) = tree.comparators
    if not isinstance(tree.left, ast.Name) or not isinstance(right, ast.Constant) or right.value is not None:
        raise _unexpected(tree, "'FEATURE is None' or 'FEATURE is not None'")


def _compared_values(tree: ast.Compare, depth: int) -> None:
    (op,), (right,) = tree.ops, tree.comparators
    left, of_row = tree.left, isinstance(right, ast.Name) and right.id == VALUE
    if isinstance(left, ast.Tuple | ast.List) and not of_row:  # beside a feature that is a list: stride, padding
        raise _unexpected(tree, f"a list that is written out on the right, or {VALUE!r}")
    if isinstance(left, ast.Tuple | ast.List) and isinstance(op, _ORDERED):
        raise _unexpected(tree, "one of == != in, of lists")
    for item in left.elts if isinstance(left, ast.Tuple | ast.List) else (left,):
        _value(item, depth + 1)
    if isinstance(op, ast.In | ast.NotIn) and not isinstance(right, ast.Tuple | ast.List):
        _value(right, depth + 1)
    elif isinstance(right, ast.Tuple | ast.List):
        for item in right.elts:
            _item(item, depth + 1)
    else:
        _value(right, depth + 1)


def _item(tree: ast.expr, depth: int) -> None:
    """Check an item of a list, which may be a list itself: bounds in ((-1, 1), (0, 6))."""
    for item in tree.elts if isinstance(tree, ast.Tuple | ast.List) else (tree,):
        _value(item, depth + 1)


def _quantified(tree: ast.Call, depth: int) -> None:
    """Check `all(... t ... for t in tensors)`. Raises PredicateError."""
    inner = tree.args[0] if len(tree.args) == 1 and not tree.keywords else None
    expected = f"{ast.unparse(tree.func)}(... for t in LIST)"
    if not isinstance(inner, ast.GeneratorExp) or len(inner.generators) != 1:
        raise _unexpected(tree, expected)
    (over,) = inner.generators
    if over.ifs or over.is_async or not isinstance(over.target, ast.Name) or not isinstance(over.iter, LISTS):
        raise _unexpected(tree, expected)
    _value(over.iter, depth + 1)
    _truth(inner.elt, depth + 1)


def _value(tree: ast.expr, depth: int) -> None:
    """Check a number, a text or a feature. Raises PredicateError."""
    if depth > DEEPEST:
        raise PredicateError("nested too deeply")
    if isinstance(tree, ast.Constant):
        _constant(tree)
    elif isinstance(tree, ast.Name | ast.Attribute | ast.Subscript):
        _feature(tree, depth)
    elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == COUNT:
        _quantified(tree, depth)
    else:
        for part in _parts(tree):
            _value(part, depth + 1)


def _constant(tree: ast.Constant) -> None:
    found = tree.value
    if isinstance(found, bool | str) or (isinstance(found, int | float) and abs(found) <= LARGEST):
        return
    raise _unexpected(tree, f"a number of at most {LARGEST}, a text, True or False")


def _feature(tree: ast.Name | ast.Attribute | ast.Subscript, depth: int) -> None:
    match tree:
        case ast.Name():
            return
        case ast.Attribute(value=ast.Name() | ast.Subscript(value=ast.Name()) as owner, attr=name):
            if name not in ATTRIBUTES:
                near = nearest(name, ATTRIBUTES, len(ATTRIBUTES))
                raise PredicateError(f"unknown feature {ast.unparse(tree)!r}{near}")
            _value(owner, depth + 1)
        case ast.Subscript(value=ast.Name() | ast.Attribute() as owner, slice=index) if not isinstance(
            index, ast.Slice | ast.Tuple
        ):
            _value(owner, depth + 1)
            _value(index, depth + 1)
        case _:
            raise _unexpected(tree, "a feature")


def _parts(tree: ast.expr) -> Sequence[ast.expr]:
    """The operands of an arithmetic expression. Raises PredicateError for anything else."""
    match tree:
        case ast.BinOp(op=op, right=ast.Constant(value=0)) if isinstance(op, _DIVISIONS):
            raise _unexpected(tree, "a divisor that is not 0")
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
            return left, right
        case ast.BinOp(op=ast.Pow()) if _amount(tree) is not None:
            return ()
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return (operand,)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS and args:
            return args
    raise _unexpected(tree, "a number or a feature")


def _unexpected(tree: ast.expr, expected: str) -> PredicateError:
    return PredicateError(f"found {ast.unparse(tree)!r}, expected {expected}")
