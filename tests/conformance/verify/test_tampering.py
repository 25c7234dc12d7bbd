"""Every kind of edit of a run's files, small and large, with and without digests made to fit, is noticed."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_assay.conformance.record.certificate import (
    Certificate,
    Selection,
    certificate_text,
    conclude,
    read_certificate,
)
from npu_assay.conformance.record.folder import results_text, sha256
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS, Contents
from npu_assay.conformance.record.read import read_folder
from npu_assay.conformance.record.results import CaseResult, ResultError, from_line, read_line, to_line
from npu_assay.conformance.verify import verification
from npu_assay.conformance.verify.result import NOTED, result_problem
from npu_assay.conformance.verify.verification import Verification, verify_contents
from tests.conformance.record.test_package import CASES, TODAY, places, run, with_junk

Files = Mapping[str, bytes]
CASE = {case.id: case for case in CASES}


@pytest.fixture(scope="module", autouse=True)
def no_notes() -> Iterator[None]:
    """What the suite's sources are says nothing of an edit, and reading them takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verification, "suite_sources", dict)
        patch.setattr(verification, "all_cases", lambda table: CASES)
        yield


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("good")
    run(folder)
    return read_folder(folder).files


@pytest.fixture(scope="module")
def drifting(tmp_path_factory: pytest.TempPathFactory) -> tuple[CaseResult, ...]:
    return run(tmp_path_factory.mktemp("bad"), "drifts").results


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> tuple[CaseResult, ...]:
    return run(tmp_path_factory.mktemp("bad"), "refuses").results


def check(files: Files, today: datetime.date = TODAY) -> Verification:
    return verify_contents(Contents("x", files), today)


def noticed(files: Files) -> bool:
    found = check(files)
    assert found.certified == (not found.problems and found.verdict is not None and found.verdict.certified)
    return bool(found.problems)


def small(data: bytes, place: int) -> Iterator[bytes]:
    """Edits at one byte: another bit, another case, a digit more, none, twice, one of its neighbors."""
    before, byte, after = data[:place], data[place], data[place + 1 :]
    for other in {byte ^ 1, byte ^ 0x20, (byte + 1) % 256, 0x20, 0x0A, 0xFF} - {byte}:
        yield before + bytes([other]) + after
    yield before + after
    yield before + bytes([byte, byte]) + after


def fails(result: CaseResult) -> bool:
    return result.status == "fail"


# ------------------------------------------------------------------------------------ single bytes


def test_an_untouched_run_is_certified(good: Files) -> None:
    assert check(good).certified and check(good).problems == ()


@pytest.mark.long
def test_every_single_byte_of_a_result_matters(good: Files, drifting: tuple[CaseResult, ...]) -> None:
    lines = [good[RESULTS].splitlines()[0], to_line(next(filter(fails, drifting))).encode()]
    for line in lines:
        assert to_line(from_line(line.decode())).encode() == line
        for place in range(len(line)):
            for edited in small(line, place):
                with pytest.raises((ResultError, UnicodeDecodeError)):
                    from_line(edited.decode())


@pytest.mark.long
def test_every_single_byte_of_a_certificate_matters(good: Files) -> None:
    """Of one with a few sources: what holds for the first holds for all."""
    whole = read_certificate(good[CERTIFICATE].decode())
    suite = {**whole.suite, "sources": dict(list(whole.suite["sources"].items())[:1])}
    text = certificate_text(replace(whole, suite=suite))
    for place in range(len(text)):
        for edited in small(text.encode(), place):
            assert is_refused(edited), edited


def is_refused(certificate: bytes) -> bool:
    try:
        text = certificate.decode()
        return bool(list(verification._spelling(text, read_certificate(text))))
    except ValueError:
        return True


@pytest.mark.parametrize("name", [CERTIFICATE, RESULTS, "table.toml", "junit.xml", "report.md", "report.html"])
@settings(max_examples=15, deadline=None, database=None, derandomize=True)
@given(data=st.data())
def test_a_change_anywhere_in_a_file_is_noticed(name: str, data: st.DataObject, good: Files) -> None:
    place = data.draw(st.integers(0, len(good[name]) - 1))
    edited = data.draw(st.sampled_from(list(small(good[name], place))))
    assert noticed({**good, name: edited})


