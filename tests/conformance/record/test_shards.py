"""Shards of a run and the record that is made of them: the bytes of one run, or an error that says what is wrong."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calling import call
from places import SHARED

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.record.certificate import (
    NOTHING_PROMISED,
    Certificate,
    CertificateError,
    Selection,
    certificate_text,
    conclude,
    read_certificate,
)
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS
from npu_assay.conformance.record.results import from_line, to_line
from npu_assay.conformance.record.shard import Shard
from npu_assay.conformance.record.waivers import Waiver
from npu_assay.conformance.report.data import Report
from npu_assay.conformance.run.selection import SelectionError
from npu_assay.conformance.run.session import Request, assay
from npu_assay.conformance.table import load_table
from npu_assay.conformance.verify.merging import merge
from npu_assay.conformance.verify.verification import verify
from tests.conformance.record.test_package import CASES, NEG, TODAY, Silent

OF = 3
LATER = TODAY + datetime.timedelta(days=2)
TABLE_FILE = SHARED / "data" / "fake@1.0.toml"
TABLE = load_table(str(TABLE_FILE))
WAIVER = Waiver(NEG, ("tag",), "known", "me@example.com", datetime.date(2999, 1, 1))


def run(
    folder: Path,
    shard: Shard | None,
    name: str = "backend",
    expression: str | None = None,
    day: datetime.date = TODAY,
    **more: Any,
) -> Report:
    request = Request(f"fake_backend:{name}", None, Selection(expression, shard=shard), 1, folder)
    return assay(replace(request, **more), Silent(), lambda: day)


def shards(folder: Path, name: str = "backend", expression: str | None = None, of: int = OF) -> list[Path]:
    paths = [folder / f"{number}" for number in range(1, of + 1)]
    for number, path in enumerate(paths, 1):
        run(path, Shard(number, of), name, expression)
    return paths


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return shards(tmp_path_factory.mktemp("shards"))


@pytest.fixture
def copies(three: list[Path], tmp_path: Path) -> list[Path]:
    return [Path(shutil.copytree(path, tmp_path / "shards" / path.name)) for path in three]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ------------------------------------------------------------------------------------ distribution


@pytest.mark.parametrize("of", [1, 2, 7, len(CASES)])
def test_the_parts_are_disjoint_complete_and_of_equal_size(of: int) -> None:
    parts = [Selection(shard=Shard(number, of)).of(TABLE, CASES) for number in range(1, of + 1)]
    names = [case.id for part in parts for case in part]
    assert sorted(names) == sorted(case.id for case in CASES)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert parts == [Selection(shard=Shard(number, of)).of(TABLE, CASES[::-1]) for number in range(1, of + 1)]


def test_every_part_has_cases_of_every_operator() -> None:
    """Cases of one operator cost alike, so they are dealt out."""
    for number in (1, 2, 3):
        assert {case.row for case in Selection(shard=Shard(number, 3)).of(TABLE, CASES)} == {case.row for case in CASES}


# ------------------------------------------------------------------------------------ the whole


@pytest.mark.long
@pytest.mark.parametrize("name", ["backend", "refuses"])
def test_a_merged_record_has_the_bytes_of_one_run(name: str, tmp_path: Path) -> None:
    run(tmp_path / "one", None, name)
    whole = merge(shards(tmp_path, name)[::-1], TODAY)
    whole.write(tmp_path / "merged")
    assert files(tmp_path / "merged") == files(tmp_path / "one")
    found = verify(tmp_path / "merged", TODAY)
    assert found.problems == () and found.certified == (name == "backend")


def test_waivers_that_expired_since_the_shards_ran_are_not_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes are those of one run on the day of the shards; who looks on a later day is told what `verify` says."""
    whole = run(tmp_path / "one", None, "refuses", "baseline")
    failing = [each for each in whole.results if each.status == "fail"]
    waivers = tuple(
        replace(WAIVER, case=each.case, checks=tuple(sorted({f.check for f in each.failures}))) for each in failing
    )
    for number in (1, 2):
        run(tmp_path / str(number), Shard(number, 2), "refuses", "baseline", waivers=waivers)
    shards = (tmp_path / "1", tmp_path / "2")
    assert call("merge", *shards, "--out", tmp_path / "now").exit_code == 0
    monkeypatch.setattr("npu_assay.conformance.commands.merge.today", lambda: WAIVER.expires + datetime.timedelta(1))
    later = call("merge", *shards, "--out", tmp_path / "later")
    assert later.exit_code == 1 and later.output.count(f" expired on {WAIVER.expires}") == len(waivers) > 0
    assert later.output.splitlines()[-1].startswith("not passed: ")


