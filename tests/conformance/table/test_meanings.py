"""docs/constraints.md says what the cases do."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from places import ROOT

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.limits import LimitError
from npu_assay.conformance.table import FOLDER, load_table
from npu_assay.conformance.table.constraints import Constraint
from npu_assay.conformance.table.meanings import KINDS, notes, uses

PAGE = ROOT / "docs" / "constraints.md"
TABLES = [path.stem for path in FOLDER.glob("*.toml")]


def test_the_page_is_what_the_command_prints() -> None:
    command = [sys.executable, "-m", "npu_assay.conformance.table.meanings"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert PAGE.read_text(encoding="utf-8") == printed


def test_every_constraint_of_every_table_has_a_section() -> None:
    sections = re.findall(r"^## (\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == sorted(set(sections)) == sorted({*uses(), *notes()})
    tables = [load_table(name) for name in TABLES]
    said = {rule.code for table in tables for rule in table.own.definitions}  # by the table itself
    assert {code for table in tables for code, _ in table.meanings} - said <= set(sections)
    assert {name for names in KINDS.values() for name in names} <= set(TABLES)


@pytest.mark.long
def test_values_are_those_that_the_cases_expect() -> None:
    (found,) = uses()["kernel_height"]
    assert found.values == ("any that its predicate compares", "a whole number from 1 to 256")
    assert uses()["channel_dim"][0].values == ()


def test_notes_are_about_constraints_that_cases_know() -> None:
    """All but one are of a shipped table; cases of convolutions know that one."""
    assert set(notes()) - set(uses()) == {"unfused"}
    neutron = load_table("neutron@1.3")
    row = neutron.row("aten.convolution.default")
    table = replace(neutron, rows=(replace(row, constraints=(*row.constraints, Constraint("unfused", None, "x"))),))
    assert any(case.reason == "unfused" for case in cases_for(table))


def test_the_error_about_an_unknown_constraint_names_the_page() -> None:
    neutron = load_table("neutron@1.3")
    row = replace(neutron.row("aten.abs.default"), constraints=(Constraint("speed", None, "x"),))
    with pytest.raises(LimitError, match=r"no cases of this row for 'speed'; .*docs/constraints\.md"):
        cases_for(replace(neutron, rows=(row,)))
