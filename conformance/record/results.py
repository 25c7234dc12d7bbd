"""What was observed for one case, its verdict, and the one line of JSON that records it.

The line is the same for the same observation: keys sorted, numbers rounded to six significant
digits. This module knows neither torch nor a backend, so a record can be checked without both.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.shapes import OF_ANY_KEY, check_shape
from npu_assay.conformance.programs.graph import Case, Graph

METRICS = (
    "max_lsb",
    "allowed_lsb",
    "bias",
    "off_by_one_rate",
    "sqnr_db",
    "sqnr_floor_db",
    "worst_ratio_to_bound",
    "bound_lsb",
    "bound_share",
)
VERDICTS = ("accept", "reject", "partial", "absent", "error")
STATUSES = ("pass", "fail", "unspecified", "undecided")
NOT_PASSED = frozenset({"fail", "undecided"})
GOLDEN, SUITE = "golden", "suite"
CHECKS = {
    "tag": "delegated or not, as the table says",
    "reason": "a rejection names the constraint that the case breaks",
    "crash": "no error is raised, no process dies",
    "not_run": "a runtime is installed that runs what was compiled",
    "hang": "an answer in time (--timeout)",
    "memory": "no more memory is used than allowed (--memory)",
    "state": "settings of the process are left as they were",
    "leak": "no process or thread is left running",
    "noise": "nothing is printed",
    "determinism": "the same input gives the same tags and bytes, the same bytes the same outputs, wherever they run",
    "empty": "every partition computes something",
    "tool": "a further compiler takes what was compiled (--with-vela)",
    "delegates": "as many delegates as the partitioner's options ask for",
    "mutation": "inputs are left as they were",
    "outputs": "count, shape, dtype and grid of the outputs",
    "not_constant": "outputs are not constant where the golden is not",
    "not_saturated": "outputs are not all qmin or qmax",
    "gate1": "exact integers, in LSB",
    "gate2": "bias and share of codes that are not the nearest",
    "gate3": "float golden within its bound, element by element",
    "gate4": "signal to quantization noise ratio (SQNR)",
    GOLDEN: "two float goldens, which must agree: where they do not, the suite is at fault, not the backend",
    SUITE: "the suite can make its program and compute what it expects: where it cannot, no backend is at fault",
}
OF_SUITE = frozenset({GOLDEN, SUITE})
"""The checks that say nothing of a backend."""
"""The checks that a case can fail, and what each demands or measures."""
COMPARED = frozenset(
    {GOLDEN, "count", "shape", "dtype", "finite", "on_grid", "not_constant", "not_saturated"}
    | {f"gate{number}" for number in range(1, 5)}
)
"""The checks of numbers against goldens, and of these against each other."""
DIGITS = 6
NOISE = 2.0**-30
"""Relative float64 noise of a bound: sums of 2**20 terms, each with a relative error of 2**-53, stay below."""
SEAL = "sha256"  # the key of a line's own digest
SEAL_DIGITS = 16

Number = float | int | str | None

_FAILURE = {"check": str, "message": str}
_NUMBER = (float, int, str, None)
SHAPE = {
    **dict.fromkeys(("case", "row", "constraint", "side", "expect", "program", "verdict", "status"), str),
    "reason": (str, None),
    "reasons": [{"code": str, "found": str, "sentence": str}],
    "failures": [_FAILURE],
    "metrics": dict.fromkeys(METRICS, (float, int, str, None)),
    "partitions": int,
    "blobs": [str],
    "checks": {OF_ANY_KEY: (float, int, str)},
    SEAL: str,
}
SHAPE_OF_EVIDENCE = {
    "elements": [
        {
            **dict.fromkeys(("found", "expected", "allowed", "real", "golden", "bound"), _NUMBER),
            "output": str,
            "index": [int],
            "inputs": {OF_ANY_KEY: _NUMBER},
        }
    ],
    "shapes": {OF_ANY_KEY: [[int]]},
    "pattern": str,
}
"""Keys that only failing cases have."""
SHAPE_OF_TRACE = {"trace": [str]}
"""A further key of a failure that an exception of the backend caused."""


class ResultError(UsageError):
    """A recorded result that cannot be what a run wrote."""


@dataclass(frozen=True)
class Reason:
    """Why the subject was rejected: the constraint's id (`code`), what was found, and the constraint in words."""

    code: str
    found: str
    sentence: str


