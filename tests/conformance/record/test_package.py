"""Certificates: what certifies, and what `verify` notices about a folder that was tampered with."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_backend
import pytest
from calling import call
from places import SHARED

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.record.certificate import (
    Certificate,
    CertificateError,
    Selection,
    certificate_text,
    conclude,
    read_certificate,
    verdict_text,
)
from npu_assay.conformance.record.folder import sha256
from npu_assay.conformance.record.journal import journal
from npu_assay.conformance.record.names import CERTIFICATE, JOURNAL, RESULTS, TABLE, PackageError
from npu_assay.conformance.record.results import CaseResult, ResultError, from_line, to_line
from npu_assay.conformance.record.waivers import Waiver, WaiverError, load_waivers
from npu_assay.conformance.report.data import Report
from npu_assay.conformance.run.selection import SelectionError
from npu_assay.conformance.run.session import Request, assay
from npu_assay.conformance.table import load_table
from npu_assay.conformance.verify.verification import verify

EVERYTHING = Selection()
TODAY = datetime.date(2026, 6, 1)
NEG = "aten.neg.default/operator/accept/baseline"
CASES = cases_for(load_table(fake_backend.TABLE))


class Silent:
    """No progress."""

    def started(self, cases: int) -> None:
        pass

    def finished(self, result: CaseResult) -> None:
        pass


def run(
    folder: Path, name: str = "backend", selection: Selection = EVERYTHING, waivers: tuple[Waiver, ...] = ()
) -> Report:
    request = Request(f"fake_backend:{name}", None, selection, 1, folder, waivers)
    return assay(request, Silent(), lambda: TODAY)


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assay") / "out"
    assert run(folder).certificate.objections == ()
    return folder


@pytest.fixture(scope="module")
def drifting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assay") / "out"
    run(folder, "refuses")
    return folder


def test_a_sound_backend_is_certified(certified: Path) -> None:
    found = verify(certified, TODAY)
    assert found.certified and found.problems == ()
    assert found.verdict is not None and found.verdict.counts["fail"] == 0
    assert {path.name for path in certified.iterdir()} == {
        CERTIFICATE,
        RESULTS,
        TABLE,
        "drift.json",
        "junit.xml",
        "report.md",
        "report.html",
    }


def test_the_same_run_writes_the_same_results(certified: Path, tmp_path: Path) -> None:
    run(tmp_path)
    assert (tmp_path / RESULTS).read_bytes() == (certified / RESULTS).read_bytes()


class Saves(Silent):
    """Saves the table again while the cases run."""

    def __init__(self, table: Path) -> None:
        self.table = table

    def started(self, cases: int) -> None:
        self.table.write_text(self.table.read_text().replace("made up", "made up again"))


def test_a_table_that_is_saved_again_during_the_run_is_the_one_that_was_read(tmp_path: Path) -> None:
    table = tmp_path / "fake@1.0.toml"
    text = Path(fake_backend.TABLE).read_text()
    table.write_text(text)
    request = Request("fake_backend:backend", str(table), Selection(NEG), 1, tmp_path / "out")
    assay(request, Saves(table), lambda: TODAY)
    assert table.read_text() != text == (tmp_path / "out" / TABLE).read_text()
    assert verify(tmp_path / "out", TODAY).problems == ()


def test_a_failing_backend_is_not(drifting: Path) -> None:
    found = verify(drifting, TODAY)
    assert not found.certified and found.problems == ()
    assert found.verdict is not None and "cases fail" in found.verdict.objections[0]


@pytest.mark.parametrize("selection", [Selection(smoke=True), Selection("baseline"), Selection("neg", True)])
def test_a_selection_never_certifies(selection: Selection, tmp_path: Path) -> None:
    certificate = run(tmp_path, selection=selection).certificate
    assert not certificate.certified and certificate.counts["fail"] == 0
    assert not verify(tmp_path, TODAY).certified and verify(tmp_path, TODAY).problems == ()


def test_no_cases_never_certify(tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="'nothing_like_this': matches none of 110 case ids"):
        run(tmp_path, selection=Selection("nothing_like_this"))
    assert not list(tmp_path.iterdir())
    assert conclude((), (), Selection(), (), TODAY).objections == ("no case was run",)


def test_a_random_program_may_be_of_operators_that_the_table_does_not_promise(tmp_path: Path) -> None:
    certificate = run(tmp_path, selection=Selection("fuzz/7/123")).certificate
    silent = certificate.counts["unspecified"] == 1
    assert silent and certificate.passed and not certificate.certified
    assert verify(tmp_path, TODAY).problems == ()


# ------------------------------------------------------------------------------------ tampering


def edit(folder: Path, name: str, change: Callable[[str], str]) -> None:
    path = folder / name
    before = path.read_text()
    after = change(before)
    assert after != before
    path.write_text(after)


def pass_all(text: str) -> str:
    """Turn failures into passes, as someone would who edits results and certificate alike."""
    lines = [json.loads(line) for line in text.splitlines()]
    edited = [line | {"failures": [], "status": "pass"} if line["status"] == "fail" else line for line in lines]
    return "".join(json.dumps(e, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n" for e in edited)


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        (RESULTS, lambda text: text[:-1], "truncated"),
        (RESULTS, lambda text: text[: len(text) // 2], "the result is missing"),
        (RESULTS, lambda text: "".join(text.splitlines(keepends=True)[1:]), "the result is missing"),
        (RESULTS, lambda text: "".join(reversed(text.splitlines(keepends=True))), "not sorted by case id"),
        (RESULTS, lambda text: text + text.splitlines(keepends=True)[-1], "found 2 results, expected one"),
        (RESULTS, lambda text: text.replace("baseline", "basement"), "no such case"),
        (RESULTS, lambda text: text.replace('"side":"accept"', '"side":"outside"'), "side is 'outside'"),
        (RESULTS, pass_all, "contradicts the table, but no failure is recorded"),
        (RESULTS, lambda text: "", "the result is missing"),
        (RESULTS, lambda text: text.replace("{", "[", 1), "not a result record"),
        (CERTIFICATE, lambda text: text.replace('"certified": false', '"certified": true'), "says certified"),
        (CERTIFICATE, lambda text: text.replace('"waived": 0', '"waived": 7'), "counts"),
        (CERTIFICATE, lambda text: text[:-10], "is not a certificate"),
        (CERTIFICATE, lambda text: text.replace('"counts"', '"count"'), "missing or unknown"),
        (CERTIFICATE, lambda text: "[]", "is not a certificate"),
        (TABLE, lambda text: text + "\n", "is not the table that the certificate names"),
    ],
)
def test_tampering_is_noticed(
    drifting: Path, tmp_path: Path, name: str, change: Callable[[str], str], problem: str
) -> None:
    copy = shutil.copytree(drifting, tmp_path / "copy")
    edit(copy, name, change)
    found = verify(copy, TODAY)
    assert not found.certified
    assert any(problem in text for text in found.problems), found.problems


JUNK: tuple[Any, ...] = (None, -1, 1.5, True, "x", [], {}, [[]], float("nan"))


def places(data: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a JSON value, the whole of it first; of a list and of digests the first entry."""
    yield place
    if isinstance(data, dict):
        for key in list(data)[: 1 if "sources" in place else None]:
            yield from places(data[key], (*place, key))
    elif isinstance(data, list) and data:
        yield from places(data[0], (*place, 0))


