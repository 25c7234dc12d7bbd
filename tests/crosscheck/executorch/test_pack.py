"""Each finding in ExecuTorch is asked of the release by its cases, and the release that its page names fails.

Of ExecuTorch 1.5.1 and 1.3.1 each environment has one, and asks for the findings in it.
"""

from __future__ import annotations

from importlib.metadata import version

import pytest

pytest.importorskip("executorch", reason="the adapter needs the extra `executorch`")

from engine_runs import named, results

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.findings import findings
from npu_assay.conformance.table import load_table

ASKED = [
    (name, spec)
    for name, finding in findings().items()
    if finding.cases
    for spec in finding.releases
    if spec.startswith("executorch:") and finding.shown_by(spec, version("executorch"))
]


def test_findings_are_asked_for() -> None:
    assert ASKED


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "spec"), ASKED)
def test_the_release_fails_each_case_of_a_finding(name: str, spec: str) -> None:
    table = load_table(load_backend(spec).table)
    found = results(spec, named(table, findings()[name].cases))
    assert found
    assert {case: one.status for case, one in found.items() if one.status != "fail"} == {}