@dataclass(frozen=True)
class Failure:
    """One broken promise. check: the one of CHECKS that failed.

    trace: the traceback's frames, innermost last, where the backend raised an exception.
    """

    check: str
    message: str
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"[{self.check}] {self.message}"


@dataclass(frozen=True)
class Element:
    """One element of an output that is not as expected.

    found, expected, allowed: codes and LSB as gate 1 compares them, or reals where these are known exactly; None where
    neither is. real, golden, bound: what the float golden says. inputs: of inputs and constants, the one code
    or real that the element is computed from, or the slice of those that count.
    """

    output: str
    index: tuple[int, ...]
    found: Number
    expected: Number
    allowed: Number
    real: Number
    golden: Number
    bound: Number
    inputs: Mapping[str, Number]


@dataclass(frozen=True)
class CaseResult:
    """What one case showed.

    program: sha256 of the case's graph, so that a record also pins what was asked.
    verdict: accept or reject; partial when only some nodes of the subject were tagged, absent when
    the passes removed it, error when the partitioner did not answer.
    reasons: of the rejection, as the partitioner gave them; None when it never gives any. metrics: see
    METRICS, None where a gate did not apply, and of a passing case that torch computed (in part).
    partitions: delegates in the lowered program. blobs: sha256 of each; none at the level of tags.
    checks: those that ran to their end, and by how much each one's limit was exceeded, or how often it failed:
    0 for a check that passed. The verdict on the case follows from them and from the tags.
    elements: of a failing case, the elements that are furthest off. shapes: of its program, those of each step's
    results. pattern: how the wrong numbers differ from the right ones, one of `judge.patterns.PATTERNS` or "". These
    three are for readers: no verdict depends on them.
    """

    case: str
    row: str
    constraint: str
    side: str
    expect: str
    reason: str | None
    program: str
    verdict: str
    reasons: tuple[Reason, ...] | None
    status: str
    failures: tuple[Failure, ...]
    metrics: Mapping[str, Number]
    partitions: int
    blobs: tuple[str, ...]
    checks: Mapping[str, Number] = field(default_factory=dict)
    elements: tuple[Element, ...] = ()
    shapes: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    pattern: str = ""

    @property
    def precision(self) -> str:
        """The precision in the case's id, after the row; "" where the row names none."""
        _, second, *rest = self.case.split("/")
        return second if len(rest) > 2 else ""


def rounded(value: float | int | None) -> Number:
    """A metric as it is recorded: six significant digits; "inf", "-inf" or "nan" as text."""
    if value is None or isinstance(value, int):
        return value
    if not math.isfinite(value):
        return str(value)
    return float(f"{value:.{DIGITS}g}")


def program_sha256(graph: Graph) -> str:
    """Digest of a case's graph: values, fills, steps, outputs."""
    return hashlib.sha256(repr(graph).encode()).hexdigest()


def status_of(expect: str, failures: tuple[Failure, ...]) -> str:
    """The status that follows from what the table expects and from the failures.

    Without a failure, a case on which the table is silent is unspecified. Where the goldens disagree, a comparison with
    them proves nothing, and where the suite fails nothing does: the case is undecided, unless another check fails, too.
    """
    checks = {failure.check for failure in failures}
    if failures:
        return "undecided" if checks & OF_SUITE and checks <= COMPARED | OF_SUITE else "fail"
    return "unspecified" if expect == "unspecified" else "pass"


def tag_failures(case: Case, verdict: str, reasons: tuple[Reason, ...] | None) -> tuple[Failure, ...]:
    """The failures of a verdict and its reasons against the table. reasons: None if the partitioner never gives any."""
    if case.expect == "unspecified":
        return ()
    if verdict != case.expect:
        return (Failure("tag", f"{verdict}, expected {promise(case)}{because(reasons or ())}"),)
    told = None if case.reason is None or reasons is None else [r.code for r in reasons]
    if verdict == "reject" and reasons is not None and told is not None and case.reason not in told:
        found = ", ".join(r.code for r in reasons) if reasons else "no reason"
        return (Failure("reason", f"rejected for {found}, expected {case.reason}{because(reasons)}"),)
    return ()


def promise(case: Case | CaseResult) -> str:
    """What the table expects of a case, and for which constraint, in words."""
    return case.expect if case.reason is None else f"{case.expect} for {case.reason}"


