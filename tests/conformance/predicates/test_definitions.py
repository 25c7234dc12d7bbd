"""The suite's constraints as predicates agree with the verdicts of every case of the shipped tables."""

from __future__ import annotations

import pytest

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.covering.looks import looks
from npu_assay.conformance.predicates.definitions import KINDS, definition, definitions, kind_of
from npu_assay.conformance.predicates.grammar import parse_predicate
from npu_assay.conformance.table import load_table

TABLES = ("neutron@1.3", "neutron@1.4", "xnnpack@1.5", "ethos_u55@1.5", "ethos_u85@1.5")
UNDEFINED = {"configs", "precision", "rescale", "table_slope", "transposition"}
"""Options and arithmetic of vendors, and transpositions: no predicate over features says when these hold."""


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_predicates_agree_with_every_verdict(name: str) -> None:
    table = load_table(name)
    found = list(looks(table, cases_for(table)))
    assert {look.case.id: look.disagreements for look in found if look.disagreements} == {}
    shown = {code for look in found if look.case.expect == "reject" for code in look.truths}
    assert len(found) > 3000 and len(shown) > 25


@pytest.mark.parametrize("name", TABLES)
def test_every_other_constraint_is_defined(name: str) -> None:
    table = load_table(name)
    missing = {
        c.code for row in table.rows for c in (*table.common, *row.constraints) if not definition(table, row, c.code)
    }
    assert missing <= UNDEFINED


def test_definitions_can_be_read_and_are_used() -> None:
    assert tuple(definitions()) == KINDS
    used = dict[str, set[str]]()
    for table in map(load_table, TABLES):
        for row in table.rows:
            used.setdefault(kind_of(row), set()).update(c.code for c in (*table.common, *row.constraints))
    for kind, meanings in definitions().items():
        codes = {code for code in meanings if code not in ("operators", "tables")}
        assert codes <= used[kind], sorted(codes - used[kind])
        for text in (meanings[code] for code in codes):
            assert parse_predicate(text).atoms
