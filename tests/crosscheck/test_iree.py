"""IREE as a backend: plain operators pass, and what has no form is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_runs import baselines, checks, results
from page_scripts import scripts, shows

pytest.importorskip("iree.compiler", reason="the engine is the extra `iree`")
pytest.importorskip("iree.runtime", reason="the engine is the extra `iree`")
SPEC = "iree:cpu"


def test_plain_operators_pass() -> None:
    found = results(SPEC, [case.id for case in baselines(SPEC)])
    assert len(found) > 5 and {name: checks(one) for name, one in found.items() if one.status != "pass"} == {}


def test_what_has_no_form_is_refused() -> None:
    name = "aten.avg_pool2d.default/divisor_override/outside/divisor_override_3"
    found = results(SPEC, [name])[name]
    assert (found.verdict, found.status) == ("reject", "pass")
    assert found.reasons is not None and {reason.code for reason in found.reasons} == {"divisor_override"}


def test_the_finding_shows(tmp_path: Path) -> None:
    (script,) = scripts("iree-cpu-3.13.0.md")
    assert shows(script, tmp_path)
