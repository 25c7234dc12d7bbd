"""The rules of the support checks are the constraints of the tables, and no others."""

from __future__ import annotations

import pytest
from neutron_supported import REJECTED

from npu_assay.conformance.table import Row, load_table
from npu_assay.partitioners.neutron.operators import operators
from npu_assay.partitioners.neutron.releases import RELEASES
from npu_assay.partitioners.neutron.support.common import UNFUSABLE
from npu_assay.partitioners.neutron.support.division import DIVISION_RULES
from npu_assay.partitioners.neutron.support.rules import RULES_OF
from npu_assay.partitioners.neutron.support.stage import DATA_ONLY, NEUTRAL
from npu_assay.partitioners.neutron.support.weights import LINEAR

# ------------------------------------------------------------------------------------ the table

# Reasons that no row lists: the operator is not one of the table, or the user excluded it.
OUTSIDE_THE_TABLE = {"unsupported", "excluded"}
TABLES = {release: load_table(f"neutron@{release}") for release in RELEASES}
COMMON = {constraint.code for table in TABLES.values() for constraint in table.common}
LISTED = [(release, row) for release, table in TABLES.items() for row in table.rows]


def named(part: Row | str) -> str:
    return part.name if isinstance(part, Row) else part


def implemented(op: str, release: str) -> set[str]:
    """The codes that the partitioner can give for an operator in a release, besides the common ones."""
    row, rules = operators(release).get(op), RULES_OF[release].get(op, ())
    codes = {rule.code for rule in (*rules, *(DIVISION_RULES if op == "aten.div.Tensor" else ()))}
    codes |= {rule.code for rule in row.stage} if row is not None else set()
    codes |= {"rescale"} if row is not None and row.problem is not None else set()
    codes |= {"not_alone"} if op in DATA_ONLY | NEUTRAL.keys() else set()
    codes |= {"fused_activation"} if op in LINEAR | UNFUSABLE else set()
    return codes - COMMON


@pytest.mark.parametrize(("release", "row"), LISTED, ids=named)
def test_every_constraint_of_a_row_has_a_rule(release: str, row: Row) -> None:
    listed = {constraint.code for constraint in row.constraints}
    assert listed <= implemented(row.operator, release) | implemented(row.rewritten_to or row.operator, release)


@pytest.mark.parametrize(("release", "row"), [each for each in LISTED if each[1].rewritten_to is None], ids=named)
def test_every_rule_is_a_constraint_of_its_row(release: str, row: Row) -> None:
    assert implemented(row.operator, release) == {constraint.code for constraint in row.constraints}


def test_all_reasons_of_these_tests_are_known() -> None:
    known = {code for code, _ in TABLES["1.3"].meanings} | OUTSIDE_THE_TABLE
    assert {code for _, code, _ in REJECTED.values()} <= known
