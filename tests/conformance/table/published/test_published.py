"""The Ethos-U tables and what Arm publishes: every row of the document, and what stands here beyond it.

`conformance/tables/documents` holds the published tables' names and quantizations, one file for each.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import pytest
from places import ROOT

from npu_assay.conformance.common.schema import DOCUMENT
from npu_assay.conformance.table import FOLDER, Row, Table, load_table

PAIRS = (("ethos_u55@1.5", "ethos_u55@1.4"), ("ethos_u85@1.5", "ethos_u85@1.4"))
COUNTS = {
    # rows of the document; of these promised here, refused and rewritten; promised rows that it does not list
    "ethos_u55@1.5": (109, 63, 21, 25, 33),
    "ethos_u85@1.5": (128, 98, 1, 29, 30),
}
CELLS = {"8x8": {"int8"}, "16x8 / 8x8": {"int8", "int16"}}
"""What a cell of the column "Quantization" promises."""


def published(name: str) -> Mapping[str, Any]:
    data: Mapping[str, Any] = tomllib.loads((FOLDER / "documents" / f"{name}.toml").read_text())
    return data


def printed(row: Row) -> str:
    """The document's name of a row's operator: without its namespace."""
    return row.documented_as or row.name.partition(".")[2]


def listed(table: Table) -> list[tuple[str, str]]:
    """Each row that the table takes from the document, as printed there."""
    rows = [(printed(row), row.document) for row in table.every_row if row.source == DOCUMENT]
    return rows + [(one.name, one.document) for one in table.rewritten]


@pytest.mark.parametrize(("name", "document"), PAIRS)
def test_every_row_of_the_document_stands_in_the_table_as_printed(name: str, document: str) -> None:
    assert sorted(listed(load_table(name))) == sorted(published(document)["operators"].items())


@pytest.mark.parametrize(("name", "document"), PAIRS)
def test_every_row_beyond_the_document_says_where_it_is_from(name: str, document: str) -> None:
    known = published(document)["operators"]
    for row in load_table(name).rows:
        if row.source != DOCUMENT:
            assert (row.source, row.document) == ("1.5.1", ""), row.name
            assert printed(row) not in known
            assert set(row.precision_sources) == {row.source}


@pytest.mark.parametrize(("name", "document"), PAIRS)
def test_precisions_are_the_documents_where_they_do_not_say_otherwise(name: str, document: str) -> None:
    for row in load_table(name).rows:
        if row.source == DOCUMENT and row.precisions != ("integers",):
            promised = {p.removesuffix("_per_channel") for p in row.precisions if row.source_of(p) == DOCUMENT}
            assert promised == CELLS[row.document], row.name
            assert {row.source_of(p) for p in row.precisions} <= {DOCUMENT, "1.5.1"}


@pytest.mark.parametrize(("name", "document"), PAIRS)
def test_the_numbers_of_rows(name: str, document: str) -> None:
    table = load_table(name)
    beyond = sum(row.source != DOCUMENT for row in table.rows)
    both = len(table.rows) - beyond
    counts = (len(published(document)["operators"]), both, len(table.refused), len(table.rewritten), beyond)
    assert counts == COUNTS[name]
    assert sum(counts[1:4]) == counts[0]


def test_the_numbers_are_those_of_the_decisions() -> None:
    text = (ROOT / "docs" / "decisions.md").read_text()
    lines = text.partition("| | Ethos-U55 | Ethos-U85 |")[2].splitlines()[2:7]
    stated = [tuple(int(cell) for cell in line.strip("|").split("|")[1:]) for line in lines]
    assert stated == list(zip(*COUNTS.values(), strict=True))


@pytest.mark.parametrize(("name", "document"), PAIRS)
def test_the_document_states_one_compute_type(name: str, document: str) -> None:
    """It is what the constraints of the table's every row come from."""
    data = published(document)
    assert data["compute_dtype"] == "Static integer quantization"
    common = {constraint.code for constraint in load_table(name).common if constraint.source == DOCUMENT}
    assert common == {"quantized_inputs", "quantized_outputs", "additional_check"}


@pytest.mark.parametrize(("name", "document"), PAIRS)
def test_rows_state_no_other_condition_from_the_document(name: str, document: str) -> None:
    """Its only columns are the types of activations and weights."""
    codes = {c.code for row in load_table(name).rows for c in row.constraints if c.source == DOCUMENT}
    assert codes <= {"weight_dtype", "code_dtype"}
