"""The headline of a failure: one for each check, of the fault's kind."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from npu_assay.conformance import run
from npu_assay.conformance.record.results import CHECKS, GOLDEN, CaseResult, Failure, Reason
from npu_assay.conformance.report.findings import _errors
from npu_assay.conformance.report.symptoms import GROUPED, WRONG, symptom

OF_NUMBERS = {"gate1", "gate2", "gate3", "gate4", "not_constant", "not_saturated"}
MADE = re.compile(r'(?:fail|Failure)\(\s*"([a-z_0-9]+)"')


def failed(
    verdict: str,
    expect: str,
    *checks: str,
    lsb: float | None = None,
    bound: tuple[float | None, float | None] = (None, None),
    **changes: object,
) -> CaseResult:
    """A failing result of a case that promises `expect`. bound: in LSB, and the worst ratio to it."""
    failures = tuple(Failure(check, "run: ValueError: no") for check in checks)
    record = CaseResult(
        *("a/c/outside/x", "a", "c", "outside", expect, "limit" if expect == "reject" else None, ""),
        verdict=verdict,
        reasons=(),
        status="fail",
        failures=failures,
        metrics=dict(zip(("max_lsb", "bound_lsb", "worst_ratio_to_bound"), (lsb, *bound), strict=True)),
        partitions=0,
        blobs=(),
    )
    return replace(record, **changes)  # type: ignore[arg-type]  # names and types are the caller's


@pytest.mark.parametrize(
    ("result", "what"),
    [
        (failed("accept", "reject", "tag"), "Delegated, but the rule limit excludes it"),
        (
            failed("reject", "accept", "tag", reasons=(Reason("rank", "5", "4"),)),
            "Rejected for rank, but the table allows it",
        ),
        (failed("reject", "accept", "tag"), "Rejected for no reason, but the table allows it"),
        (failed("reject", "reject", "reason"), "Rejected for no reason, not for the rule limit"),
        (failed("partial", "accept", "tag"), "Tagged partial, expected accept"),
        (failed("accept", "accept", "crash", "gate1"), "An error, ValueError, in the stage 'run'"),
        (failed("accept", "accept", "crash", failures=(Failure("crash", "it died"),)), "The process died"),
        *(
            (failed("accept", "accept", "crash", failures=(Failure("crash", f"{message}: no such size"),)), what)
            for message, what in (
                ("compile: CompileError", "Delegated, but the compiler refuses it: CompileError"),
                ("compile: TypeError", "An error, TypeError, in the stage 'compile'"),
                ("compile: ContractError", "An error, ContractError, in the stage 'compile'"),
                ("run: CompileError", "An error, CompileError, in the stage 'run'"),
            )
        ),
        (
            failed("accept", "accept", "crash", failures=(Failure("crash", "run: the process died (SIGSEGV)"),)),
            "The process died (SIGSEGV) in the stage 'run'",
        ),
        (failed("accept", "accept", "hang", failures=(Failure("hang", "run: no answer in 1 s"),)), "No answer in time"),
        (failed("accept", "accept", "gate1", "gate2", lsb=1), "Numbers 1 LSB off"),
        (failed("accept", "accept", "gate1", "gate3", lsb=1), "Numbers 1 LSB off"),
        (failed("accept", "accept", "gate1", lsb=2), "Wrong numbers"),
        (failed("accept", "accept", "gate1", lsb=6, bound=(3.3, 1.9)), "Numbers 1 LSB off"),
        (failed("accept", "accept", "gate1", lsb=7, bound=(3.3, 2.1)), "Wrong numbers"),
        (failed("accept", "accept", "gate1", lsb=2, bound=(0.9, 2.0)), "Wrong numbers"),
        *(
            (failed("accept", "accept", "gate1", lsb=0, failures=(Failure("gate1", message),)), what)
            for message, what in (
                ("out[0] = -4, expected -3 (exact); 1 of 9 elements; on the second inputs", "Numbers 1 LSB off"),
                ("wrong; on the third inputs", "Numbers 1 LSB off"),
                ("out[0] = -4, expected 3 (exact); 1 of 9 elements; on the second inputs", "Wrong numbers"),
            )
        ),
        (failed("accept", "accept", "gate3", lsb=0), "Numbers that the float golden excludes"),
        (failed("accept", "accept", "gate1"), "Wrong numbers, where the result is not a code"),
        (failed("accept", "accept", "gate1", "gate3"), "Wrong numbers, where the result is not a code"),
        (failed("accept", "accept", "gate3"), "Wrong numbers, where the result is not a code"),
        (failed("accept", "reject", "tag", "crash"), "Delegated, but the rule limit excludes it"),
        (failed("error", "reject", "tag", "crash"), "An error, ValueError"),
        (failed("accept", "accept", "outputs"), "Outputs of another count"),
        (
            failed("accept", "accept", "determinism"),
            "Other tags, bytes or outputs the second time, or in another process",
        ),
        (
            failed("accept", "accept", "mutation", "gate1", lsb=9),
            "The runtime changes its inputs, or outputs that it had returned",
        ),
        (failed("accept", "accept", "delegates"), GROUPED),
        (failed("accept", "accept", "delegates", "gate1", lsb=9), GROUPED),
        (failed("accept", "accept", "not_run"), "Compiled, but nothing here runs it"),
        (failed("accept", "accept", "empty"), "A partition that computes nothing"),
    ],
)
def test_a_failure_has_one_symptom(result: CaseResult, what: str) -> None:
    found = symptom(result, "tflite_double_round")
    assert found.what.startswith(what) and found.look


@pytest.mark.parametrize("check", sorted(CHECKS.keys() - OF_NUMBERS - {"tag", "reason", GOLDEN}))
def test_a_check_that_is_not_of_numbers_has_no_headline_of_numbers(check: str) -> None:
    """What has none of its own was told as wrong numbers."""
    found = symptom(failed("accept", "accept", check, lsb=None), "tflite_double_round")
    assert not found.what.startswith((WRONG, "Numbers"))


def test_every_check_that_a_run_makes_is_known() -> None:
    """Else it has no sentence in reports and cannot be waived."""
    suite = Path(str(run.__file__)).parent.parent
    texts = [path.read_text() for part in ("run", "isolation") for path in (suite / part).glob("*.py")]
    made = {check for text in texts for check in MADE.findall(text)}
    assert {"delegates", "crash", "leak", "mutation"} <= made <= CHECKS.keys()


def test_errors_that_differ_in_numbers_are_one_with_an_example() -> None:
    """What was found and what was expected can be told apart; "#" in place of both would hide it."""
    wrong = "run: BackendError: wrong output 0: found int8{}, expected int8[1, 8]"
    said = [wrong.format("[8]"), wrong.format("[1]"), "compile: ValueError: no", "compile: ValueError: no"]
    assert _errors([failed("accept", "accept", "crash", failures=(Failure("crash", text),)) for text in said]) == (
        ("compile: ValueError: no", 2),
        (f"{said[0]} (others differ in numbers)", 2),
    )
