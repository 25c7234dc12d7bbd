"""Each finding in an engine is asked of the release by its cases, and the release that its page names fails."""

from __future__ import annotations

import pytest
from engine_runs import results

from npu_assay.conformance.findings import findings

MODULES = {
    "litert": "ai_edge_litert",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "iree": "iree.compiler",
}
ELSEWHERE = ("onnxruntime:qnn-htp",)
"""Engines in an interpreter of their own: `test_qnn_htp` asks them."""
ASKED = [
    (name, spec)
    for name, finding in findings().items()
    if finding.cases
    for spec in finding.releases
    if spec.partition(":")[0] in MODULES and spec not in ELSEWHERE
]


@pytest.mark.parametrize(("name", "spec"), ASKED)
def test_the_release_fails_each_case_of_a_finding(name: str, spec: str) -> None:
    pytest.importorskip(MODULES[spec.partition(":")[0]], reason="the engine is an extra")
    found = results(spec, findings()[name].cases)
    assert {case: one.status for case, one in found.items() if one.status != "fail"} == {}
