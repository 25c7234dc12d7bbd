"""How far a run looks: what each level sees and what it does not, and that none looks like a higher one."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fake_backend
import pytest
from attesting import made_key
from calling import call
from click.testing import Result

from npu_assay.conformance.backend.loading import BackendSpecError, load_whole
from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.record.certificate import (
    SEAL,
    CertificateError,
    Selection,
    certificate_text,
    read_certificate,
)
from npu_assay.conformance.record.levels import COMPILES, JUDGED, LEVELS, NUMBERS, RUNS, TAGS, reaches
from npu_assay.conformance.record.names import CERTIFICATE, JOURNAL, RESULTS, PackageError
from npu_assay.conformance.record.results import CHECKS, read_results
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.session import Request, assay
from npu_assay.conformance.table import load_table
from npu_assay.conformance.verify.result import beyond, result_problem
from npu_assay.conformance.verify.verification import verify
from tests.conformance.record.test_package import NEG, TODAY, Silent

TABLE = load_table(fake_backend.TABLE)
CASES = {case.id: case for case in cases_for(TABLE)}


def certify(name: str, level: str, folder: Path, *options: str) -> Result:
    words = ["certify", f"fake_backend:{name}", "--level", level, "-n", "1", "--out", str(folder)]
    return call(*words, *options)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A whole run of the sound backend at each level."""
    found = {level: tmp_path_factory.mktemp("levels") / level for level in LEVELS}
    for level, folder in found.items():
        request = Request("fake_backend:backend", None, Selection(), 2, folder, level=level)
        assert assay(request, Silent(), lambda: TODAY).certificate.certified
    return found


# ------------------------------------------------------------------------------------ what each level sees

SEEN: Mapping[str, tuple[str, str]] = {
    "refuses": (TAGS, "tag"),
    "crashes": (TAGS, "crash"),
    "hollow": (TAGS, "empty"),
    "misfiles": (COMPILES, "crash"),
    "unsteady": (COMPILES, "determinism"),
    "garbles": (RUNS, "crash"),
    "scribbles": (RUNS, "mutation"),
    "flattens": (RUNS, "shape"),
    "drifts": (NUMBERS, "gate1"),
}
"""Each fault, the lowest level that sees it, and the check by which."""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("fault", SEEN)
def test_a_fault_is_seen_from_its_level_on(fault: str, level: str) -> None:
    lowest, check = SEEN[fault]
    result = run_case(CASES[NEG], getattr(fake_backend, fault), TABLE, level=level)
    checks = {failure.check for failure in result.failures}
    if reaches(level, lowest):
        assert check in checks and result.status == "fail"
    else:
        assert not checks and result.status == "pass"


@pytest.mark.parametrize("level", LEVELS)
def test_a_sound_backend_passes_at_every_level(level: str) -> None:
    for case in list(CASES.values())[::5]:
        result = run_case(case, fake_backend.backend, TABLE, level=level)
        assert not result.failures and result_problem(result, case, level=level) is None


def test_a_level_judges_what_those_before_it_judge() -> None:
    left = [beyond(level) for level in LEVELS]
    assert all(later <= earlier for earlier, later in pairwise(left))
    assert left[-1] == frozenset() and {"gate1", "gate4", "finite"} <= left[2] and "shape" not in left[2]
    assert left[0] == left[1] > left[2] and not left[0] & {"tag", "reason", "delegates", "empty", "determinism"}
    assert {check for check in left[2] if check.startswith("gate")} == {c for c in CHECKS if c.startswith("gate")}


def test_tags_count_partitions_and_nothing_is_compiled() -> None:
    result = run_case(CASES[NEG], fake_backend.backend, TABLE, level=TAGS)
    assert (result.partitions, result.blobs) == (1, ())
    assert {*result.checks} == {"delegates", "mutation", "determinism", "empty"}
    assert not any(value is not None for value in result.metrics.values())


