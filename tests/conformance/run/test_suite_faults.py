"""An error of the suite's own code is reported as the suite's, never as the backend's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from engine_runs import named
from limit_tables import neutron
from torch import fx

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.judge import numerics
from npu_assay.conformance.programs.graph import Case, Fill, Graph, Step
from npu_assay.conformance.report.symptoms import symptom
from npu_assay.conformance.run import suite_faults
from npu_assay.conformance.run.one_case import result_of, run_case
from npu_assay.conformance.table import Table, load_table
from npu_assay.reference.golden import GoldenError
from npu_assay.reference.integer.operand import IntegerError

WHOLE = load_table("neutron@1.3")
TABLE = replace(WHOLE, rows=(WHOLE.row("aten.neg.default"),))


def plain(table: Table = TABLE) -> Case:
    return next(case for case in cases_for(table) if case.id.endswith("/operator/accept/baseline"))


def of_steps(change: Callable[[Step], Step]) -> Case:
    graph = plain().graph
    return replace(plain(), graph=replace(graph, steps=tuple(map(change, graph.steps))))


def unknown_fill() -> Case:
    graph: Graph = plain().graph
    return replace(plain(), graph=replace(graph, values=tuple(replace(v, fill=Fill("nothing")) for v in graph.values)))


BROKEN: dict[str, Callable[[], Case]] = {
    "a dim order that no memory format has": lambda: of_steps(
        lambda step: replace(
            step,
            op="dim_order_ops._to_dim_order_copy.default",
            kwargs=(("dim_order", (0, 1, 3, 2)),),
        )
    ),
    "numbers of no kind": unknown_fill,
    "an operator that torch does not have": lambda: of_steps(lambda step: replace(step, op="aten.frobnicate.default")),
    "an argument too many": lambda: of_steps(lambda step: replace(step, args=(*step.args, 1, 2, 3))),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_program_that_the_suite_cannot_make_is_its_own_failure(fault: str) -> None:
    found = run_case(BROKEN[fault](), neutron(), TABLE)
    assert [failure.check for failure in found.failures] == ["suite"]
    assert found.failures[0].message.startswith("the suite cannot make the program: ")
    assert found.status == "undecided"
    assert symptom(found, "").what == "The suite's own code fails, which says nothing of the backend"


def test_a_golden_that_fails_is_the_suites_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise GoldenError(f"{SUBJECT}: no golden")

    monkeypatch.setattr(numerics, "walk", missing)
    found = run_case(plain(), neutron(), TABLE)
    assert {failure.check for failure in found.failures} == {"suite"} and found.status == "undecided"


U85 = load_table("ethos_u85@1.5")
UNKNOWN = (
    "aten.add.Tensor/int8/operator/variation/argument.alpha_minus_3.baseline",
    "aten.linear.default/int8_per_channel/operator/variation/exchanged.w_for_x.shape_1x1",
    "aten.convolution.default/int16_per_channel/operator/variation/exchanged.w_for_x.shape_2x3x6x7",
    "aten.view_copy.default/int16/operator/variation/quantization.result_times_1e-10.shape_3x5",
)
"""Programs that a backend may take, and that the scheme's integers do not know."""


@pytest.mark.parametrize("name", UNKNOWN)
def test_integers_that_the_suite_does_not_know_are_its_own_failure(name: str) -> None:
    (case,) = named(U85, [name]).values()

    def judge(_: object) -> None:
        numerics.golden(case.graph).exact(U85.rescale)

    with pytest.raises(IntegerError):
        judge(None)
    found = result_of(case, judge, U85.rescale)
    assert [failure.check for failure in found.failures] == ["suite"] and found.status == "undecided"


@pytest.mark.parametrize("row", ["aten.add.Tensor", "aten.linear.default"])
def test_an_answer_that_cannot_be_judged_stays_the_backends(row: str) -> None:
    case = plain(replace(U85, rows=(U85.row(row),)))

    def judge(_: object) -> None:
        raise ValueError("an answer of no form")

    assert [failure.check for failure in result_of(case, judge, U85.rescale).failures] == ["crash"]


def raises(module: fx.GraphModule) -> fx.GraphModule:
    raise ValueError("a pass of the vendor's")


def test_a_backends_own_error_stays_its_own() -> None:
    """In the same stage as the suite makes the program, and with the same kind of error."""
    found = run_case(plain(), replace(neutron(), passes=(raises,)), TABLE)
    assert [failure.check for failure in found.failures] == ["crash"] and found.status == "fail"


def test_what_a_backend_answers_does_not_decide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is only made again after an error; a case that went well has no fault of the suite."""
    monkeypatch.setattr(suite_faults, "build", lambda *_: pytest.fail("asked"))
    assert run_case(plain(), neutron(), TABLE).status == "pass"