@pytest.mark.parametrize("name", [CERTIFICATE, RESULTS, "table.toml", "junit.xml", "report.md", "report.html"])
def test_a_file_cut_off_empty_or_missing_is_noticed(name: str, good: Files) -> None:
    for part in (0, 1, len(good[name]) // 2, len(good[name]) - 1):
        assert noticed({**good, name: good[name][:part]})
    assert noticed({key: value for key, value in good.items() if key != name})
    assert noticed({**good, name: good[name] + b"\n"})


# ------------------------------------------------------------------------------------ lines


def rearranged(lines: list[bytes], at: int) -> Iterator[tuple[str, list[bytes]]]:
    """A line removed, doubled, moved to the end, swapped with the next; an empty line."""
    before, line, after = lines[:at], lines[at], lines[at + 1 :]
    yield "is missing", before + after
    yield "results, expected one", [*before, line, line, *after]
    yield "not a result record", [*before, line, b"\n", *after]
    if after:
        yield "not sorted by case id", [*before, *after, line]
        yield "not sorted by case id", [*before, after[0], line, *after[1:]]


def test_every_line_has_its_place(good: Files) -> None:
    lines = good[RESULTS].splitlines(keepends=True)
    for at in range(0, len(lines), 17):
        for problem, edited in rearranged(lines, at):
            found = check({**good, RESULTS: b"".join(edited)})
            assert any(problem in text for text in found.problems), (at, found.problems)


def test_rearranged_lines_are_named_when_the_certificate_fits(good: Files) -> None:
    """The digest is made to fit, so only the content tells."""
    lines = good[RESULTS].splitlines(keepends=True)
    for problem, edited in rearranged(lines, 3):
        found = check(sealed(good, b"".join(edited)))
        assert any(problem in text for text in found.problems), found.problems


def test_an_edited_line_is_named(good: Files) -> None:
    lines = good[RESULTS].splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"partitions":1', b'"partitions":1 ').replace(b'"max_lsb":0.0', b'"max_lsb":1.0')
    assert check({**good, RESULTS: b"".join(lines)}).problems[0].startswith(f"{RESULTS} line 5: ")


# ------------------------------------------------------------------------------------ digests made to fit


def sealed(files: Files, results: bytes, **changes: Any) -> Files:
    """The files with these results and a certificate that states what follows from them, as a forger writes it."""
    certificate = read_certificate(files[CERTIFICATE].decode())
    known = []
    for line in results.decode().splitlines():
        try:
            known.append(read_line(line)[0])
        except ResultError:
            continue
    verdict = conclude(known, CASES, certificate.selection, certificate.waivers, TODAY)
    made: Certificate = replace(
        certificate,
        results_sha256=sha256(results.decode()),
        certified=verdict.certified,
        counts=verdict.counts,
        objections=verdict.objections,
    )
    return {**files, RESULTS: results, CERTIFICATE: certificate_text(replace(made, **changes)).encode()}


def with_result(files: Files, result: CaseResult) -> Files:
    """The files with one result in place of that of the same case, all digests fitting."""
    known = {r.case: r for r in map(from_line, files[RESULTS].decode().splitlines())}
    return sealed(files, results_text([*(known | {result.case: result}).values()]).encode())


def test_a_true_failure_among_good_results_is_no_problem(good: Files, drifting: tuple[CaseResult, ...]) -> None:
    """So that the edits below are what is noticed."""
    found = check(with_result(good, next(filter(fails, drifting))))
    assert found.problems == () and not found.certified


def edits(result: CaseResult) -> Iterator[tuple[str, CaseResult]]:
    """A failing result made to look better, one thing or several at a time."""
    passing = "unspecified" if result.expect == "unspecified" else "pass"
    none = dict.fromkeys(result.checks, 0)
    yield "status", replace(result, status=passing)
    yield "failures", replace(result, failures=(), status=passing)
    yield "a failure", replace(result, failures=result.failures[1:])
    yield "verdict", replace(result, verdict=result.expect, failures=(), status=passing)
    yield "no checks", replace(result, failures=(), status=passing, checks={})
    yield "expect", replace(result, expect="unspecified", failures=(), status="unspecified")
    for name in result.checks:
        rest = {key: value for key, value in result.checks.items() if key != name}
        yield f"without {name}", replace(result, failures=(), status=passing, checks=rest)
        if result.checks[name]:
            yield f"{name} zero", replace(result, checks={**result.checks, name: 0})
    if none != result.checks and result.checks.get("gate3"):
        yield "all checks zero", replace(result, failures=(), status=passing, checks=none)


def checks_of(result: CaseResult) -> set[str]:
    return {failure.check for failure in result.failures}


def test_no_failing_result_can_be_made_to_pass(
    good: Files, drifting: tuple[CaseResult, ...], refusing: tuple[CaseResult, ...]
) -> None:
    tried = 0
    for result in (*filter(fails, drifting), *filter(fails, refusing)):
        for what, edited in edits(result):
            tried += 1
            same = fails(edited) and checks_of(edited) == checks_of(result)  # one message of two outputs' is left
            assert same or result_problem(edited, CASE[result.case]) is not None, (what, edited)
    assert tried > 1000


def first_run_is_right(result: CaseResult) -> bool:
    """Whether gates failed on inputs that were drawn later, and nothing else did: no metric is of these."""
    return all("inputs, which were drawn" in failure.message for failure in result.failures)


def test_a_failure_of_a_later_run_alone_can_be_erased(drifting: tuple[CaseResult, ...]) -> None:
    """Its numbers are in no record, so only --rerun finds that; what the first run shows cannot be erased."""
    erased = dict[bool, list[bool]]()
    for result in filter(fails, drifting):
        passing = "unspecified" if result.expect == "unspecified" else "pass"
        none = dict.fromkeys(result.checks, 0)
        edited = replace(result, status=passing, failures=(), checks=none, shapes={}, elements=(), pattern="")
        problem = result_problem(edited, CASE[result.case])
        erased.setdefault(first_run_is_right(result), []).append(problem is None)
    assert all(erased[True]) and not any(erased[False])


def test_such_an_edit_is_noticed_in_a_whole_run(good: Files, drifting: tuple[CaseResult, ...]) -> None:
    result = next(filter(fails, drifting))
    for what, edited in edits(result):
        found = check(with_result(good, edited))
        assert not found.certified and any(result.case in text for text in found.problems), what


def test_a_distance_that_the_table_forbids_is_noticed(good: Files) -> None:
    """The table names a rescale scheme, so that no code may be off."""
    result = next(r for r in map(from_line, good[RESULTS].decode().splitlines()) if r.metrics["max_lsb"] is not None)
    found = check(with_result(good, replace(result, metrics={**result.metrics, "max_lsb": 1.0, "allowed_lsb": 1.0})))
    assert not found.certified and f"{result.case}: max_lsb is 1, gate1 allows 0" in found.problems[0]
    found = check(with_result(good, replace(result, metrics={**result.metrics, "max_lsb": 1.0})))
    assert not found.certified and "max_lsb is 1 and allowed_lsb 0" in found.problems[0]


FLATTERING: tuple[Any, ...] = (None, 0, 0.0, "", "pass", "accept", "reject", [], {})


def test_no_value_of_a_result_is_free_of_the_case(good: Files, drifting: tuple[CaseResult, ...]) -> None:
    """Any junk in any place of a failing record, its own digest fitting, never turns the run into a certified one."""
    result = next(filter(fails, drifting))
    plain = asdict(result)
    tried = 0
    for place in places(json.loads(json.dumps(plain))):
        for junk in FLATTERING:
            text = with_junk(json.dumps({**plain, "sha256": ""}), place, junk)
            try:
                edited, _ = read_line(text)
            except ResultError:
                continue
            tried += 1
            problem = None if edited.case not in CASE else result_problem(edited, CASE[edited.case])
            assert problem is not None or edited.case not in CASE or edited.status == "fail", (place, junk)
    assert tried > 50


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"certified": False}, "says not certified, the results say certified"),
        ({"counts": {"cases": 100, "pass": 99, "unspecified": 1, "fail": 0, "waived": 0}}, "counts"),
        ({"objections": ("the moon",)}, "states 'the moon'"),
        ({"made": "2026-06-02"}, "a day in the future"),
        ({"made": "yesterday"}, "expected a date"),
        ({"results_sha256": "0" * 64}, "sha256 differs"),
        ({"reports": {}}, "report.md is not the report that the run wrote"),
        ({"reports": {"../x": ""}}, "which no run writes"),
        ({"schema": 3}, "schema 3, expected 4"),
    ],
)
def test_a_certificate_that_states_something_else(changes: dict[str, Any], problem: str, good: Files) -> None:
    found = check(sealed(good, good[RESULTS], **changes))
    assert not found.certified and any(problem in text for text in found.problems), found.problems