def because(reasons: Iterable[Reason]) -> str:
    """The reasons of a rejection, as the end of a sentence."""
    return "".join(f"; {r.code}: found {r.found}, but {r.sentence}" for r in reasons)


def to_line(result: CaseResult) -> str:
    """One line of results.jsonl, without the newline. It holds its own digest, so that a change shows in its line."""
    data = _data(result)
    return _json(data | {SEAL: hashlib.sha256(_json(data).encode()).hexdigest()[:SEAL_DIGITS]})


def _data(result: CaseResult) -> dict[str, Any]:
    """A result as JSON, without the keys of evidence that it does not have."""
    data = vars(result) | {
        "failures": list(map(_failure, result.failures)),
        "elements": list(map(vars, result.elements)),
    }
    if result.reasons is not None:
        data["reasons"] = list(map(vars, result.reasons))
    return {key: value for key, value in data.items() if value or key not in SHAPE_OF_EVIDENCE}


def _failure(failure: Failure) -> dict[str, Any]:
    return {key: value for key, value in vars(failure).items() if value or key not in SHAPE_OF_TRACE}


def _json(data: Mapping[str, Any]) -> str:
    """JSON in which only what can be seen is written as it is; lone surrogates stay, which UTF-8 refuses."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text if text.isprintable() else "".join(c if _is_shown(c) else json.dumps(c)[1:-1] for c in text)


def _is_shown(c: str) -> bool:
    return c.isprintable() or "\ud800" <= c <= "\udfff"


def from_line(line: str) -> CaseResult:
    """Read a line that `to_line` wrote. Raises ResultError for any other text."""
    result, edited = read_line(line)
    if edited:
        raise ResultError(edited)
    return result


def read_results(text: str, file: str) -> dict[str, CaseResult]:
    """The records of a file that a run wrote, by case. Raises ResultError, which names the file and the line."""
    results = dict[str, CaseResult]()
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        try:
            result = from_line(line)
        except ResultError as error:
            raise ResultError(f"{file} line {number}: {error}") from error
        if result.case in results:
            raise ResultError(f"{file} line {number}: {result.case} is there twice; see 'assay verify'")
        results[result.case] = result
    return results


def read_line(line: str) -> tuple[CaseResult, str]:
    """A record, and how its line differs from the one that a run writes; "" if it does not.

    Raises ResultError for a text that is not a record.
    """
    try:
        data = json.loads(line)
        result = _result(data)
        written = to_line(result)
    except (ValueError, RecursionError) as error:
        raise ResultError(f"not a result record ({error})") from error
    if written == line:
        return result, ""
    if json.loads(written) != data:
        return result, f"edited (its {SEAL} does not fit the rest)"
    return result, "not written as a run writes it (keys, order or spacing differ)"


def _result(data: Any) -> CaseResult:
    without = isinstance(data, dict) and data.get("reasons", ()) is None
    shape = SHAPE | {"reasons": None} if without else SHAPE
    told = SHAPE_OF_EVIDENCE.keys() & data.keys() if isinstance(data, dict) else ()
    told_shape = {key: SHAPE_OF_EVIDENCE[key] for key in told}
    check_shape(data, shape | told_shape | {"failures": [(_FAILURE, _FAILURE | SHAPE_OF_TRACE)]})
    data = {key: value for key, value in data.items() if key != SEAL}
    if data["verdict"] not in VERDICTS or data["status"] not in STATUSES:
        raise ValueError(f"verdict {data['verdict']!r} or status {data['status']!r} does not exist")
    if data["blobs"] and data["partitions"] != len(data["blobs"]):
        raise ValueError(f"{data['partitions']} partitions, but {len(data['blobs'])} blobs")
    return CaseResult(
        **data
        | {
            "reasons": None if without else tuple(Reason(**reason) for reason in data["reasons"]),
            "failures": tuple(map(failure_of, data["failures"])),
            "blobs": tuple(data["blobs"]),
            "elements": tuple(Element(**each | {"index": tuple(each["index"])}) for each in data.get("elements", ())),
            "shapes": {step: tuple(map(tuple, shapes)) for step, shapes in data.get("shapes", {}).items()},
        }
    )


def failure_of(data: Mapping[str, Any]) -> Failure:
    """A failure as JSON holds it."""
    return Failure(data["check"], data["message"], tuple(data.get("trace", ())))
