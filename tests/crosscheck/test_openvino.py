"""OpenVINO as a backend: plain operators pass, what has no form is refused, and every finding of its page shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_runs import baselines, checks, results
from page_scripts import scripts, shows

pytest.importorskip("openvino", reason="the engine is the extra `openvino`")
SPEC, PAGE = "openvino:cpu", "openvino-cpu-2026.4.1.md"
CLIPS = ("aten.clamp.default", "aten.hardtanh.default")
"""Rows whose plain case meets finding 3."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", range(8))
def test_plain_operators_pass(part: int) -> None:
    found = results(SPEC, [case.id for case in baselines(SPEC)[part::8] if case.row not in CLIPS])
    assert found and {name: checks(one) for name, one in found.items() if one.status != "pass"} == {}


def test_what_has_no_form_is_refused() -> None:
    name = "aten.avg_pool2d.default/divisor_override/outside/divisor_override_3"
    found = results(SPEC, [name])[name]
    assert (found.verdict, found.status) == ("reject", "pass")
    assert found.reasons is not None and {reason.code for reason in found.reasons} == {"divisor_override"}


def test_a_finding_is_a_failure_of_its_case() -> None:
    """Wrong numbers are not taken for right ones."""
    found = results(SPEC, ["aten.clamp.default/operator/accept/baseline"])
    assert [one.status for one in found.values()] == ["fail"]


@pytest.mark.parametrize("index", range(5))
def test_the_findings_show(index: int, tmp_path: Path) -> None:
    found = scripts(PAGE)
    assert len(found) == 5
    assert shows(found[index], tmp_path)
