"""A stranger's table under attack: every small change of its partitioner's rules, each judged by its row's cases.

    python -m benchmarks.strangers_table [-k softmax] [--list]

`benchmarks/plover` is an invented NPU: a table of predicates of every kind, and the partitioner that keeps it. First
the right partitioner answers every case; then one rule of one row at a time is changed, and a change is killed by the
first case of the row that `assay certify --level tags` would fail. What nothing can tell is in EQUIVALENT.
"""

from __future__ import annotations

import argparse
import ast
import copy
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from torch.export import ExportedProgram

sys.path.insert(0, str(Path(__file__).parent.parent))

import benchmarks.plover as plover
from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import tag_failures
from npu_assay.conformance.run.tagging import prepare, tag
from npu_assay.conformance.table import Row, load_table
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG

TABLE = load_table(plover.backend.table)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv}
SIBLINGS = (
    *(("kernel_h", "kernel_w"), ("stride_h", "stride_w"), ("padding_h", "padding_w"), ("dilation_h", "dilation_w")),
    *(("kernel_h", "stride_h"), ("kernel_w", "stride_w"), ("height", "width"), ("batch", "channels"), ("x", "y")),
    *(("x", "out"), ("in_channels", "out_channels"), ("min_val", "max_val"), ("dim0", "dim1"), ("alpha", "beta")),
    *(("kernel_d", "kernel_h"), ("stride_d", "stride_h"), ("elements", "bytes"), ("is_constant", "is_per_channel")),
    *(("all", "any"), ("min", "max"), ("C", "group")),
)
Change = Callable[[Any], Any]
EQUIVALENT: tuple[tuple[str, str], ...] = (
    (r"% .* == 0 -> .* <= 0 ", "a remainder is never negative"),
    (r"padding_. == 0 -> .* <= 0 ", "padding is never negative"),
    (r"(stride|dilation)_. > 1 -> .* != 1 ", "strides and dilations are at least 1"),
    (r"(kernel_.|stride_.|groups|height|batch|elements|step) == 1 -> .* <= 1 ", "they are at least 1"),
    (r"len\(n.normalized_shape\) == 1 -> .* <= 1 ", "torch asks for one dimension at least"),
    (r"\.(elements -> .*bytes|bytes -> .*elements) ", "where the limit holds, codes have 8 bits"),
    (r"(abs|exp|sin|cos|floor|flip|_softmax|cumsum)\S* .*n.x -> n.out ", "the result has the sizes of the operand"),
    (r"transpose_copy\S* \| last_two \| n.x -> n.out ", "the result has the rank of the operand"),
    (r"sum.dim_IntList \| one_dim \| n.x -> n.out ", "another limit of the row keeps the rank"),
    (r"convolution\S* \| images \| n.x -> n.(y|out) ", "weight and result have the rank of the image"),
    (r"bmm\S* \| blocks \| n.out -> n.x \[26\]", "a product has the rows of its first factor"),
    (r"mm.default \| tall \| n.out -> n.x \[10\]", "a product has the rows of its first factor"),
    (r"minimum.default \| together \| 1000 -> 1001$", "codes of 16 bits have an even number of bytes"),
    (r"(one_dim|normalized) \| 0 -> -1 ", "another part asks for one item: the first is the last"),
    (r"dims\[0\] == 0 -> .* <= 0 |n.dim != 0 -> n.dim > 0 ", "dimensions are counted from the front"),
    (r"d == n.x.rank - 1 -> d >= |n.dim (<|==) n.\w+.rank - 1 -> .* (!=|>=) ", "no dimension is behind the last"),
    (
        r"square_\w+ \| n.(stride_h -> n.stride_w|kernel_w -> n.kernel_h) \[7\]",
        "another part asks for the same of both",
    ),
    (r"groups == n.in_channels -> n.groups >= ", "there are as many channels as groups at least"),
    (r"in_channels < v -> n.in_channels <= v |shape\[-1\] < 8 -> .* <= 8 |deep_rows \| 8 -> 9 ", "a multiple itself"),
    (r"deep_rows \| 64 -> 65$", "65 is no multiple of 4"),
    (r"deep_rows \| n.x -> n.y ", "rows of the weight are as long as those of the input"),
    (r"line_length \| \[8, 100\] -> \[8, 100, 101\]", "the rule reads the first two"),
    (r"x.scale >= v -> n.x.scale > v ", "no float32 is 0.001"),
    (r"rounding_mode == 'floor' -> .* <= |approximate == 'tanh' -> .* >= ", "of two texts, it comes first, or last"),
)
"""Changes that no program tells from the right rule, by row, constraint and change; and why."""