def with_junk(text: str, place: tuple[str | int, ...], junk: Any) -> str:
    data = [json.loads(text)]
    inner: Any = data
    for key in (0, *place)[:-1]:
        inner = inner[key]
    inner[(0, *place)[-1]] = junk
    return json.dumps(data[0], sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def test_any_wrong_value_in_a_certificate_is_a_problem_and_no_crash(certified: Path) -> None:
    text = certificate_text(
        replace(
            read_certificate((certified / CERTIFICATE).read_text()), waivers=(waiver("x", "gate1"),), objections=("y",)
        )
    )
    refused = 0
    for place in places(json.loads(text)):
        for junk in JUNK:
            try:
                read_certificate(with_junk(text, place, junk))
            except CertificateError as error:
                refused += "is not a certificate" in str(error)
    assert refused > 200


def test_any_wrong_value_in_a_result_is_a_problem_and_no_crash(drifting: Path) -> None:
    line = next(r for r in (drifting / RESULTS).read_text().splitlines() if '"status":"fail"' in r)
    refused = 0
    for place in places(json.loads(line)):
        for junk in JUNK:
            try:
                from_line(with_junk(line, place, junk))
            except ResultError:
                refused += 1
    assert refused > 150


def test_a_damaged_table_is_a_problem_and_no_crash(certified: Path, tmp_path: Path) -> None:
    """Also when the certificate was made to fit."""
    copy = shutil.copytree(certified, tmp_path / "copy")
    edit(copy, TABLE, lambda text: text.replace('"', "", 1))
    certificate = json.loads((copy / CERTIFICATE).read_text())
    certificate["table"]["sha256"] = sha256((copy / TABLE).read_text())
    (copy / CERTIFICATE).write_text(json.dumps(certificate))
    assert verify(copy, TODAY).problems[0].startswith("table.toml: ")


@pytest.mark.parametrize("name", [CERTIFICATE, RESULTS, TABLE])
def test_a_missing_file_makes_a_folder_incomplete(certified: Path, tmp_path: Path, name: str) -> None:
    copy = shutil.copytree(certified, tmp_path / "copy")
    (copy / name).unlink()
    found = verify(copy, TODAY)
    assert not found.certified and "incomplete" in found.problems[0]


def test_an_interrupted_run_is_incomplete_and_drops_the_old_certificate(certified: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(certified, tmp_path / "copy")
    with journal(copy, {}, ()) as written:
        assert not (copy / CERTIFICATE).exists()
        written.add(run(tmp_path / "one", selection=Selection(NEG)).results[0])
    assert (copy / JOURNAL).read_bytes().count(b"\n") == 2
    assert verify(copy, TODAY).problems == (
        "incomplete: the run was interrupted after 1 cases, so there is no certificate.json",
    )


def test_a_missing_or_unusable_folder(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="no such folder"):
        verify(tmp_path / "nowhere", TODAY)
    with pytest.raises(PackageError, match="no run has written here"):
        verify(tmp_path, TODAY)
    (tmp_path / "file").write_text("")
    with pytest.raises(PackageError, match="not a zip archive, or cut off; expected a folder"):
        verify(tmp_path / "file", TODAY)
    with pytest.raises(PackageError, match="cannot be written"), journal(tmp_path / "file", {}, ()):
        pass


# ------------------------------------------------------------------------------------ waivers

WAIVER = "[[waiver]]\ncase = 'x'\nreason = 'r'\nowner = 'o'\n"


def waiver(case: str, *checks: str, expires: str = "2026-06-01", max_lsb: int | None = None) -> Waiver:
    return Waiver(case, checks, "known", "someone", datetime.date.fromisoformat(expires), max_lsb)


def failing(folder: Path) -> dict[str, list[str]]:
    """The checks that each failing case fails."""
    results = map(from_line, (folder / RESULTS).read_text().splitlines())
    return {r.case: list(dict.fromkeys(f.check for f in r.failures)) for r in results if r.failures}


def test_waived_failures_certify_until_the_waiver_expires(drifting: Path, tmp_path: Path) -> None:
    waivers = tuple(waiver(name, *checks) for name, checks in failing(drifting).items())
    certificate = run(tmp_path, "refuses", waivers=waivers).certificate
    assert certificate.certified and certificate.counts["waived"] == len(waivers) > 0
    assert verify(tmp_path, TODAY).certified
    waived = f"certified with {len(waivers)} of {certificate.counts['cases']} cases failing and waived"
    assert verdict_text(True, certificate.counts, "numbers") == waived
    assert f": {waived}" in (tmp_path / "report.md").read_text().splitlines()[0]
    assert waived in (tmp_path / "report.html").read_text().partition("</title>")[0]
    later = verify(tmp_path, TODAY + datetime.timedelta(days=1))
    assert not later.certified and any("expired on 2026-06-01" in text for text in later.problems + _objections(later))


def _objections(found: object) -> tuple[str, ...]:
    verdict = getattr(found, "verdict", None)
    return () if verdict is None else tuple(verdict.objections)


@pytest.mark.parametrize(
    ("case", "problem"), [(NEG, "is not needed: the case does not fail"), ("aten.nothing", "matches no case")]
)
def test_a_waiver_for_nothing_fails(case: str, problem: str, tmp_path: Path) -> None:
    objections = run(tmp_path, waivers=(waiver(case, "gate1"),)).certificate.objections
    assert len(objections) == 1 and problem in objections[0]


def judged(name: str, folder: Path, *waivers: Waiver) -> Certificate:
    """The certificate of a run of one case, and the same verdict from its folder."""
    certificate = run(folder, name, Selection(NEG), waivers).certificate
    verdict = verify(folder, TODAY).verdict
    assert verdict is not None and verdict.objections == certificate.objections
    return certificate


def test_a_waiver_for_a_number_does_not_cover_an_error(tmp_path: Path) -> None:
    """The same case and waiver: numbers that are off are waived, a partitioner that raises is not."""
    checks = failing_checks(run(tmp_path / "plain", "drifts", Selection(NEG)))
    known = waiver(NEG, *checks)
    assert "gate1" in checks and judged("drifts", tmp_path / "drifts", known).passed
    found = judged("crashes", tmp_path / "crashes", known)
    assert found.counts["fail"] == 1 and not found.passed
    assert any(f"names {', '.join(checks)}, which does not fail" in text for text in found.objections)


def failing_checks(report: Report) -> list[str]:
    return list(dict.fromkeys(f.check for r in report.results for f in r.failures))


def test_a_waiver_names_all_that_fails_and_how_far(tmp_path: Path) -> None:
    checks = failing_checks(run(tmp_path / "0", "drifts", Selection(NEG)))
    less = judged("drifts", tmp_path / "1", waiver(NEG, *checks[:1]))
    assert not less.passed and any(f"is not enough: the case also fails {checks[1]}" in o for o in less.objections)
    near, far = (judged("drifts", tmp_path / str(n + 1), waiver(NEG, *checks, max_lsb=n)) for n in (1, 10**6))
    assert far.passed and near.passed == (
        run(tmp_path / "9", "drifts", Selection(NEG)).results[0].metrics["max_lsb"] == 1
    )
    twice = judged("drifts", tmp_path / "twice", waiver(NEG, *checks), waiver(NEG, *checks))
    assert any("is not the first: expected one waiver per case" in text for text in twice.objections)


def test_waivers_of_other_cases_than_the_selected_ones_are_left_alone(drifting: Path, tmp_path: Path) -> None:
    others = tuple(waiver(name, *checks) for name, checks in failing(drifting).items() if name != NEG)
    found = judged("backend", tmp_path, *others)
    assert len(others) > 0 and found.passed and not found.certified
    wrong = judged("backend", tmp_path / "wrong", waiver("aten.neg.default/operator/accept/baselin", "gate1"))
    assert not wrong.passed and "matches no case, did you mean" in wrong.objections[1]


@pytest.mark.parametrize(
    "text",
    [
        "waiver = 1",
        "[[waivers]]\ncase = 'x'",
        "[[waiver]]\ncase = 'x'",
        f"{WAIVER}checks = ['gate1']\nexpires = 'soon'",
        f"{WAIVER}checks = ['gate1']\nexpires = 2026-01-01".replace("'r'", "''"),
        f"{WAIVER}checks = 'gate1'\nexpires = 2026-01-01",
        f"{WAIVER}checks = []\nexpires = 2026-01-01",
        f"{WAIVER}checks = ['gate1', 'gate1']\nexpires = 2026-01-01",
        f"{WAIVER}checks = ['gate1']\nexpires = 2026-01-01\nmax_lsb = 0",
        f"{WAIVER}checks = ['gate1']\nexpires = 2026-01-01\nmax_lsb = true",
        "[[waiver]]\ncase = 'x'\nreason = 'r'\nowner = 'o'\nexpires = 2026-01-01\nuntil = 1",
        "[[waiver",
    ],
)
def test_unreadable_waivers_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(text)
    with pytest.raises(WaiverError, match=r"w\.toml"):
        load_waivers(tmp_path / "w.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WAIVER, "key 'checks' is missing: a waiver names the checks that may fail, such as checks = "),
        (f"{WAIVER}checks = ['gate 1']\n", "unknown check 'gate 1', did you mean 'gate1'?"),
        (WAIVER.replace("[[waiver]]", "[waiver]"), "w.toml: found [waiver], expected [[waiver]], with two brackets"),
        (f"{WAIVER}check = ['gate1']\n", "'reason'] and perhaps max_lsb, found ["),
    ],
)
def test_a_waiver_of_another_form_is_told_the_right_one(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(f"{text}expires = 2026-01-01\n")
    found = call("certify", "neutron", "--waivers", tmp_path / "w.toml")
    assert found.exit_code == 2 and found.output.count("\n") == 1 and message in found.output


def test_waivers_are_read(tmp_path: Path) -> None:
    text = f"{WAIVER}checks = ['gate1', 'crash']\nexpires = 2026-01-01\n"
    expected = Waiver("x", ("gate1", "crash"), "r", "o", datetime.date(2026, 1, 1))
    (tmp_path / "w.toml").write_text(f"{text}{text}max_lsb = 3\n")
    assert load_waivers(tmp_path / "w.toml") == (expected, replace(expected, max_lsb=3))


def test_results_stand_in_the_order_of_their_ids(certified: Path) -> None:
    names = [json.loads(line)["case"] for line in (certified / RESULTS).read_text().splitlines()]
    assert names == sorted(case.id for case in CASES)


def test_lines_are_what_records_give(drifting: Path, tmp_path: Path) -> None:
    report = run(tmp_path, "refuses")
    assert (drifting / RESULTS).read_text() == "".join(to_line(result) + "\n" for result in report.results)


def resealed(folder: Path, name: str, change: Callable[[str], str]) -> None:
    """Change a report, and state its new digest in a certificate that fits itself."""
    text = change((folder / name).read_text())
    (folder / name).write_text(text)
    certificate = read_certificate((folder / CERTIFICATE).read_text())
    certificate = replace(certificate, reports={**certificate.reports, name: sha256(text)})
    (folder / CERTIFICATE).write_text(certificate_text(certificate))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("report.html", "</body>", "<script>alert(1)</script></body>"),
        ("report.md", "\n", "\nAudited by somebody important.\n"),
        ("junit.xml", 'failures="0"', 'failures="00"'),
        ("drift.json", "{", "{ "),
    ],
)
def test_a_report_with_a_new_digest_is_made_again_and_compared(
    name: str, old: str, new: str, certified: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(certified, tmp_path / "out"))
    assert old in (folder / name).read_text()
    resealed(folder, name, lambda text: text.replace(old, new, 1))
    found = verify(folder, TODAY)
    assert not found.certified
    assert [problem.partition(" (from line ")[0] for problem in found.problems] == [
        f"{name} is not the report that the results give"
    ]


