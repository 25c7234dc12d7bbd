"""The backend's promises: every case as a test, the tags of every operator as a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import recorded

from npu_assay.conformance.plugin import Target, tags_text
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.results import to_line
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.tagging import prepare, tag
from npu_assay.conformance.table import Row


@pytest.mark.long
def test_case(assay_case: Case, assay_target: Target) -> None:
    result = run_case(assay_case, assay_target.backend, assay_target.table)
    if result.failures:
        messages = [f"{f.message} [{assay_target.backend.name} {assay_case.id}, {f.check}]" for f in result.failures]
        pytest.fail("\n".join(messages), pytrace=False)
    known = recorded.recorded(f"{assay_target.table.name}@{assay_target.table.version}")
    if known is not None and known.get(assay_case.id) != recorded.digest(to_line(result)):
        pytest.fail(f"not the recorded result: {to_line(result)}\n{recorded.UPDATE}", pytrace=False)


def test_tags(assay_row: Row, assay_target: Target, tag_snapshot: Any) -> None:
    backend, table = assay_target.backend, assay_target.table
    cases = assay_target.of(assay_row)
    text = tags_text((case, tag(case, backend, assay_row, prepare(case, backend, table))) for case in cases)
    assert text == tag_snapshot


def test_every_snapshot_belongs_to_an_operator(assay_target: Target, pytestconfig: pytest.Config) -> None:
    folder = Path(pytestconfig.rootpath) / assay_target.folder
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    orphans = sorted(found - {f"{row.name}.txt" for row in assay_target.table.every_row} - {recorded.NAME})
    assert not orphans, f"{folder}: {orphans} belong to no operator; delete them"


def test_every_folder_of_snapshots_belongs_to_a_table(assay_target: Target, pytestconfig: pytest.Config) -> None:
    golden = Path(pytestconfig.rootpath) / "golden"
    tables = {path.stem for path in (Path(pytestconfig.rootpath) / "conformance" / "tables").glob("*.toml")}
    orphans = sorted(path.name for path in golden.iterdir() if path.name not in tables)
    assert not orphans, f"{golden}: {orphans} belong to no table; delete them"