def test_tags_that_close_a_cycle_or_change_the_program_are_seen_without_a_compiler() -> None:
    result = run_case(CASES[NEG], fake_backend.rewrites, TABLE, level=TAGS)
    assert [failure.check for failure in result.failures] == ["crash"]
    assert "partition: ContractError" in result.failures[0].message


# ------------------------------------------------------------------------------------ backends without parts


def test_a_backend_has_the_level_of_its_parts(tmp_path: Path) -> None:
    for name, highest in (("without_compiler", TAGS), ("without_runtime", COMPILES)):
        done = certify(name, highest, tmp_path / name)
        assert done.exit_code == 0, done.output
        assert f"CERTIFIED ({highest}): fake_backend:{name} against fake@1.0; {JUDGED[highest]}" in done.output


@pytest.mark.parametrize(
    ("name", "level", "lacks", "expected"),
    [
        ("without_compiler", COMPILES, "compiler", "tags"),
        ("without_compiler", NUMBERS, "compiler", "tags"),
        ("without_runtime", RUNS, "runtime", "tags or compiles"),
        ("without_runtime", NUMBERS, "runtime", "tags or compiles"),
    ],
)
def test_more_than_a_backend_has_is_one_clear_error(
    name: str, level: str, lacks: str, expected: str, tmp_path: Path
) -> None:
    done = certify(name, level, tmp_path / "out")
    assert done.exit_code == 2 and not (tmp_path / "out").exists()
    text = f"backend 'fake_backend:{name}' has no {lacks}: found --level {level}, expected --level {expected}"
    assert done.output.strip() == f"assay: {text}"


def test_the_level_that_is_left_out_is_the_highest(tmp_path: Path) -> None:
    done = call("certify", "fake_backend:without_compiler", "--out", str(tmp_path / "out"))
    assert done.exit_code == 2 and "expected --level tags" in done.output


def test_in_this_process_a_backend_is_asked_as_far_as_it_goes() -> None:
    """So that the tests that `assay new` writes also run without a runtime."""
    tags, blobs = (
        run_case(CASES[NEG], each, TABLE) for each in (fake_backend.without_compiler, fake_backend.without_runtime)
    )
    assert (tags.status, tags.blobs) == ("pass", ()) and (blobs.status, len(blobs.blobs)) == ("pass", 1)
    assert "gate1" not in {*tags.checks, *blobs.checks}


def test_what_needs_the_whole_backend_says_so() -> None:
    with pytest.raises(BackendSpecError, match="has no compiler, which this needs; 'assay certify --level tags' does"):
        load_whole("fake_backend:without_compiler")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--fuzz", "3"), "random programs: found --level tags, expected numbers"),
        (("-k", "fuzz/7/1"), "random programs: found --level tags, expected numbers"),
        (("--with-vela",), "--with-vela: found --level tags, expected compiles or a higher one"),
    ],
)
def test_what_a_level_cannot_judge_is_refused(options: tuple[str, ...], text: str, tmp_path: Path) -> None:
    done = certify("checked", TAGS, tmp_path / "out", *options)
    assert done.exit_code == 2 and text in done.output


def test_a_further_compiler_is_asked_where_blobs_are_made() -> None:
    found = run_case(CASES[NEG], fake_backend.checked, TABLE, ["vela"], COMPILES)
    assert [failure.check for failure in found.failures] == ["tool"]


