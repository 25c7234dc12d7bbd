"""ExecuTorch's passes give the same with and without what spares them work."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

pytest.importorskip("executorch", reason="the adapter needs the extra `executorch`")

from npu_assay.conformance.adapters.executorch import delegation
from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.record.results import CaseResult
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table

ROWS = ("aten.conv2d.default", "aten.linear.default", "aten.add.Tensor", "aten.cat.default")


def _compiled() -> list[CaseResult]:
    backend, table = load_backend("executorch:xnnpack"), load_table("xnnpack@1.5")
    cases = [case for case in all_cases(table) if case.row in ROWS and case.expect == "accept"]
    firsts = {(case.row, case.precision): case for case in reversed(cases)}
    return [run_case(case, backend, table, level="compiles") for case in firsts.values()]


@pytest.mark.long
def test_tags_and_blobs_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _compiled()
    monkeypatch.setattr(delegation, "lighter", nullcontext)
    assert found == _compiled()
    assert len(found) > 10 and {result.row for result in found} == {*ROWS} and all(result.blobs for result in found)