def test_a_smoke_run_that_claims_to_be_whole(tmp_path: Path) -> None:
    run(tmp_path, selection=Selection(smoke=True))
    files = read_folder(tmp_path).files
    assert check(files).problems == () and not check(files).certified
    found = check(sealed(files, files[RESULTS], selection=Selection()))
    assert not found.certified and "the result is missing" in found.problems[0]


def test_every_check_is_recorded_for_every_case_that_came_to_its_end(good: Files) -> None:
    for line in good[RESULTS].decode().splitlines():
        result = from_line(line)
        assert NOTED - {"count", "tool"} == set(result.checks) and not any(result.checks.values())


def test_a_further_compiler_must_have_been_asked(good: Files) -> None:
    result = from_line(good[RESULTS].decode().splitlines()[0])
    problem = result_problem(result, CASE[result.case], ["vela"])
    assert problem is not None and "did not run: tool" in problem


def test_limits_and_messages_agree(drifting: tuple[CaseResult, ...], refusing: tuple[CaseResult, ...]) -> None:
    """A gate's limit is passed exactly when it says so, and every failing record follows from itself."""
    for result in (*drifting, *refusing):
        failed = checks_of(result)
        assert {name for name, value in result.checks.items() if value} == failed & NOTED
        assert result_problem(result, CASE[result.case]) is None


@pytest.mark.parametrize("table", ["[" * 100_000, "a = " + "{x=" * 50_000, "\0", "é" * 10])
def test_a_hostile_table_is_a_problem_and_no_crash(table: str, good: Files) -> None:
    certificate = read_certificate(good[CERTIFICATE].decode())
    fitting = replace(certificate, table={**certificate.table, "sha256": sha256(table)})
    found = check({**good, "table.toml": table.encode(), CERTIFICATE: certificate_text(fitting).encode()})
    assert not found.certified and found.problems[0].startswith("table.toml")