@dataclass(frozen=True)
class Mutant:
    """One constraint of a row, changed: its check and its limit, or nothing in its place."""

    row: str
    place: int
    text: str
    check: plover.Check | None
    limit: Any

    @property
    def code(self) -> str:
        return plover.ROWS[self.row][self.place][0]

    @property
    def label(self) -> str:
        """The row, the constraint and the change."""
        return f"{self.row} | {self.code} | {self.text}"

    @property
    def equivalent(self) -> bool:
        """Whether a reason is listed why no program tells the change from the rule."""
        return any(re.search(pattern, self.label) for pattern, _ in EQUIVALENT)

    @property
    def backend(self) -> Backend:
        """The right backend with this one change."""
        right, name = plover.PloverPartitioner.rules, plover.MADE.get(self.row, self.row)
        code, _, when = plover.ROWS[self.row][self.place]
        other = () if self.check is None else (plover.checked(code, self.limit, when, self.check),)
        rules = (*right[name][: self.place], *other, *right[name][self.place + 1 :])
        made = type("Changed", (plover.PloverPartitioner,), {"rules": {**right, name: rules}})
        return replace(plover.backend, partitioner=made)


# ------------------------------------------------------------------------------------ changes


def mutants(row: str) -> Iterator[Mutant]:
    """Every change of every constraint of a row, in one fixed order."""
    for place, (code, limit, _) in enumerate(plover.ROWS[row]):
        make = partial(Mutant, row, place)
        yield make("dropped", None, limit)
        yield make("negated", partial(_negated, plover.RULES[code]), limit)
        for text, tree in changed(SOURCES[code]):
            yield make(text, compiled(tree), limit)
        for other in other_limits(limit):
            yield make(f"{limit} -> {other}", plover.RULES[code], other)


def _negated(check: plover.Check, n: Any, v: Any) -> bool:
    return not check(n, v)


def sources() -> dict[str, ast.Lambda]:
    tree = ast.parse(Path(plover.__file__).with_name("rules.py").read_text())
    named = {ast.unparse(node.target): node.value for node in tree.body if isinstance(node, ast.AnnAssign)}
    rules = named["RULES"]
    assert isinstance(rules, ast.Dict)
    found = zip(rules.keys, rules.values, strict=True)
    return {key.value: value for key, value in found}  # type: ignore[union-attr,misc]  # texts, and lambdas


SOURCES = sources()


def compiled(tree: ast.Lambda) -> plover.Check:
    code = compile(ast.fix_missing_locations(ast.Expression(tree)), "mutant", "eval")
    found: plover.Check = eval(code)
    return found


def changed(tree: ast.Lambda) -> Iterator[tuple[str, ast.Lambda]]:
    """What was changed, and the tree with that one change."""
    for index, node in enumerate(ast.walk(tree.body)):
        for change in changes(node):
            whole = copy.deepcopy(tree)
            target = list(ast.walk(whole.body))[index]
            made = change(copy.deepcopy(target))
            put = _Put(target, made)
            whole.body = put.visit(whole.body)
            yield f"{ast.unparse(target)} -> {ast.unparse(made)} [{index}]", whole


