"""What a backend takes beyond its table is listed, and judged for its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import any_backend
import pytest
from calling import call

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.run.beyond_table import offers_text
from npu_assay.conformance.table import load_table, read_table

WRONG = """
import any_backend
from npu_assay.partitioners.exir import Backend

class Runtime(any_backend.EveryRuntime):
    def __init__(self):
        super().__init__()
        self.wrong = lambda codes: codes.flatten().flip(0).reshape(codes.shape)

old = any_backend.backend
backend = Backend(old.name, old.table, old.partitioner, old.details, Runtime())
"""


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "any@1.0.toml"
    path.write_text(any_backend.table(["aten.mish.default"], ""))
    return str(path)


def test_a_table_of_offers_promises_nothing() -> None:
    table = load_table("ethos_u55@1.5")
    offered = read_table(offers_text(table).encode(), "offers")
    assert offered.offers
    listed = {(row.name, kind) for row in table.every_row for kind in row.precisions}
    assert not listed & {(row.name, kind) for row in offered.rows for kind in row.precisions}
    assert {"int8", "int16", "integers"} == {kind for row in offered.rows for kind in row.precisions}
    cases = cases_for(offered)
    assert len(cases) > 1000
    assert {case.expect for case in cases} == {"unspecified"}


def test_what_is_taken_is_listed(table: str, tmp_path: Path) -> None:
    result = call(
        "offer", "any_backend:backend", "--table", table, "-k", "cosh or logical_not", "--out", tmp_path / "o"
    )
    assert result.exit_code == 0, result.output
    assert "1 operator offered, by precision; 1 taken, 0 programs wrong" in result.output
    assert "aten.cosh.default" in result.output
    certificate = json.loads((tmp_path / "o" / "certificate.json").read_text())
    assert not certificate["certified"]
    assert "the table promises nothing of these operators" in certificate["objections"]


def test_wrong_numbers_are_told(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong_backend.py").write_text(WRONG)
    monkeypatch.syspath_prepend(str(tmp_path))
    result = call("offer", "wrong_backend:backend", "--table", table, "-k", "cosh", "--out", tmp_path / "o")
    assert result.exit_code == 1, result.output
    assert "  wrong: aten.cosh.default/operator/accept/baseline: [gate" in result.output


def test_cases_are_judged_by_the_table_that_is_named(table: str, tmp_path: Path) -> None:
    """The backend's own is another one, which is not even there."""
    result = call("certify", "any_backend:backend", "--table", table, "--out", tmp_path / "o")
    assert result.exit_code == 0, result.output
    assert "CERTIFIED" in result.output


def test_an_expression_that_fits_nothing_is_one_error(table: str, tmp_path: Path) -> None:
    result = call("offer", "any_backend:backend", "--table", table, "-k", "mish", "--out", tmp_path / "o")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
