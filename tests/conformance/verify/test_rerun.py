"""A certificate's cases run again: what was made up in full is found, and what is true is reproduced."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_backend
import memorizing
import pytest
from calling import call

from npu_assay.conformance.common.shapes import check_shape
from npu_assay.conformance.record.certificate import (
    Selection,
    certificate_text,
    conclude,
    read_certificate,
)
from npu_assay.conformance.record.folder import results_text, sha256, write_package
from npu_assay.conformance.record.names import CERTIFICATE, FUZZ, RESULTS
from npu_assay.conformance.record.results import CaseResult, Failure, read_results
from npu_assay.conformance.record.waivers import Waiver
from npu_assay.conformance.report.data import make_report
from npu_assay.conformance.report.render import reports
from npu_assay.conformance.run import observation
from npu_assay.conformance.run.session import Request, assay
from npu_assay.conformance.table import load_table
from npu_assay.conformance.verify.rerun import chosen
from npu_assay.conformance.verify.rerun_compare import difference, verdict_difference
from npu_assay.conformance.verify.rerun_record import SHAPE
from npu_assay.conformance.verify.verification import verify
from tests.conformance.commands.test_cli import child
from tests.conformance.record.test_package import CASES, NEG, TODAY, Silent, run

ALL = len(CASES)


def again(folder: Path, *more: str | Path) -> tuple[int, list[str]]:
    """Exit code and lines of `assay verify FOLDER --rerun ...`."""
    found = call("verify", folder, "--rerun", *more, "-n", "1")
    return found.exit_code, found.output.splitlines()


def results_of(folder: Path) -> dict[str, CaseResult]:
    return read_results((folder / RESULTS).read_text(), RESULTS)


def forged(source: Path, target: Path, results: Sequence[CaseResult], **changes: Any) -> Path:
    """The folder of a run with other results, and all that follows from them made anew: digests, verdict, reports."""
    certificate = read_certificate((source / CERTIFICATE).read_text())
    table = load_table(fake_backend.TABLE)
    cases = certificate.selection.of(table, CASES)
    verdict = conclude(results, cases, certificate.selection, certificate.waivers, TODAY)
    made = replace(
        certificate,
        results_sha256=sha256(results_text(results)),
        certified=verdict.certified,
        counts=verdict.counts,
        objections=verdict.objections,
        reports={},
        **changes,
    )
    report = make_report(made, table, results, cases)
    target.mkdir()
    table_text = Path(fake_backend.TABLE).read_text()
    write_package(target, {RESULTS: results_text(results), "table.toml": table_text, **reports(report)}, made)
    return target


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good") / "out"
    run(folder)
    return folder


@pytest.fixture(scope="module")
def straying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("straying") / "out"
    run(folder, "strays")
    return folder


# ------------------------------------------------------------------------------------ what is true


def test_a_true_certificate_is_reproduced_to_the_byte(good: Path) -> None:
    before = {path: path.read_bytes() for path in good.iterdir()}
    code, lines = again(good)
    assert code == 0, lines
    assert lines[-1] == f"{good}: certified, reproduced ({ALL} of {ALL} cases, to the byte)"
    assert f"run again: fake_backend:backend, {ALL} of {ALL} cases, random numbers of seed 0" in lines
    assert {path: path.read_bytes() for path in good.iterdir()} == before


def test_an_archive_is_reproduced_as_its_folder_is(good: Path, tmp_path: Path) -> None:
    assert call("package", good, "--out", tmp_path / "a.zip").exit_code == 0
    code, lines = again(tmp_path / "a.zip", "7")
    assert code == 0 and lines[-1].endswith(f"a.zip: certified, reproduced in part (7 of {ALL} cases, to the byte)")


def test_without_a_run_a_certificate_is_self_declared(good: Path) -> None:
    found = call("verify", good)
    assert found.exit_code == 0 and found.output.splitlines()[-1] == f"{good}: certified, self-declared"


def test_other_random_numbers_are_compared_by_verdict(good: Path) -> None:
    code, lines = again(good, "--seed", "5")
    assert code == 0, lines
    assert lines[-1].endswith(f"reproduced ({ALL} of {ALL} cases, by verdict with random numbers of seed 5)")


def test_a_certificate_with_a_seed_is_run_with_it(tmp_path: Path) -> None:
    run(tmp_path / "out", selection=Selection(NEG, seed=3))
    code, lines = again(tmp_path / "out")
    assert code == 1 and lines[-1].endswith("not certified, reproduced (1 of 1 cases, to the byte)"), lines


def test_a_run_that_is_not_certified_is_reproduced_and_stays_so(straying: Path) -> None:
    code, lines = again(straying)
    assert code == 1 and lines[-1] == f"{straying}: not certified, reproduced ({ALL} of {ALL} cases, to the byte)"


@pytest.mark.slow
def test_waived_cases_are_run_again_as_the_others(straying: Path, tmp_path: Path) -> None:
    failing = {name: r for name, r in results_of(straying).items() if r.failures}
    waivers = [
        Waiver(name, tuple(sorted({f.check for f in r.failures})), "r", "o", TODAY.replace(year=2999))
        for name, r in failing.items()
    ]
    run(tmp_path / "out", "strays", waivers=tuple(waivers))
    code, lines = again(tmp_path / "out")
    waived = f"certified with {len(failing)} of {ALL} cases failing and waived"
    assert code == 0 and lines[-1].endswith(f"{waived}, reproduced ({ALL} of {ALL} cases, to the byte)")


@pytest.mark.slow
def test_random_programs_are_run_again(tmp_path: Path) -> None:
    """Those that were drawn, and those that the failing ones were made small to."""
    request = Request("fake_backend:strays", None, Selection(NEG, seed=2), 1, tmp_path / "out", fuzz=90)
    assay(request, Silent(), lambda: TODAY)
    lines = (tmp_path / "out" / FUZZ).read_text().splitlines()
    assert len(lines) > 90 and any("/" in json.loads(line)["case"][len("fuzz/2/000000") :] for line in lines)
    code, found = again(tmp_path / "out")
    assert code == 1 and found[-1].endswith(f"reproduced ({1 + len(lines)} of {1 + len(lines)} cases, to the byte)")
    assert again(tmp_path / "out", "--seed", "4")[1][-1].partition(", ")[2].startswith("reproduced")


# ------------------------------------------------------------------------------------ what was made up


def test_records_made_up_in_full_are_found(good: Path, straying: Path, tmp_path: Path) -> None:
    """Every failing record is a right backend's; digests, verdict and reports are made anew: only a run tells."""
    right, true = results_of(good), results_of(straying)
    folder = forged(straying, tmp_path / "forged", list(right.values()))
    assert verify(folder, TODAY).certified
    code, lines = again(folder)
    assert code == 1
    wrong = [name for name in true if true[name] != right[name]]
    named = [line.split(": ")[1] for line in lines if line.startswith("differs: ")]
    assert named == sorted(wrong)[:20] and wrong
    assert lines[-1].endswith(
        f"not certified, not reproduced ({len(wrong)} of {ALL} cases that were run again differ, to the byte)"
    )