def test_a_selection_and_waivers_are_those_of_one_run(tmp_path: Path) -> None:
    run(tmp_path / "one", None, "refuses", "baseline", waivers=(WAIVER,))
    for number in (1, 2):
        run(tmp_path / str(number), Shard(number, 2), "refuses", "baseline", waivers=(WAIVER,))
    merge([tmp_path / "1", tmp_path / "2"], TODAY).write(tmp_path / "merged")
    assert files(tmp_path / "merged") == files(tmp_path / "one")


def test_the_day_is_that_of_the_latest_shard(tmp_path: Path) -> None:
    run(tmp_path / "1", Shard(1, 2), expression="baseline", day=LATER)
    run(tmp_path / "2", Shard(2, 2), expression="baseline")
    assert merge([tmp_path / "1", tmp_path / "2"], LATER).report.certificate.made == LATER.isoformat()


def test_the_command_certifies_and_reads_archives(three: list[Path], tmp_path: Path) -> None:
    for path in three:
        assert call("package", path, "--out", tmp_path / f"{path.name}.zip").exit_code == 0
    found = call("merge", *sorted(tmp_path.glob("*.zip")), "--out", tmp_path / "out")
    assert found.exit_code == 0 and "\nCERTIFIED: fake_backend:backend against fake@1.0" in found.output
    assert call("verify", tmp_path / "out").exit_code == 0


def test_a_failing_case_is_exit_code_1(tmp_path: Path) -> None:
    found = call("merge", *shards(tmp_path, "refuses", "neg", 2), "--out", tmp_path / "out")
    assert found.exit_code == 1 and "\nNOT PASSED" in found.output


def test_annotations_name_lines_of_the_table_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = shards(tmp_path, "refuses", "neg", 2)
    for name, text in (("GITHUB_ACTIONS", "true"), ("GITHUB_WORKSPACE", str(tmp_path)), ("GITHUB_STEP_SUMMARY", "")):
        monkeypatch.setenv(name, text)
    table = tmp_path / "mine@1.0.toml"
    shutil.copy(TABLE_FILE, table)
    for words, file in (((), "out/table.toml"), (("--table", table), "mine@1.0.toml")):
        found = call("merge", *parts, "--out", tmp_path / "out", *words)
        assert found.exit_code == 1 and f"\n::error file={file},line=" in found.output, found.output
    before = files(tmp_path / "out")
    table.write_text(table.read_text() + "\n")
    for name, told in ((str(table), "as in the shards"), ("neutron@1.3", "as in the shards"), ("none", "no table")):
        found = call("merge", *parts, "--out", tmp_path / "out", "--table", name)
        assert found.exit_code == 2 and told in found.output, found.output
    assert files(tmp_path / "out") == before


# ------------------------------------------------------------------------------------ a shard by itself


def test_a_shard_is_no_certificate_and_says_so(tmp_path: Path) -> None:
    arguments = ("certify", "fake_backend:backend", "--shard", "2/3", "-n", "1", "--out", tmp_path / "out")
    found = call(*arguments)
    assert found.exit_code == 0
    assert "only a whole run certifies, and this is shard 2/3 of it (all cases)" in found.output
    assert found.output.endswith(
        "\nshard 2/3: passed; only a whole run certifies, 'assay merge' makes it of all shards\n"
    )
    verified = call("verify", tmp_path / "out")
    assert verified.exit_code == 1 and "because: only a whole run certifies" in verified.output


def test_a_failing_shard_is_exit_code_1(tmp_path: Path) -> None:
    found = call("certify", "fake_backend:refuses", "--shard", "1/2", "-n", "1", "--out", tmp_path / "out")
    assert found.exit_code == 1 and "\nshard 1/2: not passed; " in found.output