# ------------------------------------------------------------------------------------ what is said


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
def test_everything_that_a_run_leaves_says_its_level(folders: Mapping[str, Path], level: str) -> None:
    folder = folders[level]
    stated = json.loads((folder / CERTIFICATE).read_text())
    assert stated["level"] == level and read_certificate((folder / CERTIFICATE).read_text()).level == level
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    verdict = "certified" if level == NUMBERS else f"certified ({level})"
    assert f"<title>fake_backend:backend against fake@1.0: {verdict}</title>" in page and f">{verdict}</span>" in page
    assert text.splitlines()[0] == f"# fake_backend:backend against fake@1.0: {verdict}"
    assert f"Level: {level}: {JUDGED[level]}." in text and f"{JUDGED[level]}." in page
    assert ("Largest error" in page, "quantization noise" in page) == ((level == NUMBERS),) * 2
    root = ElementTree.parse(folder / "junit.xml").getroot()
    suffix = "" if level == NUMBERS else f" ({level})"
    assert root.get("name") == f"fake_backend:backend against fake@1.0{suffix}"
    assert {one.get("value") for one in root.iter("property") if one.get("name") == "level"} == {level}
    assert json.loads((folder / "drift.json").read_text()).get("level", NUMBERS) == level
    drift = call("drift", str(folder)).output.splitlines()[0]
    assert (JUDGED[level] in drift) == (level != NUMBERS)


def test_a_case_is_run_again_at_the_level_of_its_run(tmp_path: Path) -> None:
    done = certify("crashes", TAGS, tmp_path / "out")
    assert done.exit_code == 1
    assert "NOT CERTIFIED (tags): fake_backend:crashes against fake@1.0; nothing was compiled" in done.output
    assert "-n 1 --level tags" in (tmp_path / "out" / "report.md").read_text()


def test_a_look_at_some_cases_says_its_level(tmp_path: Path) -> None:
    done = certify("backend", TAGS, tmp_path / "out", "-k", NEG)
    assert done.exit_code == 0
    assert "PASSED (tags): fake_backend:backend against fake@1.0; nothing was compiled or run, " in done.output


def test_a_lower_level_does_not_write_over_the_certificate_of_a_higher_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("certify", "fake_backend:backend", "-n", "1", "-k", NEG, "--level", "tags").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["assay-fake_backend.backend-tags-part"]


# ------------------------------------------------------------------------------------ verify


@pytest.mark.parametrize("asked", LEVELS)
@pytest.mark.parametrize("level", LEVELS)
def test_verify_takes_the_level_that_it_is_asked_for(folders: Mapping[str, Path], level: str, asked: str) -> None:
    assert verify(folders[level], datetime.date.today()).problems == ()
    done = call("verify", str(folders[level]), "--level", asked)
    last = done.output.splitlines()[-1]
    if reaches(level, asked):
        assert done.exit_code == 0 and ("certified, " if level == NUMBERS else f"certified ({level})") in last
    else:
        assert done.exit_code == 1 and "not certified" in last
        assert f"because: the certificate is of level {level}, expected {asked} (--level {level}" in done.output
    assert (JUDGED[level] in last) == (level != NUMBERS)


def test_verify_asks_for_numbers_unless_told_otherwise(folders: Mapping[str, Path]) -> None:
    assert call("verify", str(folders[RUNS])).exit_code == 1
    assert call("verify", str(folders[NUMBERS])).exit_code == 0


def _relabelled(folder: Path, level: str, target: Path) -> Path:
    """A copy of a run whose certificate names another level, with all digests made to fit."""
    target.mkdir()
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    data: dict[str, Any] = json.loads((folder / CERTIFICATE).read_text())
    del data[SEAL]
    read = read_certificate(json.dumps(data | {"level": level, SEAL: ""}))
    (target / CERTIFICATE).write_text(certificate_text(read))
    return target


@pytest.mark.parametrize("claimed", LEVELS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_certificate_that_claims_another_level_is_seen(
    folders: Mapping[str, Path], level: str, claimed: str, tmp_path: Path
) -> None:
    problems = verify(_relabelled(folders[level], claimed, tmp_path / "out"), datetime.date.today()).problems
    assert bool(problems) == (level != claimed)
    if reaches(claimed, level) and level != claimed:
        missing = "0 blobs are recorded, expected 1" if level == TAGS else "these checks did not run"
        assert any(missing in text for text in problems)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda data: data.pop("level"), "found no level"),
        (lambda data: data.update(level="all"), "level 'all', expected one of tags, compiles, runs, numbers"),
    ],
)
def test_a_certificate_without_a_level_is_none(
    folders: Mapping[str, Path], change: Callable[[dict[str, Any]], object], text: str
) -> None:
    data = json.loads((folders[TAGS] / CERTIFICATE).read_text())
    change(data)
    with pytest.raises(CertificateError) as error:
        read_certificate(json.dumps(data))
    assert "level" in str(error.value) and (text in str(error.value) or text.startswith("found no"))


