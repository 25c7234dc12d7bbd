"""Checking the file of a run's random programs: every program is drawn again, every status derived again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npu_assay.conformance.fuzz.names import Name, parse
from npu_assay.conformance.fuzz.programs import Programs
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.certificate import Fuzz
from npu_assay.conformance.record.folder import sha256
from npu_assay.conformance.record.names import FUZZ
from npu_assay.conformance.record.results import CaseResult, program_sha256, read_line, status_of


def problems(text: str, fuzz: Fuzz, cases: Sequence[Case], stride: tuple[int, int] = (0, 1)) -> Iterator[str]:
    """The problems of the file, and its differences from what the certificate states.

    stride: see `Selection.stride`.
    """
    if sha256(text) != fuzz.sha256:
        yield f"{FUZZ} is not the file that the certificate was made of (sha256 differs)"
    programs, failing, undecided, count = Programs(cases), 0, 0, 0
    number, step = stride
    for place, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        try:
            result, edited = read_line(line)
            name = parse(result.case)
            found = edited or _problem(result, programs)
        except ValueError as error:
            yield f"{FUZZ} line {place}: {error}"
            continue
        if found:
            yield f"{FUZZ} line {place}: {name}: {found}"
        if not name.trail:
            if name != Name(fuzz.seed, number):
                yield f"{FUZZ} line {place}: found {name}, expected {Name(fuzz.seed, number)}"
            number, count, failing = name.number + step, count + 1, failing + (result.status == "fail")
            undecided += result.status == "undecided"
    if undecided != fuzz.undecided:
        yield f"the certificate states {fuzz.undecided} undecided random programs, {FUZZ} has {undecided}"
    if (count, failing) != (fuzz.programs, fuzz.fail):
        stated = f"{fuzz.fail} failures of {fuzz.programs}"
        yield f"the certificate states {stated} random programs, {FUZZ} has {failing} of {count}"


def _problem(result: CaseResult, programs: Programs) -> str:
    case = programs.case(result.case)
    if result.program != program_sha256(case.graph) or result.expect != case.expect:
        return "not the program of this name"
    if result.partitions != len(result.blobs):
        return f"{result.partitions} partitions, but {len(result.blobs)} blobs"
    measured = any(value for value in result.checks.values() if value not in (0, 0.0))
    if measured and not result.failures:
        return "an excess over a limit is recorded, but no failure"
    if result.status != status_of(result.expect, result.failures):
        return f"status {result.status!r} does not follow from {len(result.failures)} failures"
    return ""