def test_reports_of_another_suite_are_compared_for_a_note(certified: Path, tmp_path: Path) -> None:
    """What another version writes is its own; who wants to know runs that version's `assay verify`."""
    folder = Path(shutil.copytree(certified, tmp_path / "out"))
    certificate = read_certificate((folder / CERTIFICATE).read_text())
    suite = {**certificate.suite, "sources": {"npu_assay/__init__.py": "0" * 64}}
    (folder / CERTIFICATE).write_text(certificate_text(replace(certificate, suite=suite)))
    resealed(folder, "report.html", lambda text: f"{text}<script>alert(1)</script>\n")
    found = verify(folder, TODAY)
    assert found.problems == ()
    assert any(note.startswith("report.html is not the report that the results give") for note in found.notes)


@pytest.mark.long
@pytest.mark.parametrize("name", ["drifts", "strays"])
def test_reports_of_failures_and_random_programs_are_made_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a backend that is only found by a path, which is a part of every command in the reports."""
    monkeypatch.setenv("PYTHONPATH", str(SHARED))
    request = Request(f"fake_backend:{name}", None, EVERYTHING, 1, tmp_path / "out", fuzz=20)
    report = assay(request, Silent(), lambda: TODAY)
    assert report.failures and report.path == str(SHARED)
    assert verify(tmp_path / "out", TODAY).problems == ()