class _Put(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else self.generic_visit(node)


def changes(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[op]):
            kinds = COMPARISONS if isinstance(op, COMPARISONS) else ()
            yield from (partial(_set, "ops", [kind()]) for kind in kinds if not isinstance(op, kind))
            if isinstance(op, ast.In):
                yield partial(_set, "ops", [ast.NotIn()])
            if isinstance(node.comparators[0], ast.Tuple):
                yield from (partial(_without_member, i) for i in range(len(node.comparators[0].elts)))
        case ast.BoolOp(op=op, values=values):
            yield partial(_set, "op", ast.And() if isinstance(op, ast.Or) else ast.Or())
            yield from (partial(_without, i) for i in range(len(values)))
        case ast.UnaryOp(op=ast.Not()):
            yield lambda found: found.operand
        case ast.BinOp(op=op):
            yield partial(_set, "op", ARITHMETIC[type(op)]())
            yield from (lambda found: found.left, lambda found: found.right)
        case ast.Constant(value=int(found)) if not isinstance(found, bool):
            yield from (partial(_set, "value", n) for n in sorted({found + 1, found - 1, 2 * found} - {found}))
        case ast.Attribute(attr=name) if name not in ("shape", "rank"):
            yield from (partial(_set, "attr", other) for other in siblings(name))
        case ast.Name(id=name):
            yield from (partial(_set, "id", other) for other in siblings(name))


def _set(name: str, value: object, node: Any) -> Any:
    setattr(node, name, value)
    return node


def _without(index: int, node: Any) -> Any:
    del node.values[index]
    return node if len(node.values) > 1 else node.values[0]


def _without_member(index: int, node: Any) -> Any:
    del node.comparators[0].elts[index]
    return node


def siblings(name: str) -> Iterator[str]:
    for pair in SIBLINGS:
        if name in pair:
            yield pair[1 - pair.index(name)]


def other_limits(limit: Any) -> Iterator[Any]:
    """One more and one less, twice and half; of a list each member left out, and one more member."""
    if type(limit) is int:
        yield from sorted({limit + 1, limit - 1, 2 * limit, limit // 2} - {limit})
    elif type(limit) is float:
        yield from (limit * 2, limit / 2, limit * 1.125, limit * 0.875)
    elif isinstance(limit, list):
        yield from ([*limit[:i], *limit[i + 1 :]] for i in range(len(limit)))
        yield [*limit, max(limit) + 1]
        yield from ([*limit[:i], limit[i] + more, *limit[i + 1 :]] for i in range(len(limit)) for more in (-1, 1))


# ------------------------------------------------------------------------------------ judging


@dataclass(frozen=True)
class Cases:
    """The cases of a row, with their programs."""

    row: Row

    @cached_property
    def programs(self) -> tuple[tuple[Case, ExportedProgram], ...]:
        found = cases_for(replace(TABLE, rows=(self.row,)))
        return tuple((case, prepare(case, plover.backend, TABLE)) for case in found)

    def failing(self, backend: Backend, first: str = "") -> Iterator[str]:
        """The ids of the cases that fail, those of the constraint `first` before the others, with what fails."""
        for case, program in sorted(self.programs, key=lambda each: each[0].constraint != first):
            for node in program.graph.nodes:
                node.meta.pop(DELEGATION_TAG, None)
            found = tag(case, backend, self.row, program)
            yield from (f"{case.id}: {each.message}" for each in tag_failures(case, found.verdict, found.reasons))


def judge(row: Row) -> tuple[list[str], list[Mutant], list[Mutant]]:
    """What fails with the right rules, the changes that something tells, and those that nothing does."""
    cases = Cases(row)
    wrong = list(cases.failing(plover.backend))
    killed, living = list[Mutant](), list[Mutant]()
    for mutant in mutants(row.name):
        dead = next(cases.failing(mutant.backend, mutant.code), None) is not None
        (killed if dead else living).append(mutant)
    return wrong, killed, living


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", help="rows with this in their names")
    parser.add_argument("--list", action="store_true", help="only list the changes")
    given = parser.parse_args()
    rows = [row for row in TABLE.rows if given.k in row.name]
    if given.list:
        print(*(mutant.label for row in rows for mutant in mutants(row.name)), sep="\n")
        return 0
    told = equal = 0
    open_ones, failed = list[Mutant](), list[str]()
    for row in rows:
        start = time.perf_counter()
        wrong, killed, living = judge(row)
        failed += wrong
        survivors = [mutant for mutant in living if not mutant.equivalent]
        told, equal = told + len(killed), equal + len(living) - len(survivors)
        open_ones += survivors
        print(f"{row.name}: {len(killed)} of {len(killed) + len(living)} in {time.perf_counter() - start:.0f} s")
        for line in (*(f"FAILS {text}" for text in wrong), *(f"lives {mutant.label}" for mutant in survivors)):
            print(f"  {line}")
        sys.stdout.flush()
    counts = f"{told} killed, {equal} equivalent, {len(open_ones)} live, {len(failed)} wrong"
    print(f"{len(rows)} rows, {told + equal + len(open_ones)} changes: {counts}")
    return int(bool(open_ones or failed))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