def test_whether_the_table_promises_anything_the_whole_run_says(tmp_path: Path) -> None:
    """A shard may hold nothing but cases on which the table is silent."""
    (result,) = run(tmp_path, None, expression=NEG).results
    (case,) = (replace(case, expect="unspecified") for case in CASES if case.id == NEG)
    whole, part = (Selection(NEG, shard=shard) for shard in (None, Shard(1, 2)))
    objections = [conclude([result], [case], selection, (), TODAY).objections for selection in (whole, part)]
    assert objections == [(NOTHING_PROMISED, whole.objection), (part.objection,)]


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "1/0", "-1/2", "1/2/3", "one/two", "1 / 2"])
def test_what_is_no_shard_is_a_usage_error(text: str) -> None:
    found = call("certify", "fake_backend:backend", "--shard", text)
    assert found.exit_code == 2 and "expected I/N with 1 <= I <= N, like 2/3." in found.output


def test_more_shards_than_cases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="--shard 3/3: found 1 cases, expected as many shards as cases at most"):
        run(tmp_path, Shard(3, 3), expression=NEG)


def test_one_random_program_has_no_shards(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fuzz/0/000001: found --shard 1/2, expected none"):
        run(tmp_path, Shard(1, 2), expression="fuzz/0/000001")


def fuzzed(folder: Path, name: str, programs: tuple[int, ...]) -> list[Path]:
    """Shards with random programs, so many in the run that each is told of."""
    paths = [folder / f"{number}" for number in range(1, len(programs) + 1)]
    for number, (path, count) in enumerate(zip(paths, programs, strict=True), 1):
        run(path, Shard(number, len(programs)), name, None, fuzz=count)
    return paths


@pytest.mark.long
@pytest.mark.parametrize(("name", "programs"), [("backend", 7), ("drifts", 30), ("backend", 2)])
def test_random_programs_of_shards_have_the_bytes_of_one_run(name: str, programs: int, tmp_path: Path) -> None:
    paths = fuzzed(tmp_path, name, (programs,) * OF)
    for path in paths:
        assert not verify(path, TODAY).problems
    merge(paths[::-1], TODAY).write(tmp_path / "merged")
    run(tmp_path / "whole", None, name, None, fuzz=programs)
    assert files(tmp_path / "merged") == files(tmp_path / "whole")
    assert not verify(tmp_path / "merged", TODAY).problems


def test_shards_of_different_numbers_of_programs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="found 4 random programs, expected 3 of the 6 of all shards"):
        merge(fuzzed(tmp_path, "backend", (8, 4)), TODAY)


def test_shards_have_folders_of_their_own() -> None:
    from npu_assay.conformance.commands.shards import default_folder

    assert default_folder("a:b", "tags", True, Shard(2, 3)) == Path("assay-a.b-tags-part-shard-2-of-3")
    assert default_folder("neutron", "numbers", False) == Path("assay-neutron")


# ------------------------------------------------------------------------------------ what does not belong together


def edited(path: Path, change: Callable[[Certificate], Certificate]) -> None:
    """Have a shard state something else, its digest made to fit."""
    file = path / CERTIFICATE
    file.write_text(certificate_text(change(read_certificate(file.read_text()))))


def changed(name: str, key: str, value: object) -> Callable[[Certificate], Certificate]:
    def change(one: Certificate) -> Certificate:
        part: dict[str, Any] = {name: {**getattr(one, name), key: value}}
        return replace(one, **part)

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (changed("table", "version", "1.1"), "table: found fake@1.1, expected fake@1.0"),
        (changed("table", "sha256", "0" * 64), "table: sha256: found 0000"),
        (changed("suite", "version", "9"), "suite: version: found 9, expected 0.1.0"),
        (changed("backend", "spec", "other:one"), "backend: found other:one, expected fake_backend:backend"),
        (changed("backend", "sources", {"x.py": "0"}), "backend: sources: "),
        (changed("environment", "torch", "1.0"), "environment: torch: found 1.0, expected "),
        (lambda one: replace(one, level="tags"), "level: found tags, expected numbers"),
        (lambda one: replace(one, waivers=(WAIVER,)), "waivers: 1: case: found aten.neg"),
        (
            lambda one: replace(one, selection=Selection("neg", shard=Shard(2, OF))),
            "selection: found -k 'neg', expected all cases",
        ),
        (lambda one: replace(one, selection=Selection(seed=3, shard=Shard(2, OF))), "seed: found 3, expected 0"),
        (lambda one: replace(one, selection=Selection(shard=Shard(2, 4))), "number of shards: found 4, expected 3"),
    ],
)
def test_shards_of_two_runs_are_refused(
    change: Callable[[Certificate], Certificate], told: str, copies: list[Path], tmp_path: Path
) -> None:
    edited(copies[1], change)
    found = call("merge", *copies, "--out", tmp_path / "out")
    assert found.exit_code == 2 and told in found.output, found.output
    assert found.output.startswith(f"assay: {copies[1]}: ") and f" as in {copies[0]}" in found.output
    assert found.output.count("\n") == 1 and not (tmp_path / "out").exists()


