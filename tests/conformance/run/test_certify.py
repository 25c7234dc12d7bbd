"""One case end to end: what a faulty backend does becomes a failure that says what is wrong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import fake_backend
import pytest

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.cases.make import SUBJECT, call, model
from npu_assay.conformance.programs.graph import Case, Fill, Graph, Quant, Ref, Step
from npu_assay.conformance.record.results import (
    CaseResult,
    Failure,
    Reason,
    ResultError,
    from_line,
    rounded,
    tag_failures,
    to_line,
)
from npu_assay.conformance.run.cluster_worker import dismiss_all
from npu_assay.conformance.run.execution import Job, Pool, run_all, run_on
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import Backend

TABLE = load_table(fake_backend.TABLE)
CASES = {case.id: case for case in cases_for(TABLE)}
ABS = "aten.abs.default/operator/accept/baseline"
NEG = "aten.neg.default/operator/accept/baseline"
SPEC = "fake_backend:backend"


def run(name: str, backend: Backend) -> CaseResult:
    return run_case(CASES[name], backend, TABLE)


def test_a_sound_backend_passes_every_case() -> None:
    results = [run_case(case, fake_backend.backend, TABLE) for case in CASES.values()]
    assert {r.case: r.failures for r in results if r.status == "fail"} == {}
    assert any(r.verdict == "reject" for r in results) and any(r.verdict == "accept" for r in results)


@pytest.mark.parametrize(
    ("faulty", "check", "message"),
    [
        ("refuses", "tag", "reject, expected accept; mood: found a bad one, but the mood must be good"),
        ("crashes", "crash", "partition: KeyError: 'no rule at 0x...' (in takes, fake_backend.py)"),
        ("drifts", "gate1", "= -32, expected -33 (exact)"),
        ("scribbles", "mutation", "the runtime changed the tensors that it was given"),
        ("unsteady", "determinism", "the same partition compiled to different bytes twice"),
        ("hollow", "empty", "a partition computes nothing"),
        ("misfiles", "crash", "compile: "),
        ("garbles", "crash", "run: "),
    ],
)
def test_a_fault_is_seen_and_named(faulty: str, check: str, message: str) -> None:
    result = run(NEG, getattr(fake_backend, faulty))
    assert result.status == "fail"
    assert check in {failure.check for failure in result.failures}
    assert any(failure.check == check and message in failure.message for failure in result.failures)


def test_tags_that_change_between_two_calls_are_seen() -> None:
    failures = run(NEG, fake_backend.wavers).failures
    assert [f.check for f in failures if "differently twice: aten_neg_default" in f.message] == ["determinism"]


def test_the_verdict_is_known_even_when_compiling_fails() -> None:
    assert run(NEG, fake_backend.misfiles).verdict == "accept"
    assert run(NEG, fake_backend.crashes).verdict == "error"


def test_what_a_further_compiler_refuses_fails_only_where_it_is_asked() -> None:
    assert run(NEG, fake_backend.checked).failures == ()
    assert run_case(CASES[ABS], fake_backend.checked, TABLE, ["vela"]).failures == ()
    (failure,) = run_case(CASES[NEG], fake_backend.checked, TABLE, ["vela"]).failures
    assert failure == Failure("tool", "vela: found neg, expected abs")


def test_a_rejection_for_another_reason_fails() -> None:
    name = next(name for name, case in CASES.items() if case.row == "aten.neg.default" and case.reason == "quantized")
    assert run(name, fake_backend.backend).status == "pass"
    (failure,) = run(name, fake_backend.refuses).failures
    assert failure == Failure(
        "reason", "rejected for mood, expected quantized; mood: found a bad one, but the mood must be good"
    )


def test_reasons_are_not_asked_of_a_partitioner_that_gives_none() -> None:
    case = next(case for case in CASES.values() if case.expect == "reject")
    assert tag_failures(case, "reject", None) == ()
    assert tag_failures(case, "reject", ()) != ()


def test_an_unspecified_case_cannot_fail_on_its_tag() -> None:
    case = replace(CASES[NEG], expect="unspecified")
    result = run_case(case, fake_backend.refuses, TABLE)
    assert (result.status, result.verdict, result.failures) == ("unspecified", "reject", ())
    assert run_case(case, fake_backend.drifts, TABLE).status == "fail"


# ------------------------------------------------------------------------------------ what falls back

ODD = Fill("list", values=tuple(float(code) for code in range(-127, 128, 2)))


def behind_copies(y: Quant, copies: int) -> Case:
    """A delegated abs, then copies that nobody delegates; only the last one is quantized, with `y`."""
    u = call("aten.abs.default", (1, 128), x=Quant(0.0625), y=Quant(0.0625), fill=ODD)
    graph = model(u)
    steps, last = list(graph.steps), Ref(SUBJECT)
    for index in range(copies):
        quant_ = y if index == copies - 1 else None
        steps.append(
            Step(f"copy{index}", "aten.clone.default", (last,), (("memory_format", "contiguous_format"),), quant_)
        )
        last = Ref(f"copy{index}")
    return replace(CASES[ABS], graph=Graph(graph.values, tuple(steps), (last,)))


@pytest.mark.parametrize("copies", [1, 2])
def test_a_copy_that_falls_back_with_other_parameters_is_rounded_by_torch(copies: int) -> None:
    """Halves: torch rounds them to even, the device upwards. Neither is wrong where torch computes."""
    result = run_case(behind_copies(Quant(0.125), copies), fake_backend.backend, TABLE)
    assert (result.verdict, result.failures) == ("accept", ())


def test_a_copy_that_falls_back_with_the_same_parameters_keeps_codes_exact() -> None:
    case = behind_copies(Quant(0.0625), 1)
    assert run_case(case, fake_backend.backend, TABLE).failures == ()
    (failure,) = [f for f in run_case(case, fake_backend.drifts, TABLE).failures if f.check == "gate1"]
    assert "(exact)" in failure.message


# ------------------------------------------------------------------------------------ records


def test_a_record_survives_its_line() -> None:
    result = run(NEG, fake_backend.drifts)
    assert from_line(to_line(result)) == result


@pytest.mark.parametrize("line", ["", "{}", "[1]", '{"case": 1}', "null"])
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ResultError):
        from_line(line)


def test_a_line_in_another_spelling_is_refused() -> None:
    with pytest.raises(ResultError, match="not written as a run writes it"):
        from_line(to_line(run(ABS, fake_backend.backend)).replace('"row":', '"row": '))


def test_metrics_are_rounded_to_six_digits() -> None:
    assert rounded(1.23456789) == 1.23457
    assert rounded(float("inf")) == "inf"
    assert rounded(None) is None and rounded(3) == 3


def test_what_torch_computed_right_is_not_measured() -> None:
    name = next(name for name, case in CASES.items() if case.expect == "reject")
    assert set(run(name, fake_backend.backend).metrics.values()) == {None}
    assert run(ABS, fake_backend.backend).metrics["max_lsb"] == 0
    assert run(NEG, fake_backend.drifts).metrics["max_lsb"] != 0


def test_a_reason_is_part_of_the_record() -> None:
    assert run(NEG, fake_backend.refuses).reasons == (Reason("mood", "a bad one", "the mood must be good"),)


# ------------------------------------------------------------------------------------ many cases


def names(count: int) -> tuple[str, ...]:
    return tuple(CASES)[:count]


def test_processes_give_the_same_results_as_one() -> None:
    job = Job(SPEC, fake_backend.TABLE)
    alone = {r.case: to_line(r) for r in run_all(job, names(12), 1)}
    spread = {r.case: to_line(r) for r in run_all(job, names(12), 2)}
    assert spread == alone and len(alone) == 12


@pytest.mark.slow
def test_any_executor_will_do() -> None:
    job = Job(SPEC, fake_backend.TABLE)
    here = {to_line(r) for r in run_all(job, names(12), 1)}
    pool = Pool(lambda: ThreadPoolExecutor(1), 1)
    with pool.open(job) as executor:
        assert {to_line(r) for r in run_on(executor, pool, job, names(12))} == here
    dismiss_all()


def test_a_case_that_ends_its_process_fails_and_the_others_go_on() -> None:
    ids = (ABS, NEG, *(n for n, c in CASES.items() if c.row == "aten.abs.default" and n != ABS))[:6]
    results = {r.case: r for r in run_all(Job("fake_backend:dies", fake_backend.TABLE), ids, 2)}
    assert set(results) == set(ids)
    assert [name for name, r in results.items() if r.status == "fail"] == [NEG]
    assert results[NEG].failures[0].message == "partition: the process died (exit code 3)"


def test_the_loader_finds_backends_beside_the_current_folder() -> None:
    assert load_backend(SPEC) is fake_backend.backend


def test_cases_are_plain_data() -> None:
    assert all(isinstance(case, Case) and hash(case) == hash(replace(case)) for case in CASES.values())
