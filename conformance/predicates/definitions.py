"""The constraints of a table as predicates: the table's own definitions, else the suite's in `definitions.toml`.

A constraint has a definition per kind of rows (`KINDS`), and perhaps another one for an operator. The suite's cases are
written by hand, not generated from these predicates; a test compares the two case by case.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from npu_assay.conformance.predicates.grammar import Predicate, parse_predicate
from npu_assay.conformance.table import INTEGER_PRECISIONS, Row, Table
from npu_assay.conformance.table.constraints import Constraint

FILE = Path(__file__).with_name("definitions.toml")
KINDS = ("static_int8", "floats", "integers")
"""The kinds of rows that docs/constraints.md tells apart, as `definitions.toml` names them."""


@dataclass(frozen=True)
class Defined:
    """A constraint of a row with the predicate that says when it holds."""

    code: str
    value: Any
    predicate: Predicate


def kind_of(row: Row) -> str:
    """The kind of a row, by the precisions that it lists."""
    if not row.precisions:
        return "static_int8"
    return "integers" if set(row.precisions) & set(INTEGER_PRECISIONS) else "floats"


def held(table: Table, row: Row, precision: str | None) -> tuple[Constraint, ...]:
    """The constraints of a row in one of its precisions, the common ones first."""
    return tuple(c for c in (*table.common, *row.constraints) if c.holds_for(precision))


def defined(table: Table, row: Row, precision: str | None) -> tuple[Defined, ...]:
    """The row's constraints that have a predicate, in the table's order."""
    found = ((c, definition(table, row, c.code)) for c in held(table, row, precision))
    return tuple(Defined(c.code, c.value, predicate) for c, predicate in found if predicate is not None)


def definition(table: Table, row: Row, code: str) -> Predicate | None:
    """The predicate of a constraint's id in a row; None where it has no definition."""
    own = table.own.definition(code)
    if own is not None:
        return own.holds
    kind = definitions()[kind_of(row)]
    own_table = kind.get("tables", {}).get(table.name, {})
    for meanings in (own_table.get(row.name, {}), kind.get("operators", {}).get(row.name, {}), kind):
        if code in meanings:
            return _parsed(meanings[code])
    return None


@cache
def definitions() -> Mapping[str, Any]:
    """The suite's definitions by kind and code; under `operators` by operator, under `tables` by table and operator."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@cache
def _parsed(text: str) -> Predicate:
    return parse_predicate(text)
