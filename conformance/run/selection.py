"""Which cases to run: `-k` expressions over operators and case ids, and the smoke subset."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from npu_assay.conformance.cases import NoCasesError, beside, cases_for, every_operator, operators
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.memory import keep
from npu_assay.conformance.findings import regression
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.programs.variation_names import NONE, is_variation
from npu_assay.conformance.table import Table
from npu_assay.conformance.table.operator_names import called, names_of, nearest_operators

Predicate = Callable[[str], bool]

_TOKEN = re.compile(r"[()]|[^\s()]+")
MOST_NESTED = 100  # of 'not' and '(' within each other
_WORDS = {"and", "or", "not", "(", ")"}
CLOSEST = 3  # names that a message lists for a word
ALIKE = 0.7  # of a word and a name, as difflib counts it


class SelectionError(UsageError):
    """A `-k` expression that cannot be read, or a table without cases; the message says what was expected."""


def all_cases(table: Table) -> tuple[Case, ...]:
    """Every case of a table.

    Raises SelectionError for an operator that the suite does not know or has no cases for, LimitError for a
    constraint or a value.
    """
    try:
        cases = cases_for(table)
    except NoCasesError as error:
        name = error.args[0]
        row = table.row(name)
        kinds = f" in {', '.join(row.precisions)}" if row.precisions else ""
        raise SelectionError(
            f"{table.file}: the suite has no cases for {name!r}{kinds}{nearest_operators(name, operators(row))}"
        ) from error
    _check_spellings(table, cases)
    return cases


@keep(1)
def cases_of_run(table: Table) -> tuple[Case, ...]:
    """As `all_cases`, and kept for the last table: one run asks for its cases several times."""
    return all_cases(table)


def cases_of(table: Table, *rows: str) -> tuple[Case, ...]:
    """The cases of the rows of these names; empty when the table has none of them. Raises as `all_cases`.

    Rows have their cases without regard to each other, so those of the others need not be made.
    """
    part = replace(
        table,
        rows=tuple(each for each in table.rows if each.name in rows),
        refused=tuple(each for each in table.refused if each.name in rows),
    )
    return all_cases(part) if part.every_row else ()


def cases_near(table: Table, expression: str | None) -> tuple[Case, ...]:
    """The cases in which an expression finds what it finds in all.

    Of a case's whole id these are the cases of its row, and of words joined by `and` those of the operators among them.
    """
    cases = cases_of(table, (expression or "").partition("/")[0])
    if any(case.id == expression for case in cases):
        return cases
    rows = _rows_of(expression or "", [row.name for row in table.every_row])
    cases = cases_of(table, *rows)
    return cases if rows and {case.row for case in cases} == rows else all_cases(table)


def _rows_of(expression: str, rows: Sequence[str]) -> set[str]:
    """Every row that words of an expression name, if one of them has all that it matches; else none."""
    words = _TOKEN.findall(expression)
    if any(word in _WORDS for word in words if word != "and"):
        return set()
    return {row for word in words for row in called(word, rows)}


def _check_spellings(table: Table, cases: Iterable[Case]) -> None:
    """What a row calls its operator in programs is a name that the suite has: else no node would be found by it."""
    spelled = [
        (row.name, key, name)
        for row in table.rows
        for key, name in (("operator", row.operator), ("rewritten_to", row.rewritten_to))
        if name not in (None, row.name)
    ]
    if not spelled:
        return
    known = every_operator() | {step.op for case in cases for step in case.graph.steps}
    for row, key, name in spelled:
        if name not in known:
            like = nearest_operators(str(name), known)
            raise SelectionError(f"{table.file}: {row}: {key}: unknown operator {name!r}{like}")


def select(cases: Iterable[Case], expression: str) -> tuple[Case, ...]:
    """The cases whose id matches. An expression that is a case's whole id selects that case alone.

    A word that is the name of an operator in the cases, as `called` knows them, stands for that operator's cases.
    """
    cases = tuple(cases)
    exact = tuple(case for case in cases if case.id == expression)
    if exact:
        return exact
    matches = compile_expression(expression, dict.fromkeys(case.row for case in cases))
    return tuple(case for case in cases if matches(case.id))


def with_variations(table: Table, cases: Sequence[Case], how: str, expression: str | None = None) -> Sequence[Case]:
    """The cases of a table, and as many variations as one of `HOW` says, of the rows that an expression selects."""
    if how == NONE or any(case.id == expression for case in cases):
        return cases
    from npu_assay.conformance.cases.variations import variations  # it asks torch for sizes

    every = (*cases, *beside(table))
    rows = {case.row for case in ((select(every, expression) if expression else ()) or every)}
    return (*every, *variations([case for case in every if case.row in rows], how, table))


def of_findings(table: Table, expression: str | None, cases: Sequence[Case]) -> Iterator[Case]:
    """The variations that show findings which an expression names, however much of all variations is asked."""
    known = {case.id for case in cases}
    named = (regression(word) or frozenset() for word in _TOKEN.findall(expression or ""))
    for name in sorted(set().union(*named)):
        if is_variation(name) and name not in known:
            yield from named_variation(table, name, cases)


def named_variation(table: Table, name: str, cases: Iterable[Case]) -> tuple[Case, ...]:
    """The variation of this id, or none."""
    from npu_assay.conformance.cases.variations import variation  # as above

    try:
        return (variation(name, {case.id: case for case in (*cases, *beside(table))}, table),)
    except KeyError:
        return ()


def none_selected(asked: str, cases: Sequence[Case], expression: str | None = None) -> SelectionError:
    """The error of a selection that matches none of a table's cases, with the names nearest to its `expression`."""
    near = nearest_names(expression or "", cases)
    told = f"; nearest: {', '.join(near)}" if near else f", which look like {cases[0].id}"
    return SelectionError(f"{asked}: matches none of {len(cases)} case ids{told}")