def test_a_single_forged_line_is_named_and_how_it_differs(good: Path, tmp_path: Path) -> None:
    results = results_of(good)
    one = results[NEG]
    results[NEG] = replace(one, blobs=("0" * 64,))
    folder = forged(good, tmp_path / "forged", list(results.values()))
    assert verify(folder, TODAY).certified
    code, lines = again(folder)
    assert code == 1
    (line,) = [line for line in lines if line.startswith("differs: ")]
    assert line == f"differs: {NEG}: blobs: found {one.blobs[0]}, the record says {'0' * 64}"
    assert lines[-1].endswith(f"not reproduced (1 of {ALL} cases that were run again differ, to the byte)")


def memorize(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memorizing.learn(folder / "seen.json")
    monkeypatch.setenv(memorizing.FILE, str(folder / "seen.json"))


@pytest.mark.long
def test_a_backend_that_knows_the_numbers_does_not_know_those_that_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memorize(tmp_path, monkeypatch)
    request = Request("memorizing:backend", None, Selection(memorizing.PART), 1, tmp_path / "out")
    assert not assay(request, Silent(), lambda: TODAY).certificate.passed
    messages = [f.message for r in results_of(tmp_path / "out").values() for f in r.failures]
    assert messages and all(text.startswith("wrong; on the third inputs") for text in messages)


@pytest.mark.long
def test_a_backend_that_knows_the_numbers_is_found_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by an earlier version of the suite, which judged the first inputs alone."""
    memorize(tmp_path, monkeypatch)
    monkeypatch.setattr(observation, "judge_drawn", lambda *_: None)
    request = Request("memorizing:backend", None, Selection(memorizing.PART), 1, tmp_path / "out")
    assert assay(request, Silent(), lambda: TODAY).certificate.passed
    assert ", reproduced (" in again(tmp_path / "out")[1][-1]
    code, lines = again(tmp_path / "out", "--seed", "6")
    assert code == 1 and ", not reproduced (" in lines[-1]
    (line, *_) = [line for line in lines if line.startswith("differs: ")]
    assert "gate1" in line and "the record says that it passes" in line


def test_a_certificate_cannot_call_itself_reproduced(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "out")
    certificate = read_certificate((good / CERTIFICATE).read_text())
    (tmp_path / "out" / CERTIFICATE).write_text(certificate_text(replace(certificate, trust="reproduced")))
    found = call("verify", tmp_path / "out")
    assert found.exit_code == 1 and "trust 'reproduced', expected 'self-declared'" in found.output


def test_a_record_with_problems_is_not_run(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "out")
    (tmp_path / "out" / RESULTS).write_text((good / RESULTS).read_text().replace("accept", "reject", 1))
    code, lines = again(tmp_path / "out")
    assert code == 1 and "not run again: the record has problems" in lines and lines[-1].endswith(": not certified")


# ------------------------------------------------------------------------------------ another backend or table


def changed_sources(good: Path, target: Path, sources: Mapping[str, str]) -> Path:
    certificate = read_certificate((good / CERTIFICATE).read_text())
    backend = {**certificate.backend, "sources": dict(sources)}
    return forged(good, target, list(results_of(good).values()), backend=backend)


def test_another_file_of_the_backend_is_another_backend(good: Path, tmp_path: Path) -> None:
    sources = dict(read_certificate((good / CERTIFICATE).read_text()).backend["sources"])
    here = sources["fake_backend.py"][:12]
    changed = changed_sources(good, tmp_path / "changed", sources | {"fake_backend.py": "0" * 64})
    code, lines = again(changed)
    stated = f"fake_backend.py: found sha256 {here}, recorded sha256 {'0' * 12}"
    assert code == 1 and f"problem: not run again: files differ from those of the certified backend: {stated}" in lines
    assert lines[-1] == f"{changed}: not certified, not run again"
    fewer = changed_sources(good, tmp_path / "fewer", {k: v for k, v in sources.items() if k != "fake_backend.py"})
    assert f"fake_backend.py: found sha256 {here}, recorded no such file" in again(fewer)[1][-3]


def test_another_version_of_what_the_backend_stands_on_is_another_backend(tmp_path: Path) -> None:
    request = Request("fake_backend:checked", None, Selection(NEG), 1, tmp_path / "out", tools=("vela",))
    assay(request, Silent(), lambda: TODAY)
    assert again(tmp_path / "out")[1][-1].endswith("not certified, reproduced (1 of 1 cases, to the byte)")
    certificate = read_certificate((tmp_path / "out" / CERTIFICATE).read_text())
    environment = {**certificate.environment, "pytest": "0"}
    results = list(results_of(tmp_path / "out").values())
    folder = forged(tmp_path / "out", tmp_path / "forged", results, environment=environment)
    found = f"pytest: found {certificate.environment['pytest']}, recorded 0"
    assert f"problem: not run again: versions differ from those of the certified backend: {found}" in again(folder)[1]


def test_another_library_of_the_machine_is_a_note(good: Path, tmp_path: Path) -> None:
    environment = read_certificate((good / CERTIFICATE).read_text()).environment
    folder = forged(good, tmp_path / "out", list(results_of(good).values()), environment={**environment, "torch": "1"})
    code, lines = again(folder, "2")
    assert code == 0 and any(line.startswith("note: the record was made with torch 1, here ") for line in lines)


def test_a_given_backend_takes_the_place_of_the_named_one(good: Path) -> None:
    code, lines = again(good, "4", "--backend", "fake_backend:drifts", "--draw", "0")
    assert code == 1 and f"run again: fake_backend:drifts, 4 of {ALL} cases, random numbers of seed 0" in lines
    code, lines = again(good, "4", "--backend", "neutron")
    assert code == 1 and any("files differ from those of the certified backend" in line for line in lines)


def test_a_given_table_must_be_the_certificates(good: Path) -> None:
    assert again(good, "2", "--table", fake_backend.TABLE)[0] == 0
    code, lines = again(good, "2", "--table", "neutron@1.3")
    assert code == 1 and any("problem: table.toml is another table than neutron@1.3" in line for line in lines)
    assert "not run again: the record has problems" in lines


def test_a_given_table_takes_the_place_of_the_note_on_where_it_comes_from(good: Path) -> None:
    """Nothing needs to run for it."""
    assert "note: the suite ships no table fake@1.0: --table FILE" in call("verify", good).output
    given = call("verify", good, "--table", fake_backend.TABLE)
    assert given.exit_code == 0 and "note: the suite ships no table" not in given.output
    other = call("verify", good, "--table", "neutron@1.3")
    assert other.exit_code == 1 and "problem: table.toml is another table than neutron@1.3" in other.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rerun", "--backend", "nowhere:backend"), "cannot import nowhere"),
        (("--rerun", "--backend", "neutrn"), "no backend 'neutrn'"),
        (("--rerun", "--table", "fake@9"), "no table 'fake@9'"),
        (("--seed", "3"), "--seed says how to run cases again, expected --rerun with it"),
        (("--out", "x.json"), "--out says how to run cases again"),
        (("--rerun", "0"), "0 is not in the range x>=1"),
        (("--rerun", "some"), "found 'some', expected a number or nothing: assay verify DIR --rerun [N]"),
    ],
)
def test_what_cannot_be_run_is_a_usage_error(arguments: tuple[str, ...], message: str, good: Path) -> None:
    found = call("verify", good, *arguments)
    assert found.exit_code == 2 and message in found.stderr, found.output


def test_a_backend_that_is_not_here_is_one_error(good: Path, tmp_path: Path) -> None:
    certificate = read_certificate((good / CERTIFICATE).read_text())
    backend = {**certificate.backend, "spec": "elsewhere.npu:backend"}
    folder = forged(good, tmp_path / "out", list(results_of(good).values()), backend=backend)
    found = call("verify", folder, "--rerun")
    assert found.exit_code == 2 and len(found.stderr.splitlines()) == 1
    assert "cannot import elsewhere.npu" in found.stderr and "give another name of it with --backend" in found.stderr


def test_limits_that_no_run_writes_are_one_error(good: Path, tmp_path: Path) -> None:
    certificate = read_certificate((good / CERTIFICATE).read_text())
    for number, limits in enumerate(("", "nan s and 1 MiB a case", "1e999 s and 9 MiB a case", "much", "1--e s and 1")):
        environment = {**certificate.environment, "limits": limits}
        name = tmp_path / str(number)
        folder = forged(good, name, list(results_of(good).values()), environment=environment)
        found = call("verify", folder, "--rerun", "1")
        assert found.exit_code == 2 and "give --timeout and --memory" in found.stderr
    assert again(folder, "1", "--timeout", "100", "--memory", "4096")[0] == 0


@pytest.mark.slow
def test_an_interrupted_run_reproduces_nothing(good: Path) -> None:
    process = child("verify", str(good), "--rerun", "-n", "1", "--backend", "fake_backend:slow")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]  # a note, how many cases, and the first tenth of them
    os.killpg(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=120)
    assert process.returncode == 1 and f"{ALL // 10}/{ALL} cases" in lines[2], lines
    assert rest.splitlines()[-1] == "interrupted: not all cases were run again" and "reproduced" not in rest


# ------------------------------------------------------------------------------------ which cases, and the record


def test_which_cases_follows_from_the_seed(good: Path) -> None:
    results = results_of(good)
    taken = chosen(results, 10, 1)
    assert taken == chosen(dict(reversed(results.items())), 10, 1) != chosen(results, 10, 2)
    assert len(set(taken)) == 10 and chosen(results, 4, 1) == taken[:4]
    assert chosen(results, None, 1) == chosen(results, ALL, 1) == chosen(results, ALL + 1, 7) == sorted(results)


def test_every_case_is_drawn_by_some_seed(good: Path) -> None:
    results = results_of(good)
    assert {name for draw in range(200) for name in chosen(results, 10, draw)} == set(results)


def test_the_drawn_cases_can_be_drawn_again(good: Path) -> None:
    _, lines = again(good, "3", "--seed", "1")
    (line,) = [line for line in lines if line.startswith("drawn by seed ")]
    seed = line.split()[3]
    assert line == f"drawn by seed {seed} (--draw {seed} takes the same cases)"
    assert line in again(good, "3", "--draw", seed)[1]


@pytest.mark.long
def test_a_record_says_what_was_run_and_what_differs(good: Path, tmp_path: Path) -> None:
    target = tmp_path / "record.json"
    assert again(good, "6", "--draw", "9", "--out", target)[0] == 0
    record = json.loads(target.read_text())
    assert record["cases"] == {"recorded": ALL, "run": 6, "draw": 9} and record["reproduced"] is True
    assert record["certificate_sha256"] == hashlib.sha256((good / CERTIFICATE).read_bytes()).hexdigest()
    again(good, "--backend", "fake_backend:drifts", "--out", target)
    record = json.loads(target.read_text())
    assert record["reproduced"] is False and len(record["differences"]) > 50
    check_shape(record, SHAPE)
    assert record["backend"] == "fake_backend:drifts"


def test_a_record_does_not_stand_in_the_folder(good: Path) -> None:
    found = call("verify", good, "--rerun", "1", "--out", good / "report.md")
    assert found.exit_code == 2 and "whose files it is made of" in found.stderr


def test_a_failure_that_comes_and_goes_with_the_numbers_is_no_contradiction(good: Path) -> None:
    result = results_of(good)[NEG]
    failing = replace(result, failures=(Failure("gate1", "1 off"),), status="fail")
    assert verdict_difference(result, failing) == "" and difference(result, failing).startswith("status: found pass")
    assert verdict_difference(failing, result) == "gate1: 1 off, the record says that it passes"
    worse = replace(failing, failures=(*failing.failures, Failure("gate3", "far off")))
    assert verdict_difference(worse, failing) == "gate3: far off, the record says that it fails in other checks"
    other = replace(result, verdict="reject", partitions=0)
    assert verdict_difference(other, result).startswith("verdict: found reject, the record says accept; partitions: ")
