"""Every case of the table as a test, and the tags of every operator as a snapshot."""

from typing import Any

import pytest

from npu_assay.conformance.plugin import Target, tags_text
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.tagging import prepare, tag
from npu_assay.conformance.table import Row


def test_case(assay_case: Case, assay_target: Target) -> None:
    result = run_case(assay_case, assay_target.backend, assay_target.table)
    if result.failures:
        pytest.fail("\n".join(f"{f.message} [{f.check}]" for f in result.failures), pytrace=False)


def test_tags(assay_row: Row, assay_target: Target, tag_snapshot: Any) -> None:
    backend, table = assay_target.backend, assay_target.table
    cases = assay_target.of(assay_row)
    assert (
        tags_text((case, tag(case, backend, assay_row, prepare(case, backend, table))) for case in cases)
        == tag_snapshot
    )
