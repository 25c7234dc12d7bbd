"""The constraints of a table as predicates: the table's own definitions, else the suite's in `definitions.toml`.

A constraint has a definition per kind of rows (`KINDS`), and perhaps another one for an operator. Cases of an
operator that has a domain get their verdicts from these predicates; others are written by hand, and a test compares the
two case by case.
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
CERTAIN = Path(__file__).with_name("certain.toml")
SIDES = ("holds", "broken", "silent")
KINDS = ("static_int8", "floats", "integers")
"""The kinds of rows that docs/constraints.md tells apart, as `definitions.toml` names them."""


@dataclass(frozen=True)
class Defined:
    """A constraint of a row with the predicate that says when it holds."""

    code: str
    value: Any
    predicate: Predicate


@dataclass(frozen=True)
class Certain:
    """What is certain of a constraint: `holds` is needed for it to hold, `broken` is enough for it to be broken.

    Where `silent` is true nothing is said, whatever the definition says.
    """

    holds: Predicate | None = None
    broken: Predicate | None = None
    silent: Predicate | None = None


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


def certain(table: Table, row: Row, code: str) -> Certain:
    """What is certain of a constraint's id in a row beside its definition: nothing of what a table defines itself."""
    if table.own.definition(code) is not None:
        return Certain()
    found = _certain().get((kind_of(row), code), {})
    return found.get(row.name, found.get("", Certain()))


@cache
def definitions() -> Mapping[str, Any]:
    """The suite's definitions by kind and code; under `operators` by operator, under `tables` by table and operator."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@cache
def _certain() -> Mapping[tuple[str, str], Mapping[str, Certain]]:
    """What `certain.toml` says, by kind and code, and within these by operator; "" for all others."""
    found = dict[tuple[str, str], dict[str, Certain]]()
    for kind in KINDS:
        for entry in _certainties()[kind]:
            sure = Certain(*(_parsed(entry[side]) if side in entry else None for side in SIDES))
            found.setdefault((kind, entry["code"]), {}).update(dict.fromkeys(entry.get("operators", [""]), sure))
    return found


def is_certain(table: Table, row: Row) -> bool:
    """Whether all that a row says is certain: its table is one of those, or defines each constraint itself."""
    named = table.name in _certainties()["tables"]
    return named or all(table.own.definition(c.code) is not None for c in (*table.common, *row.constraints))


@cache
def _certainties() -> Mapping[str, Any]:
    return tomllib.loads(CERTAIN.read_text(encoding="utf-8"))


@cache
def _parsed(text: str) -> Predicate:
    return parse_predicate(text)