def nearest_names(expression: str, cases: Sequence[Case]) -> tuple[str, ...]:
    """The case ids, operators and constraints that are closest to the words of an expression that match no case.

    Empty where nothing is close.
    """
    rows = dict.fromkeys(case.row for case in cases)
    words = [word for word in _TOKEN.findall(expression) if word not in _WORDS]
    unknown = [word for word in words if not called(word, rows) and not _is_in_an_id(word, cases)]
    return tuple(dict.fromkeys(name for word in unknown for name in _nearest(word, rows, cases)))


def _is_in_an_id(word: str, cases: Iterable[Case]) -> bool:
    return any(word.lower() in case.id.lower() for case in cases)


def _nearest(word: str, rows: Iterable[str], cases: Iterable[Case]) -> list[str]:
    """The names closest to a word: case ids, or their parts after the operator, if it has a slash; else others."""
    row, slash, rest = word.partition("/")
    if not slash:
        names = {name.lstrip("_") for each in rows for name in names_of(each)} | {case.constraint for case in cases}
        return _close(word, names)
    operators = called(row, rows) or tuple(_close(row, rows)[:1])
    if operators:
        ids = {case.id.partition("/")[2]: case.id for case in cases if case.row in operators}
        return [ids[name] for name in _close(rest, ids)]
    return _close(word, {case.id.partition("/")[2] for case in cases})


def _close(word: str, names: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(word, sorted(names), CLOSEST, ALIKE)


def random_program(cases: Sequence[Case], name: str) -> Case:
    """The random program of a name, drawn from a table's cases. Raises SelectionError when there is none."""
    from npu_assay.conformance.fuzz.programs import Programs  # loads torch

    try:
        return Programs(cases).case(name)
    except ValueError as error:
        raise SelectionError(f"-k {error}") from error


def smoke(cases: Iterable[Case]) -> tuple[Case, ...]:
    """The first cases of every operator and of every constraint, one for each expectation: certifies nothing."""
    cases = tuple(cases)
    first: dict[tuple[str, str, str], str] = {}
    for case in cases:
        first.setdefault(("operator", case.row, case.expect), case.id)
        first.setdefault(("constraint", case.constraint, case.expect), case.id)
    chosen = set(first.values())
    return tuple(case for case in cases if case.id in chosen)


def compile_expression(expression: str, operators: Iterable[str] = ()) -> Predicate:
    """`and`, `or`, `not`, parentheses, names of `operators`, `regression`, and parts of ids, without regard to case."""
    parser = _Parser(expression, _TOKEN.findall(expression), tuple(operators))
    predicate = parser.alternatives()
    if parser.peek() is not None:
        raise parser.error("'and', 'or' or the end")
    return predicate


class _Parser:
    """Recursive descent; each method reads one rule of the grammar and returns its predicate."""

    def __init__(self, text: str, tokens: Sequence[str], operators: Sequence[str]) -> None:
        self._text = text
        self._operators = operators
        self._tokens: Iterator[str] = iter(tokens)
        self._next = next(self._tokens, None)
        self._nested = 0

    def peek(self) -> str | None:
        return self._next

    def error(self, expected: str) -> SelectionError:
        found = "the end" if self._next is None else repr(self._next)
        return SelectionError(f"-k {self._text!r}: found {found}, expected {expected}")

    def _take(self, token: str) -> bool:
        if self._next != token:
            return False
        self._next = next(self._tokens, None)
        return True

    def alternatives(self) -> Predicate:
        parts = [self._conjunction()]
        while self._take("or"):
            parts.append(self._conjunction())
        return lambda text: any(part(text) for part in parts)

    def _conjunction(self) -> Predicate:
        parts = [self._negation()]
        while self._take("and"):
            parts.append(self._negation())
        return lambda text: all(part(text) for part in parts)

    def _negation(self) -> Predicate:
        self._nested += 1
        if self._nested > MOST_NESTED:
            raise SelectionError(
                f"-k {self._text[:40]!r}...: found more than {MOST_NESTED} 'not' and '(' inside others"
            )
        predicate = self._operand()
        self._nested -= 1
        return predicate

    def _operand(self) -> Predicate:
        if self._take("not"):
            inner = self._negation()
            return lambda text: not inner(text)
        if self._take("("):
            group = self.alternatives()
            if not self._take(")"):
                raise self.error("')'")
            return group
        return self._word()

    def _word(self) -> Predicate:
        word = self._next
        if word is None or word in _WORDS:
            raise self.error("part of a case id, 'not' or '('")
        self._next = next(self._tokens, None)
        pack = regression(word)
        if pack is not None:
            return lambda text: text in pack
        rows = called(word, self._operators)
        return lambda text: text.partition("/")[0] in rows if rows else word.lower() in text.lower()
