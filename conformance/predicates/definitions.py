"""What the constraints of a table mean, as predicates: its own definitions, and else the suite's of `definitions.toml`.

A code means something to a kind of rows (`KINDS`), and something else perhaps to one operator of them. The
predicates say what the cases were written from, and a test compares the two case by case; none of the suite's codes
has its cases made from them.
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
    """The kind of a row, by the number types that it lists."""
    if not row.precisions:
        return "static_int8"
    return "integers" if set(row.precisions) & set(INTEGER_PRECISIONS) else "floats"


def held(table: Table, row: Row, precision: str | None) -> tuple[Constraint, ...]:
    """The constraints of a row in one of its number types, the common ones first."""
    return tuple(c for c in (*table.common, *row.constraints) if c.holds_for(precision))


def defined(table: Table, row: Row, precision: str | None) -> tuple[Defined, ...]:
    """Those of the row's constraints that a predicate says, in the table's order."""
    found = ((c, definition(table, row, c.code)) for c in held(table, row, precision))
    return tuple(Defined(c.code, c.value, predicate) for c, predicate in found if predicate is not None)


def definition(table: Table, row: Row, code: str) -> Predicate | None:
    """What a code means in a row; None where no predicate says it."""
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
