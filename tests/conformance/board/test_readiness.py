"""A backend's level by operator: what each fault leaves of it, and that no false claim in a record lifts one."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attesting import made_key
from calling import call

from npu_assay.conformance.board.building import build
from npu_assay.conformance.board.readiness import Readiness, readiness
from npu_assay.conformance.board.ready_runs import Asking
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.programs.variation_names import CHOSEN
from npu_assay.conformance.record.certificate import Certificate, Selection, certificate_text, read_certificate
from npu_assay.conformance.record.folder import sha256
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS, TABLE
from npu_assay.conformance.record.read import read_contents
from npu_assay.conformance.record.results import from_line, to_line
from npu_assay.conformance.record.waivers import Waiver
from npu_assay.conformance.run.session import Request, assay
from npu_assay.conformance.verify.signing import read_public_key
from tests.conformance.record.test_package import NEG, TODAY, Silent, failing, waiver

ABS_NAME, NEG_NAME = "aten.abs.default", "aten.neg.default"
Levels = Mapping[str, int]


def made(folder: Path, name: str, selection: Selection | None = None, level: str = "numbers", **more: Any) -> Path:
    request = Request(
        f"fake_backend:{name}", None, selection or Selection(), 1, folder / name / level, level=level, **more
    )
    assay(request, Silent(), lambda: TODAY)
    return request.folder


def read(folder: Path, *keys: Path) -> Readiness:
    return readiness(read_contents(folder), [read_public_key(key) for key in keys], TODAY)


def levels(found: Readiness) -> dict[str, int]:
    return {each.operator: each.level for each in found.operators}


@pytest.mark.parametrize(
    ("name", "level", "abs_level", "neg_level", "lacks"),
    [
        ("backend", "tags", 1, 1, "the run judged no more than tags (--level compiles does)"),
        ("backend", "compiles", 2, 2, "the run judged no more than compiles (--level runs does)"),
        ("backend", "runs", 3, 3, "the run judged no more than runs (--level numbers does)"),
        ("backend", "numbers", 4, 4, "no case shows it: variations, too"),
        ("refuses", "numbers", 4, 0, "[tag]"),
        ("crashes", "numbers", 0, 0, "[crash] partition: "),
        ("misfiles", "numbers", 1, 1, "[crash] compile: "),
        ("drifts", "numbers", 3, 3, "[gate1]"),
        ("dies", "numbers", 0, 0, "[crash] partition: "),
        ("garbles", "numbers", 2, 2, "[crash] run: "),
    ],
)
def test_a_fault_leaves_the_levels_before_it(
    name: str, level: str, abs_level: int, neg_level: int, lacks: str, tmp_path: Path
) -> None:
    found = read(made(tmp_path, name, level=level))
    assert found.refused == "" and levels(found) == {ABS_NAME: abs_level, NEG_NAME: neg_level}
    assert lacks in min(found.operators, key=lambda each: each.level).lacks


def test_variations_and_two_people_make_the_highest_levels(tmp_path: Path) -> None:
    folder = made(tmp_path, "backend", Selection(variations=CHOSEN))
    assert levels(read(folder)) == {ABS_NAME: 5, NEG_NAME: 5}
    ours, theirs = made_key(tmp_path, "ours"), made_key(tmp_path, "theirs")
    other = shutil.copytree(folder, tmp_path / "other")
    for copy, keys in ((folder, ours), (other, theirs)):
        assert call("attest", copy, "--key", keys[0]).exit_code == 0

    def shown(*keys: Path, second: Path = other) -> tuple[set[int], set[str]]:
        site = tmp_path / "site"
        shutil.rmtree(site, ignore_errors=True)
        build([f"1={folder}", f"2={second}"], site, Asking(keys, TODAY))
        (backend,) = json.loads((site / "readiness.json").read_text())["backends"]
        return {each["level"] for each in backend["operators"]}, {each["lacks"] for each in backend["operators"]}

    assert shown(ours[1], theirs[1]) == ({6}, {""})
    assert shown(ours[1])[0] == shown(theirs[1])[0] == shown()[0] == {5}
    again = shutil.copytree(folder, tmp_path / "again")  # one person, twice
    assert shown(ours[1], theirs[1], second=again)[0] == {5}
    bare = made(tmp_path / "bare", "backend")
    assert call("attest", bare, "--key", theirs[0]).exit_code == 0
    assert shown(ours[1], theirs[1], second=bare)[0] == {4}  # the latest is without variations
    found = call("board", folder, "--out", tmp_path / "twice", "--key", ours[1], "--key", ours[1])
    assert found.exit_code == 2 and "found the key twice, expected different ones" in found.output
    lacking = call("board", folder, "--out", tmp_path / "twice", "--key", tmp_path / "none.pem")
    assert lacking.exit_code == 2 and not (tmp_path / "twice").exists()


# ------------------------------------------------------------------------------------ false claims

Line = dict[str, Any]
Change = Callable[[list[Line]], list[Line]]


def _each(change: Callable[[Line, Line], Line]) -> Change:
    """Change every line that fails; the second argument is one that passes, of an accepted case where there is one."""

    def changed(lines: list[Line]) -> list[Line]:
        right = [one for one in lines if one["status"] == "pass"]
        good = next((one for one in right if one["verdict"] == "accept"), right[0])
        return [change(one, good) if one["status"] == "fail" else one for one in lines]

    return changed


PASS = {"status": "pass", "failures": []}
EDITS: Mapping[str, Change] = {
    "called a pass": _each(lambda one, good: one | {"status": "pass"}),
    "without its failures": _each(lambda one, good: one | PASS),
    "with no limit exceeded": _each(lambda one, good: one | PASS | {"checks": dict.fromkeys(one["checks"], 0)}),
    "the verdict that was expected": _each(lambda one, good: one | PASS | {"verdict": one["expect"]}),
    "nothing was promised": _each(lambda one, good: one | PASS | {"expect": "unspecified", "status": "unspecified"}),
    "of another program": _each(lambda one, good: good | {"case": one["case"]}),
    "of another case": _each(lambda one, good: good),
    "left out": lambda lines: [one for one in lines if one["status"] != "fail"],
    "its operator left out": lambda lines: [
        one for one in lines if one["row"] not in {each["row"] for each in lines if each["status"] == "fail"}
    ],
    "of another operator": _each(lambda one, good: one | PASS | {"row": good["row"]}),
}
BACKENDS = ("refuses", "crashes", "misfiles", "drifts")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("honest")
    return {name: made(folder, name) for name in BACKENDS}


def forged(folder: Path, target: Path, change: Change, **certified: Any) -> Path:
    """A copy whose results are changed, and whose digests and counts fit: what somebody with this project can make."""
    copy = shutil.copytree(folder, target)
    lines = change([json.loads(line) for line in (copy / RESULTS).read_text().splitlines()])
    text = "".join(f"{_sealed(line)}\n" for line in sorted(lines, key=lambda one: str(one["case"])))
    (copy / RESULTS).write_text(text)
    certificate: Certificate = read_certificate((copy / CERTIFICATE).read_text())
    counts = {"cases": len(lines), "fail": 0, "waived": 0}
    counts |= {key: sum(one["status"] == key for one in lines) for key in ("pass", "unspecified", "fail")}
    claims: dict[str, Any] = {
        "certified": True,
        "objections": (),
        "counts": counts,
        "results_sha256": sha256(text),
    } | certified
    (copy / CERTIFICATE).write_text(certificate_text(replace(certificate, **claims)))
    return copy


def _sealed(line: Line) -> str:
    """The line with a digest that fits."""
    try:
        return to_line(replace(from_line(json.dumps(line)), status=line["status"]))
    except UsageError:  # what cannot be read has no right digest
        return json.dumps(line, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("claim", EDITS)
def test_an_edited_record_lifts_no_level(name: str, claim: str, honest: Mapping[str, Path], tmp_path: Path) -> None:
    found = read(forged(honest[name], tmp_path / "forged", EDITS[claim]))
    assert found.refused and not found.operators, levels(found)


def _waived(folder: Path) -> tuple[Waiver, ...]:
    return tuple(waiver(case, *checks) for case, checks in failing(folder).items())


def test_a_lifted_statement_lifts_no_level(honest: Mapping[str, Path], tmp_path: Path) -> None:
    """Of what was asked, of how far it was judged, of the table; and what is waived is not right."""
    as_it_is: Change = list
    assert read(forged(honest["refuses"], tmp_path / "certified", as_it_is)).refused
    for number, level in enumerate(("tags", "compiles", "runs")):
        low = made(tmp_path / level, "backend", level=level)
        for higher in ("compiles", "runs", "numbers")[number:]:
            assert read(forged(low, tmp_path / f"{level}-{higher}", as_it_is, level=higher)).refused
    some = made(tmp_path / "some", "backend", Selection(NEG))
    assert "only a selection" in read(some).refused
    assert read(forged(some, tmp_path / "whole", as_it_is, selection=Selection())).refused
    plain = made(tmp_path / "plain", "backend")
    varied = Selection(variations=CHOSEN)
    assert read(forged(plain, tmp_path / "varied", as_it_is, selection=varied)).refused
    excused = made(tmp_path / "excused", "refuses", waivers=_waived(honest["refuses"]))
    assert json.loads((excused / CERTIFICATE).read_text())["certified"]
    assert levels(read(excused))[NEG_NAME] == 0


def test_an_easier_table_is_another_one(honest: Mapping[str, Path], tmp_path: Path) -> None:
    """A row that is taken out of the table has no level, whatever the certificate says of the table's digest."""
    copy = forged(honest["refuses"], tmp_path / "forged", EDITS["its operator left out"])
    table = (copy / TABLE).read_text()
    start = table.index("[[row]]", table.index("[[row]]") + 1) if table.count("[[row]]") == 2 else len(table)
    (copy / TABLE).write_text(table[:start])
    certificate = read_certificate((copy / CERTIFICATE).read_text())
    digest = hashlib.sha256(table[:start].encode()).hexdigest()
    fitting = replace(certificate, table={**certificate.table, "sha256": digest})
    (copy / CERTIFICATE).write_text(certificate_text(fitting))
    assert NEG_NAME not in levels(read(copy))


def test_what_is_kept_of_a_board_is_verified_again_when_a_record_changes(
    honest: Mapping[str, Path], tmp_path: Path
) -> None:
    folder, site = shutil.copytree(honest["drifts"], tmp_path / "run"), tmp_path / "site"

    def backend() -> dict[str, Any]:
        build([str(folder)], site, Asking(today=TODAY))
        (found,) = json.loads((site / "readiness.json").read_text())["backends"]
        return dict(found)

    assert {each["level"] for each in backend()["operators"]} == {3} == {e["level"] for e in backend()["operators"]}
    (folder / TABLE).write_text((folder / TABLE).read_text() + "\n")
    assert "is not the table" in backend()["refused"] and not backend()["operators"]
    assert "no level" in (site / "index.html").read_text()