def test_what_a_level_does_not_judge_is_no_part_of_its_record(folders: Mapping[str, Path]) -> None:
    """A line of a higher level in the record of a lower one, and the other way round, is a problem."""
    lines = {level: read_results((folder / RESULTS).read_text(), RESULTS)[NEG] for level, folder in folders.items()}
    for level, line in lines.items():
        for other in LEVELS:
            found = result_problem(line, CASES[NEG], level=other)
            assert (found is None) == (level == other), (level, other, found)


def test_a_run_again_looks_as_far_as_the_certificate(folders: Mapping[str, Path]) -> None:
    words = ["verify", str(folders[TAGS]), "--level", "tags", "--rerun", "4", "-n", "1"]
    done = call(*words)
    assert done.exit_code == 0 and "certified (tags), reproduced in part (4 of 110 cases" in done.output
    done = call("verify", str(folders[COMPILES]), "--level", "tags", "--rerun", "2", "-n", "1")
    assert done.exit_code == 0, done.output


def test_an_attestation_signs_the_level(folders: Mapping[str, Path], tmp_path: Path) -> None:
    private, public = made_key(tmp_path, "levels")
    target = tmp_path / "attestation.json"
    done = call("attest", str(folders[TAGS]), "--key", str(private), "--out", str(target))
    assert done.exit_code == 0 and done.output.splitlines()[-1] == "certified (tags)"
    words = ["--key", str(public), "--attestation", str(target)]
    assert "certified (tags), signed by" in call("verify", str(folders[TAGS]), "--level", "tags", *words).output
    other = _relabelled(folders[TAGS], COMPILES, tmp_path / "other")
    assert call("verify", str(other), "--level", "tags", *words).exit_code == 1


# ------------------------------------------------------------------------------------ diff, resume


def test_runs_of_two_levels_are_compared_in_what_both_judge(folders: Mapping[str, Path], tmp_path: Path) -> None:
    done = call("diff", str(folders[TAGS]), str(folders[NUMBERS]), "--json")
    found = json.loads(done.output)
    assert {one["what"] for one in found["stated"]} == {"verdict", "level"} and found["rows"] == {}
    assert done.exit_code == 1 and not found["same"]
    assert certify("refuses", TAGS, tmp_path / "out").exit_code == 1
    text = call("diff", str(tmp_path / "out"), str(folders[NUMBERS])).output
    assert "not certified (tags)" in text and "level: tags -> numbers" in text and "newly accepted" in text
    assert not {"  numbers", "  bytes"} & {*text.splitlines()}


def test_a_run_of_another_level_is_not_continued(tmp_path: Path) -> None:
    class Stops(Silent):
        def finished(self, result: object) -> None:
            raise KeyboardInterrupt

    def request(level: str) -> Request:
        return Request("fake_backend:backend", None, Selection(NEG), 1, tmp_path, resume=True, level=level)

    with pytest.raises(KeyboardInterrupt):
        assay(request(TAGS), Stops(), lambda: TODAY)
    assert (tmp_path / JOURNAL).exists()
    with pytest.raises(PackageError, match="of another run: level: found tags, expected numbers"):
        assay(request(NUMBERS), Silent(), lambda: TODAY)
    assert assay(request(TAGS), Silent(), lambda: TODAY).certificate.passed


def test_levels_are_asked_before_anything_is_written(tmp_path: Path) -> None:
    request = Request("fake_backend:without_runtime", None, Selection(NEG), 1, tmp_path / "out", level=RUNS)
    with pytest.raises(UsageError):
        assay(request, Silent(), lambda: TODAY)
    assert not (tmp_path / "out").exists()
