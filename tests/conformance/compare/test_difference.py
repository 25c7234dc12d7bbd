"""`assay diff`: what changed between two runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from calling import call
from click.testing import Result

from npu_assay.conformance.compare.difference import KINDS, Run, compare, read_run
from npu_assay.conformance.compare.difference_groups import groups_by_row, outcomes
from npu_assay.conformance.compare.difference_pages import WIDTH, html, lines, markdown
from npu_assay.conformance.record.certificate import (
    Fuzz,
    Selection,
    certificate_text,
    outcome_text,
    read_certificate,
)
from npu_assay.conformance.record.folder import sha256
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS
from npu_assay.conformance.record.read import read_folder
from npu_assay.conformance.record.results import CaseResult, Failure, Reason
from npu_assay.conformance.record.shard import Shard
from tests.conformance.record.test_package import NEG, run


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("assay")
    for name in ("backend", "refuses", "drifts"):
        run(made / name, name)
    return made


def diff(*arguments: str | Path) -> Result:
    return call("diff", *arguments)


@pytest.mark.slow
def test_a_run_is_the_same_as_its_archive(folders: Path, tmp_path: Path) -> None:
    packed = call("package", folders / "backend", "--out", tmp_path / "a.zip")
    assert packed.exit_code == 0
    found = diff(folders / "backend", tmp_path / "a.zip")
    assert found.exit_code == 0 and found.output.endswith("\nthe same\n")


@pytest.mark.long
@pytest.mark.parametrize("name", ["refuses", "drifts"])
def test_what_changed_is_grouped_and_readable(name: str, folders: Path) -> None:
    found = diff(folders / "backend", folders / name)
    text = found.output.splitlines()
    assert found.exit_code == 1 and max(map(len, text)) <= WIDTH
    assert "  verdict: certified -> not certified" in text
    assert text[-1].startswith("different: ") and text[-1].endswith(" of 110 cases")
    assert any(line.startswith("aten.neg.default: ") for line in text)
    if name == "refuses":
        assert "    accept -> reject (mood), which fails: 48 cases" in text
        assert "  no longer accepted: 48 cases (now: in part or not at all)" in text
    else:
        assert "    max_lsb: 42 cases" in text and "  tags" not in text


def test_json_has_every_case(folders: Path) -> None:
    found = diff(folders / "backend", folders / "refuses", "--json")
    data = json.loads(found.stdout)
    assert found.exit_code == 1 and data["same"] is False
    assert data["a"]["certified"] and not data["b"]["certified"]
    tags = data["rows"]["aten.neg.default"]["tags"]
    assert len(tags) == 48 and {"case": NEG, "a": "accept", "b": "reject"} in tags
    numbers = data["rows"]["aten.neg.default"]["numbers"]
    assert {"case": NEG, "a": "0", "b": "none", "metric": "max_lsb"} in numbers
    assert json.loads(diff(folders / "backend", folders / "backend", "--json").stdout)["rows"] == {}


def test_every_kind_of_change_is_told(folders: Path) -> None:
    before = read_run(folders / "backend")
    first, second, *_ = before.results.values()
    changed = {
        "promises": replace(first, expect="reject", reason="x"),
        "tags": replace(first, verdict="partial"),
        "reasons": replace(first, reasons=None),
        "failures": replace(first, failures=(*first.failures, *read_run(folders / "drifts").results[NEG].failures)),
        "numbers": replace(first, metrics={**first.metrics, "max_lsb": 7.0}),
        "delegates": replace(first, partitions=9),
        "bytes": replace(first, blobs=("0" * 64,)),
    }
    for kind, result in changed.items():
        found = compare(before, with_result(before, result))
        assert {change.kind for change in found.changes} == {kind} and not found.same
        assert found.changes[0].case == first.case and "  " + kind in list(lines(found))
    fewer = Run("b", before.certificate, {name: r for name, r in before.results.items() if name != second.case})
    (change,) = compare(before, fewer).changes
    assert (change.kind, change.case, change.after) == ("cases", second.case, None)
    assert {*changed, "cases"} == set(KINDS)


def with_result(run: Run, result: CaseResult) -> Run:
    return replace(run, results={**run.results, result.case: result})


def test_what_a_run_was_made_with_does_not_make_it_different(folders: Path) -> None:
    before = read_run(folders / "backend")
    environment = {**before.certificate.environment, "torch": "9.9"}
    after = replace(before, certificate=replace(before.certificate, environment=environment, made="2027-01-01"))
    found = compare(before, after)
    assert found.same and [what for what, _, _ in found.made_with] == ["made on", "torch"]
    assert "\n\nmade with\n  made on: " in "\n".join(lines(found))
    sources = {**before.certificate.backend["sources"], "a.py": "0" * 64}
    after = replace(
        before, certificate=replace(before.certificate, backend={**before.certificate.backend, "sources": sources})
    )
    text = "\n".join(lines(compare(before, after)))
    assert "\n\nmade with\n  sources of the backend: 1 differs (a.py)\n" in text
    assert "- sources of the backend: 1 differs, first `a.py`\n" in markdown(compare(before, after))


def test_another_table_makes_it_different(folders: Path) -> None:
    before = read_run(folders / "backend")
    table = {**before.certificate.table, "sha256": "1" * 64}
    found = compare(before, replace(before, certificate=replace(before.certificate, table=table)))
    assert not found.same and [what for what, _, _ in found.stated] == ["table"]
    text = list(lines(found))
    assert any("-> fake@1.0 111111111111" in line for line in text)
    assert text[-1] == f"different: table; 0 of {len(before.results)} cases"


@pytest.mark.parametrize("command", ["diff", "drift"])
def test_a_case_that_stands_twice_is_refused(command: str, folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "backend", tmp_path / "out")
    text = (tmp_path / "out" / RESULTS).read_text()
    last = text.splitlines()[-1]
    (tmp_path / "out" / RESULTS).write_text(twice := f"{text}{last}\n")
    certificate = read_certificate((tmp_path / "out" / CERTIFICATE).read_text())
    sealed = replace(certificate, results_sha256=sha256(twice))
    (tmp_path / "out" / CERTIFICATE).write_text(certificate_text(sealed))
    sides = [str(tmp_path / "out")] * (2 if command == "diff" else 1)
    found = call(command, *sides)
    assert found.exit_code == 2 and f"{RESULTS} line 111: " in found.output and "is there twice" in found.output


def test_seeds_and_random_programs_are_compared(folders: Path) -> None:
    before = read_run(folders / "backend")
    selection = replace(before.certificate.selection, seed=3)
    fuzz = Fuzz(20, 3, 1, "0" * 64)
    after = replace(before, certificate=replace(before.certificate, selection=selection, fuzz=fuzz))
    found = compare(before, after)
    text = list(lines(found))
    assert not found.same and "  seed: 0 -> 3" in text and "  random programs: none -> 20, 1 fail, 000000000000" in text


def test_a_comparison_of_nothing_is_refused(folders: Path, tmp_path: Path) -> None:
    good = folders / "backend"
    files = read_folder(good).files
    edited = {
        "edited": {RESULTS: files[RESULTS].replace(b'"bias":0.0', b'"bias":9.0', 1)},
        "no certificate": {CERTIFICATE: b"{}"},
        "no results": {RESULTS: b""},
        "not text": {RESULTS: b"\xff"},
    }
    for name, change in edited.items():
        (tmp_path / name).mkdir()
        for file, data in {**files, **change}.items():
            (tmp_path / name / file).write_bytes(data)
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / CERTIFICATE).write_bytes(files[CERTIFICATE])
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"PK")
    for name in (*edited, "lost", "empty", "file", "nowhere"):
        for sides in ((good, tmp_path / name), (tmp_path / name, good)):
            found = diff(*sides)
            assert found.exit_code == 2 and len(found.stderr.splitlines()) == 1 and name in found.stderr, found.stderr


def test_control_characters_of_a_record_reach_no_terminal(folders: Path) -> None:
    from npu_assay.conformance.commands.shared import plain

    assert plain("a\x1b[31m\nb\u202eé") == "a\\x1b[31m\\nb\\u202eé"


def kinds_of(a: Run, b: Run) -> list[tuple[str, str]]:
    """The kinds and texts of what is told of the rows that differ."""
    shown = groups_by_row(compare(a, b))
    return [
        (kind, group.what or f"{group.before} -> {group.after}")
        for _, kinds in shown
        for kind, found in kinds
        for group in found
    ]


def test_a_newly_accepted_case_is_told_once(folders: Path) -> None:
    """With it come an answer to why, numbers, a delegate and its bytes: these follow from the tag."""
    after = read_run(folders / "backend")
    accepted = after.results[NEG]
    rejected = replace(
        accepted,
        verdict="reject",
        reasons=(Reason("mood", "a bad one", "be good"),),
        failures=(Failure("tag", "reject, expected accept"),),
        status="fail",
        metrics=dict.fromkeys(accepted.metrics),
        partitions=0,
        blobs=(),
    )
    before = with_result(after, rejected)
    assert len(compare(before, after).changes) > 8
    assert kinds_of(before, after) == [("tags", "reject (mood), which fails -> accept")]
    assert outcomes(compare(before, after)) == {"newly passing": 1, "newly accepted": 1}
    assert outcomes(compare(after, before)) == {"newly failing": 1, "no longer accepted": 1}
    assert sum(NEG.removeprefix("aten.neg.default/") in line for line in lines(compare(before, after))) == 1
    assert markdown(compare(before, after)).count(NEG.removeprefix("aten.neg.default/")) == 1


def test_what_does_not_follow_from_a_tag_is_told_beside_it(folders: Path) -> None:
    before = read_run(folders / "backend")
    first = before.results[NEG]
    wrong, tag = Failure("gate1", "out[0] = 1, expected 2"), Failure("tag", "partial, expected accept")
    partial = replace(first, verdict="partial", failures=(tag, wrong), metrics={**first.metrics, "max_lsb": 7})
    assert kinds_of(before, with_result(before, partial)) == [
        ("tags", "accept -> partial, which fails"),
        ("failures", "none -> [gate1] out[0] = 1, expected 2"),
        ("numbers", "max_lsb"),
    ]


def test_metrics_that_one_side_lacks_are_told_of_a_case_alone_that_nothing_else_is_told_of(folders: Path) -> None:
    before = read_run(folders / "backend")
    first = before.results[NEG]
    measured = {**first.metrics, "max_lsb": 7, "bound_lsb": 1.5}
    before = with_result(before, replace(first, metrics={**first.metrics, "bound_lsb": None}))
    wrong = replace(first, failures=(Failure("gate1", "out[0] = 1, expected 2"),), metrics=measured)
    told = [("failures", "none -> [gate1] out[0] = 1, expected 2"), ("numbers", "max_lsb")]
    assert kinds_of(before, with_result(before, wrong)) == told
    assert "bound_lsb" not in markdown(compare(before, with_result(before, wrong)))
    right = replace(first, metrics={**first.metrics, "bound_lsb": 1.5})
    assert kinds_of(before, with_result(before, right)) == [("numbers", "bound_lsb")]
    parted = replace(right, partitions=9)
    assert [kind for kind, _ in kinds_of(before, with_result(before, parted))] == ["delegates"]


def test_texts_of_the_same_constraints_stand_together(folders: Path) -> None:
    before = read_run(folders / "refuses")
    moody = {case: result for case, result in before.results.items() if _codes(result) == ["mood"]}
    other = {
        case: replace(result, reasons=(Reason("mood", f"{case} of it", "be good"),)) for case, result in moody.items()
    }
    told = kinds_of(before, replace(before, results={**before.results, **other}))
    assert len(moody) > 40 and told == [("reasons", "mood")] * len({result.row for result in moody.values()})
    another = {case: replace(result, reasons=(Reason("whim", case, "pass"),)) for case, result in moody.items()}
    told = kinds_of(before, replace(before, results={**before.results, **another}))
    assert len(told) == len(moody)  # another constraint is no other text of one


def _codes(result: CaseResult) -> list[str]:
    return [reason.code for reason in result.reasons or ()]


def of_selection(run: Run, expression: str, part: str) -> Run:
    """The run as one of a selection would be: its cases alone, and its only objection."""
    selection = Selection(expression)
    results = {case: result for case, result in run.results.items() if part in case}
    one = replace(run.certificate, selection=selection, certified=False, objections=(selection.objection,))
    return Run(run.name, one, results)


def test_a_selection_says_that_it_is_one(folders: Path) -> None:
    whole = read_run(folders / "backend")
    part = of_selection(whole, "neg", "neg")
    text = " ".join(" ".join(lines(compare(part, part))).split())
    assert "against fake@1.0, passed, a selection of the cases (-k 'neg')" in text and "certified" not in text
    assert "passed, a selection of the cases (-k 'neg')" in markdown(compare(part, part))
    assert "passed, a selection of the cases (-k &#39;neg&#39;)" in html(compare(part, part))
    failed = replace(part.certificate, objections=(*part.certificate.objections, "1 of 2 cases fail"))
    assert outcome_text(failed) == "not passed, a selection of the cases (-k 'neg')"
    assert outcome_text(replace(failed, level="tags"), selection=False) == "not passed (tags), a selection of the cases"
    data = compare(part, whole).as_json()
    assert (data["a"]["passed"], data["a"]["certified"], data["a"]["selection"]) == (True, False, "-k 'neg'")
    assert (data["b"]["passed"], data["b"]["certified"], data["b"]["selection"]) == (True, True, None)


@pytest.mark.parametrize(
    ("expression", "said"), [(None, "of the cases"), ("neg", "of a selection of the cases (-k 'neg')")]
)
def test_a_shard_says_that_it_is_one(expression: str | None, said: str, folders: Path) -> None:
    selection = Selection(expression, shard=Shard(1, 2))
    certificate = replace(read_run(folders / "backend").certificate, certified=False, selection=selection)
    passed = replace(certificate, objections=(selection.objection,))
    assert outcome_text(passed) == f"passed, shard 1/2 {said}"
    assert outcome_text(replace(passed, objections=("1 of 2 cases fail",))) == f"not passed, shard 1/2 {said}"


def test_cases_that_a_selection_leaves_out_are_not_gone(folders: Path) -> None:
    whole = read_run(folders / "backend")
    part = of_selection(whole, "neg", "neg")
    rest = len(whole.results) - len(part.results)
    for one, other, name in ((whole, part, "b"), (part, whole, "a")):
        found = compare(one, other)
        assert outcomes(found) == {} and list(groups_by_row(found)) == [] and not found.same
        assert f"  not run in {name}, a selection: {rest} cases (not compared)" in list(lines(found))
        assert f"| not run in {name}, a selection | {rest} | not compared |" in markdown(found)
        assert found.conclusion.endswith(f"; 0 of {len(part.results)} cases, and {rest} not compared")
    fewer = replace(whole, results=part.results)  # a whole run without these has lost them
    assert outcomes(compare(whole, fewer)) == {"gone": rest}
    assert outcomes(compare(part, replace(part, results={}))) == {"gone": len(part.results)}
