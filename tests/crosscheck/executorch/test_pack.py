"""Each finding in ExecuTorch is asked of the release by its cases, and the release that its page names fails."""

from __future__ import annotations

import pytest
from engine_runs import results

from npu_assay.conformance.findings import findings

ASKED = [(name, spec) for name, finding in findings().items() if finding.cases for spec in finding.releases]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "spec"), [pair for pair in ASKED if pair[1].startswith("executorch:")])
def test_the_release_fails_each_case_of_a_finding(name: str, spec: str) -> None:
    found = results(spec, findings()[name].cases)
    assert {case: one.status for case, one in found.items() if one.status != "fail"} == {}
