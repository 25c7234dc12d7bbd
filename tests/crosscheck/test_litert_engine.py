"""LiteRT as a backend: the TFLite form gives the exact codes on its reference kernels, and faults in it are noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from engine_runs import baselines, checks, results
from page_scripts import scripts, shows

from npu_assay.conformance.interchange import tflite_form, tflite_images
from npu_assay.conformance.interchange.tflite_rules import RULES, Rule
from npu_assay.conformance.interchange.tflite_writer import Site

pytest.importorskip("ai_edge_litert", reason="the engine is the extra `litert`")
ADD, CONVOLUTION = "aten.add.Tensor", "aten.convolution.default"


@pytest.mark.parametrize("spec", ["litert:reference", "litert:xnnpack"])
def test_every_plain_operator_passes(spec: str) -> None:
    """On the reference kernels all codes are the scheme's own; the default interpreter is judged as reals."""
    leaky = "aten.leaky_relu.default/operator/accept/baseline"  # XNNPACK's slope has 8 bits: docs/reports
    ids = [case.id for case in baselines(spec) if spec.endswith("reference") or case.id != leaky]
    found = results(spec, ids)
    assert len(found) > 20
    assert {name: checks(one) for name, one in found.items() if (one.verdict, one.status) != ("accept", "pass")} == {}


REFUSED = {
    "aten.abs.default/quantized/outside/float_output": "quantized",
    "aten._adaptive_avg_pool2d.default/same_qparams/outside/scale_doubled": "same_qparams",
    "aten.prelu.default/static_weights/outside/slopes_zero_point_1": "static_weights",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_specification_restricts_is_refused_for_that_reason(name: str) -> None:
    found = results("litert:reference", [name])[name]
    assert (found.verdict, found.status) == ("reject", "pass")
    assert found.reasons is not None and {reason.code for reason in found.reasons} == {REFUSED[name]}


# ------------------------------------------------------------------------------------ faults in the form


def _turned(rule: Rule) -> Rule:
    """Height and width are exchanged on the way to channels last."""

    def wrong(s: Site) -> None:
        with patch.object(tflite_images, "TO_NHWC", (0, 3, 2, 1)):
            rule(s)

    return wrong


def _subtracts(rule: Rule) -> Rule:
    return lambda s: s.done("SUB", s.x(), s.x("other"))


@pytest.mark.parametrize(("operator", "fault"), [(CONVOLUTION, _turned), (ADD, _subtracts)])
def test_a_fault_of_the_form_is_noticed(operator: str, fault: Callable[[Rule], Rule]) -> None:
    name = f"{operator}/operator/accept/baseline"
    with patch.object(tflite_form, "RULES", {**RULES, operator: fault(RULES[operator])}):
        found = results("litert:reference", [name])[name]
    assert found.status == "fail"


@pytest.mark.parametrize("index", range(3))
def test_the_findings_show(index: int, tmp_path: Path) -> None:
    found = scripts("litert-2.3.0.md")
    assert len(found) == 3
    assert shows(found[index], tmp_path)
