"""Broken copies of the Neutron backend do not certify, and their results say what is wrong and where."""

from __future__ import annotations

from functools import cache

import pytest

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.record.results import CaseResult, Number
from npu_assay.conformance.report.findings import find
from npu_assay.conformance.run.execution import Job, run_chunk
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.neutron import backend as neutron
from npu_assay.partitioners.neutron.support import rules

TABLE = "neutron@1.3"
GATES = ("gate1", "gate2", "gate3", "gate4")


@cache
def results(backend: str, *rows: str) -> tuple[CaseResult, ...]:
    ids = tuple(case.id for case in cases_for(load_table(TABLE)) if case.row in rows)
    return tuple(run_chunk(Job(f"npu_assay.faults.neutron:{backend}", TABLE), ids))


def failures(backend: str, *rows: str) -> list[tuple[CaseResult, str, str]]:
    return [(r, f.check, f.message) for r in results(backend, *rows) for f in r.failures]


def test_a_wrong_multiple_is_named_by_its_constraint() -> None:
    """%8 became %4: cases one step past the limit are accepted; the constraint names itself."""
    found = failures("multiple_of_4", "aten.mean.dim")
    assert found
    assert {(r.constraint, check) for r, check, _ in found} == {("channels_multiple_of", "tag")}
    assert all("accept, expected reject" in message for _, _, message in found)
    assert {r.case for r, _, _ in found} == {
        r.case for r in results("multiple_of_4", "aten.mean.dim") if r.status == "fail"
    }


@pytest.mark.long
def test_another_rounding_is_one_step_off_in_some_outputs() -> None:
    """Single instead of double rounding: tags are right, codes differ by exactly one."""
    found = failures("half_up", "aten.convolution.default")
    assert {check for _, check, _ in found} >= {"gate1"}
    assert "tag" not in {check for _, check, _ in found}
    first, later = set[Number](), set[str]()
    for result, check, message in found:
        if check == "gate1" and "inputs, which were drawn" not in message:
            first.add(result.metrics["max_lsb"])
        elif check == "gate1":
            later.add(f"{result.metrics['max_lsb']} in the first run")
    assert first == {1} and later <= {"0.0 in the first run"}  # the first run that fails is the last that is judged


@pytest.mark.long
def test_a_dropped_bias_fails_the_float_gate_too() -> None:
    found = failures("bias_dropped", "aten.addmm.default")
    assert {"gate1", "gate3"} <= {check for _, check, _ in found}
    assert any("expected" in message and "out[" in message for _, check, message in found if check == "gate1")


@pytest.mark.long
@pytest.mark.parametrize("row", ["aten.avg_pool2d.default", "aten.convolution.default"])
def test_exchanged_axes_are_caught_where_the_axes_differ(row: str) -> None:
    """Strides of height and width exchanged: equal strides pass, the others give another shape or other numbers."""
    broken = {r.case for r, _, _ in failures("stride_h_exchanged", row)}
    right = {r.case for r in results("stride_h_exchanged", row) if r.verdict == "accept"} - broken
    assert {case for case in broken if "stride" in case and "_1_2" in case}
    assert right
    assert {check for _, check, _ in failures("stride_h_exchanged", row)} <= {*GATES, "crash", "outputs"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("backend", "rows", "what", "trait"),
    [
        ("multiple_of_4", ("aten.mean.dim",), "Delegated, but the rule channels_multiple_of excludes it", None),
        ("bias_dropped", ("aten.addmm.default", "aten.mm.default"), "Wrong numbers", "have a bias"),
        ("FULLY_CONNECTED_one_more", ("aten.addmm.default",), "Numbers 1 LSB off", "contain aten.addmm"),
        ("stride_h_exchanged", ("aten.avg_pool2d.default",), "An error, DeviceError, in the stage 'run'", "height"),
    ],
)
@pytest.mark.sampled(1)
def test_the_first_finding_says_what_is_wrong(
    backend: str, rows: tuple[str, ...], what: str, trait: str | None
) -> None:
    """As a reader sees it: the headline, and what the failing cases share and passing ones lack."""
    cases = {case.id: case for case in cases_for(load_table(TABLE))}
    others = results(backend, "aten.abs.default", "aten.tanh.default", "aten.add.Tensor", "aten.leaky_relu.default")
    finding = find([*results(backend, *rows), *others], cases, set(), load_table(TABLE))[0]
    assert finding.symptom.what.startswith(what)
    assert trait is None or any(trait in common.text for common in finding.common), finding.common


@pytest.mark.parametrize("row", ["aten.convolution.default", "aten.mm.default", "aten.sigmoid.default"])
def test_a_missing_rule_on_fusing_is_named_by_its_constraint(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partitioner that takes sigmoid(product) without the product's quantization accepts what the table refuses."""
    monkeypatch.setattr(rules, "COMMON", tuple(one for one in rules.COMMON if one.code != "fused_activation"))
    table = load_table(TABLE)
    cases = [case for case in cases_for(table) if (case.row, case.constraint) == (row, "fused_activation")]
    found = {case.id: run_case(case, neutron, table) for case in cases if case.expect == "reject"}
    tags = {
        name: [f.message for f in result.failures if f.check in ("tag", "reason")] for name, result in found.items()
    }
    assert found and all(tags.values()), tags