def test_one_that_is_missing_is_named(three: list[Path], tmp_path: Path) -> None:
    found = call("merge", three[0], three[2], "--out", tmp_path / "out")
    assert found.exit_code == 2 and not (tmp_path / "out").exists()
    assert "found 2 of 3, expected all; the first missing one is 2/3 (assay certify ... --shard 2/3)" in found.output


def test_one_that_is_there_twice_is_named(three: list[Path], copies: list[Path], tmp_path: Path) -> None:
    found = call("merge", *three, copies[1], "--out", tmp_path / "out")
    assert found.exit_code == 2
    assert f"{copies[1]}: found shard 2/3 again, expected each once; {three[1]} is the same shard" in found.output


def test_a_whole_run_is_no_shard(three: list[Path], tmp_path: Path) -> None:
    run(tmp_path / "one", None, expression="baseline")
    found = call("merge", *three, tmp_path / "one")
    assert found.exit_code == 2 and "found a run of -k 'baseline', expected folders or archives" in found.output


def test_a_shard_is_not_written_over(copies: list[Path]) -> None:
    before = files(copies[0])
    found = call("merge", *copies, "--out", copies[0])
    assert found.exit_code == 2 and "found one of the shards, expected another folder" in found.output
    assert files(copies[0]) == before


def test_a_folder_of_other_files_is_left_alone(three: list[Path], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    found = call("merge", *three, "--out", tmp_path)
    assert found.exit_code == 2 and "holds other files (mine.txt)" in found.output


def test_an_unfinished_shard_is_refused(copies: list[Path], tmp_path: Path) -> None:
    (copies[1] / CERTIFICATE).unlink()
    found = call("merge", *copies, "--out", tmp_path / "out")
    assert found.exit_code == 2 and f"{copies[1]}: incomplete: certificate.json is missing" in found.output


# ------------------------------------------------------------------------------------ what was edited


def raise_status(path: Path) -> None:
    """Make a failure a pass, with its line's digest made to fit."""
    lines = path.read_text().splitlines()
    result = from_line(lines[0])
    lines[0] = to_line(replace(result, status="pass", failures=(), verdict=result.expect))
    path.write_text("\n".join([*lines, ""]))


def cut(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


def flip(path: Path) -> None:
    path.write_text(path.read_text().replace('"status":"fail"', '"status":"pass"', 1))


@pytest.mark.long
@pytest.mark.parametrize("edit", [raise_status, cut, flip])
def test_a_tampered_shard_is_found_as_a_tampered_record_is(edit: Callable[[Path], None], tmp_path: Path) -> None:
    paths = shards(tmp_path, "refuses", "neg", 2)
    edit(paths[1] / RESULTS)
    problems = verify(paths[1], TODAY).problems
    assert problems
    found = call("merge", *paths, "--out", tmp_path / "out")
    assert found.exit_code == 2 and not (tmp_path / "out").exists()
    assert f"assay: {paths[1]}: {problems[0]} (see 'assay verify')" in found.output.replace("\n", "")


def test_a_certificate_of_an_impossible_shard_cannot_be_read(three: list[Path]) -> None:
    text = (three[1] / CERTIFICATE).read_text()
    assert '"number": 2' in text
    for number in ("0", "4", '"2"', "true"):
        with pytest.raises(CertificateError):
            read_certificate(text.replace('"number": 2', f'"number": {number}'))


# ------------------------------------------------------------------------------------ going on


def test_a_shard_goes_on_as_itself_alone(tmp_path: Path) -> None:
    request = Request("fake_backend:backend", None, Selection("baseline", shard=Shard(1, 2)), 1, tmp_path / "out")

    class Stops(Silent):
        def finished(self, result: object) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        assay(request, Stops(), lambda: TODAY)
    other = replace(request, selection=Selection("baseline", shard=Shard(2, 2)), resume=True)
    with pytest.raises(UsageError, match="selection: found -k 'baseline' --shard 1/2, expected -k 'baseline' --shard"):
        assay(other, Silent(), lambda: TODAY)
    assert assay(replace(request, resume=True), Silent(), lambda: TODAY).certificate.passed
