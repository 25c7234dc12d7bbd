"""Checks a recorded result: derives its status again from what was observed and from the case.

Nothing that a record states about itself is trusted. Tags and reasons are compared with the case's promise again,
each gate's limit with what was measured, and a check that did not run to its end counts as not run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.levels import NUMBERS, RUNS, TAGS, reaches
from npu_assay.conformance.record.results import GOLDEN, CaseResult, Failure, program_sha256, status_of, tag_failures
from npu_assay.conformance.verify.metrics import metric_problems

OF_TAGS = ("tag", "reason")  # follow from verdict and reasons
FORM = ("count", "shape", "dtype", "finite", "on_grid")  # the first that fails is the last that runs
FORM_ALONE = FORM[:3]  # without those that look at numbers
GATES = ("not_constant", "not_saturated", "gate1", "gate2", "gate3", "gate4")
LAST = ("delegates", "mutation", "determinism", "empty")  # noted when a case came to its end
TOOL = "tool"
NOTED = frozenset({*FORM, *GATES, *LAST, TOOL})


def result_problem(result: CaseResult, case: Case, tools: Sequence[str] = (), level: str = NUMBERS) -> str | None:
    """Why a recorded result cannot be what a run of this case recorded; None when it can.

    tools: the further compilers that took part, see `Certificate`. level: of the run, see `record.levels`.
    """
    found = chain(_asked(result, case), _tags(result, case), _delegates(result, case))
    found = chain(found, _beyond(result, level), _checks(result, tools, level))
    return next(chain(found, metric_problems(result), _status(result)), None)


def _asked(result: CaseResult, case: Case) -> Iterator[str]:
    """Problems if the record is not about this case."""
    asked = {
        "row": case.row,
        "constraint": case.constraint,
        "side": case.side,
        "expect": case.expect,
        "reason": case.reason,
        "program": program_sha256(case.graph),
    }
    for key, value in asked.items():
        if getattr(result, key) != value:
            yield f"{key} is {getattr(result, key)!r}, the table's case has {value!r}"


def _tags(result: CaseResult, case: Case) -> Iterator[str]:
    """Problems if the failures of tags and reasons do not follow from what the partitioner answered."""
    recorded = [failure for failure in result.failures if failure.check in OF_TAGS]
    if result.verdict == "error":
        if not result.failures:
            yield "the partitioner did not answer, but no failure is recorded"
        if recorded or result.checks or result.reasons:
            yield "the partitioner did not answer, but what it answered is recorded"
        return
    if result.verdict == "accept" and result.reasons:
        yield "accepted, but reasons of a rejection are recorded"
    derived = list[Failure](tag_failures(case, result.verdict, result.reasons))
    if recorded == derived:
        return
    if not recorded:
        yield f"verdict {result.verdict!r} contradicts the table, but no failure is recorded ({derived[0].message})"
    elif not derived:
        yield f"a failure of {recorded[0].check} is recorded, but verdict {result.verdict!r} is what the table promises"
    else:
        yield f"{recorded[0].check} {recorded[0].message!r} does not follow: expected {derived[0].message!r}"


def _delegates(result: CaseResult, case: Case) -> Iterator[str]:
    """Problems if the number of delegates contradicts the check of it, or an accepted case has no delegate."""
    if "delegates" not in result.checks:
        return
    wrong = case.delegates is not None and result.partitions != case.delegates
    if wrong != bool(result.checks["delegates"]):
        yield f"found {result.partitions} delegates, expected {case.delegates}, but the check of them says otherwise"
    if result.verdict == "accept" and not result.partitions:
        yield "accepted, but there is no delegate"


def judged_at(level: str) -> tuple[str, ...]:
    """The checks of outputs that a level runs, in their order."""
    if not reaches(level, RUNS):
        return ()
    return (*FORM, *GATES) if level == NUMBERS else FORM_ALONE


def beyond(level: str) -> frozenset[str]:
    """The checks of outputs that only higher levels run."""
    return frozenset() if level == NUMBERS else frozenset({*FORM, *GATES, GOLDEN} - set(judged_at(level)))


def _beyond(result: CaseResult, level: str) -> Iterator[str]:
    """Problems with checks, metrics and blobs that a run of this level does not record, or with missing blobs."""
    if level != NUMBERS:
        failed = {failure.check for failure in result.failures}
        for check in sorted(beyond(level) & {*failed, *result.checks}):
            yield f"{check} is recorded, which a run of level {level} does not judge"
        if any(value is not None for value in result.metrics.values()):
            yield f"numbers are measured, which a run of level {level} does not judge"
    expected = 0 if level == TAGS else result.partitions
    if len(result.blobs) != expected:
        yield f"{len(result.blobs)} blobs are recorded, expected {expected} at level {level}"


def _checks(result: CaseResult, tools: Sequence[str], level: str) -> Iterator[str]:
    """Problems if failures and excesses contradict each other, or if a check did not run for no reason."""
    failed = {failure.check for failure in result.failures}
    stopped = bool(failed - NOTED - {*OF_TAGS, GOLDEN})
    for check in sorted(NOTED & {*failed, *result.checks}):
        found = result.checks.get(check)
        if found is None and not stopped:
            yield f"a failure of {check} is recorded, but the check did not run"
        elif found is not None and bool(found) != (check in failed):
            stated = "a" if check in failed else "no"
            yield f"{check}: the excess is {found}, but {stated} failure is recorded"
    if not stopped:
        yield from _missing(result, tools, level)


def _missing(result: CaseResult, tools: Sequence[str], level: str) -> Iterator[str]:
    """The checks that did not run in a case that nothing stopped; a malformed output ends the checks."""
    malformed = any(result.checks.get(check) for check in FORM)
    outputs = () if malformed else tuple(check for check in judged_at(level) if check != FORM[0])
    required = [*LAST, *([TOOL] if tools else []), *outputs]
    missing = [check for check in required if check not in result.checks]
    if missing:
        yield f"nothing stopped the case, but these checks did not run: {', '.join(missing)}"


def _status(result: CaseResult) -> Iterator[str]:
    if not result.failures and (result.shapes or result.elements or result.pattern):
        yield "no failure is recorded, but what is recorded of failures alone is: shapes, elements or a pattern"
    if result.status != status_of(result.expect, result.failures):
        yield f"status {result.status!r} does not follow from {len(result.failures)} failures"
