"""Drift: what the table promises against what the backend does, derived from recorded results."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import fake_backend
import pytest
from calling import call
from click.testing import Result

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.compare.drift import AGREEMENTS, COUNTED, FLAGS, agreement, count, drift, flag
from npu_assay.conformance.compare.drift_run import read_drift
from npu_assay.conformance.compare.drift_text import documented_lines, drift_markdown, lines
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS, TABLE
from npu_assay.conformance.record.results import CaseResult, Failure
from npu_assay.conformance.table import load_table, read_table
from tests.conformance.record.test_package import edit, run

FAKE = load_table(fake_backend.TABLE)
CASES = cases_for(FAKE)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("assay")
    for name in ("backend", "strays"):
        run(made / name, name)
    return made


def invoke(*arguments: str | Path) -> Result:
    return call("drift", *arguments)


def answer(expect: str, verdict: str, *checks: str, message: str = "something") -> CaseResult:
    case = CASES[0]
    failures = tuple(Failure(check, message) for check in checks)
    return CaseResult(
        case=case.id,
        row=case.row,
        constraint=case.constraint,
        side=case.side,
        expect=expect,
        reason=None,
        program="",
        verdict=verdict,
        reasons=(),
        status="fail" if failures else "pass",
        failures=failures,
        metrics={},
        partitions=0,
        blobs=(),
    )


@pytest.mark.parametrize(
    ("expect", "verdict", "found"),
    [
        ("accept", "accept", "both_accept"),
        ("reject", "reject", "both_reject"),
        ("accept", "reject", "table_accepts"),
        ("accept", "partial", "table_accepts"),
        ("reject", "accept", "table_rejects"),
        ("reject", "partial", "table_rejects"),
        ("unspecified", "accept", "silent"),
        ("unspecified", "reject", "silent"),
        ("accept", "error", "no_answer"),
        ("reject", "absent", "no_answer"),
    ],
)
def test_agreement(expect: str, verdict: str, found: str) -> None:
    assert agreement(answer(expect, verdict)) == found


@pytest.mark.parametrize(
    ("verdict", "checks", "found"),
    [
        ("accept", (), ""),
        ("accept", ("tag", "reason"), ""),
        ("accept", ("tag", "crash"), "accepted_breaks"),
        ("partial", ("gate1", "crash"), "accepted_breaks"),
        ("accept", ("gate3",), "accepted_wrong"),
        ("accept", ("shape",), "accepted_wrong"),
        ("accept", ("determinism", "not_constant"), "accepted_wrong"),
        ("accept", ("not_run",), "accepted_not_run"),
        ("accept", ("leak",), "accepted_other"),
        ("reject", ("gate1",), "rejected_wrong"),
        ("reject", ("hang",), "rejected_breaks"),
        ("error", ("crash",), "unanswered_breaks"),
    ],
)
def test_flags(verdict: str, checks: tuple[str, ...], found: str) -> None:
    assert flag(answer("accept", verdict, *checks)) == found


def test_an_error_of_the_suite_is_not_the_backends() -> None:
    assert flag(answer("reject", "accept", "crash", message="judge: IntegerError: no golden")) == "accepted_not_judged"
    assert flag(answer("reject", "accept", "crash", message="run: IntegerError: no golden")) == "accepted_breaks"


def expected(case: Case) -> tuple[str, str]:
    """What `fake_backend:strays` does with a case, from how both were written."""
    rank, is_neg = len(case.graph.values[0].shape), case.row == "aten.neg.default"
    if case.reason == "static_shape":
        return "no_answer", "unanswered_breaks"
    if case.reason == "rescale" and not is_neg:
        return "table_rejects", "accepted_wrong"  # more output steps than its kernel has bits for
    if is_neg and rank == 1:
        return "table_accepts", ""
    wrong = "accepted_breaks" if is_neg and rank == 3 else "accepted_wrong" if rank == 2 else ""
    return ("both_accept" if case.expect == "accept" else "both_reject"), wrong


@pytest.mark.long
def test_a_run_shows_every_verdict(folders: Path) -> None:
    found = read_drift(folders / "strays")
    wanted = {case.id: expected(case) for case in CASES}
    assert {entry.result.case: (entry.agreement, entry.flag) for entry in found.entries} == wanted
    counts = Counter(kind for pair in wanted.values() for kind in pair)
    assert dict(found.counts) == {key: counts[key] for key in COUNTED}
    assert all(found.counts[key] for key in (*tuple(AGREEMENTS)[:4], "accepted_breaks", "accepted_wrong"))


def test_lines_add_up_to_the_whole(folders: Path) -> None:
    found = read_drift(folders / "strays")
    for key in COUNTED:
        assert sum(line.counts[key] for line in found.lines) == found.counts[key]
        assert sum(counts[key] for counts in found.by("constraint").values()) == found.counts[key]
    (line,) = [x for x in found.lines if (x.row, x.constraint) == ("aten.abs.default", "rescale")]
    assert line.drifts and line.counts["table_rejects"] == line.counts["both_accept"] == 1


def test_what_a_run_wrote_is_what_its_results_give(folders: Path) -> None:
    shown = invoke(folders / "strays", "--json")
    assert shown.exit_code == 1
    assert shown.stdout == (folders / "strays" / "drift.json").read_text()
    data = json.loads(shown.stdout)
    assert data["cases"] == 110 and len(data["drifting"]) == sum(a != "" for a in map(_drifts, CASES))
    for name in ("report.md", "report.html"):
        assert "table rejects, backend accepts" in (folders / "strays" / name).read_text()


def _drifts(case: Case) -> str:
    found, wrong = expected(case)
    return wrong or (found if found not in ("both_accept", "both_reject") else "")


def test_a_sound_backend_has_no_drift(folders: Path) -> None:
    shown = invoke(folders / "backend")
    assert shown.exit_code == 0
    assert "0 drift" in shown.stdout and "    0 table rejects, backend accepts" in shown.stdout
    before, _, after = shown.stdout.partition("document against backend")
    assert len(before.splitlines()) == 1 + len(AGREEMENTS)
    assert "document promises, backend accepts" in after and "document excludes, backend accepts" not in after


def test_the_text_names_cases(folders: Path) -> None:
    shown = invoke(folders / "strays").stdout
    assert (
        "aten.neg.default/operator: 43 both accept, 2 table accepts, backend rejects, 1 accepted, but breaks" in shown
    )
    assert "    aten.abs.default/rescale/outside/ratio_2_to_the_23: [tag] accept, expected reject for rescale" in shown
    table = invoke(folders / "strays", "--markdown").stdout
    assert "| aten.abs.default | `rescale` | 1 |  |  | 1 |" in table and "| both accept | 94 |" in table


def test_counts_follow_the_results() -> None:
    """A changed answer changes the counts: nothing is taken from what a line says of itself."""
    results = [answer("accept", "accept"), answer("reject", "accept")]
    before = drift("fake", FAKE, results)
    after = drift("fake", FAKE, [results[0], replace(results[1], verdict="reject")])
    assert (before.counts["table_rejects"], before.counts["both_reject"]) == (1, 0)
    assert (after.counts["table_rejects"], after.counts["both_reject"]) == (0, 1)
    assert set(count(())) == {*AGREEMENTS, *FLAGS} and not after.found
    assert any("1 drift" in line for line in lines(before))


# ------------------------------------------------------------------------------------ document against backend

TABLE_OF_TWO = """\
schema = 1
name = "toy"
version = "1.0"
backend_id = "ToyBackend"
source = "a test"
rescale = ""

[parameters]

[common]
constraints = ["common @1.5.1"]

[constraints]
common = "always"
rank = "the rank must be {value}"
batch = "the batch size must be {value}"
missing = "there is no such operator"

[operators."aten.relu.default"]
document = "rank 4"
precisions = ["int8", "int16 @1.5.1"]
constraints = ["rank = 4 @document", "batch = 1 @1.5.1"]

[operators."aten.abs.default"]
document = ""
source = "1.5.1"
precisions = ["int8"]
constraints = []

[refused]
"aten.neg.default" = { document = "8x8", precisions = ["int8"], constraints = ["missing @1.5.1"] }
"ours.loop.default" = { document = "8x8", documented_as = "loop", constraints = ["missing @1.5.1"] }

[rewritten]
"sqrt.default" = { document = "8x8", operators = ["aten.abs.default"] }
"""
TOY = read_table(TABLE_OF_TWO.encode(), "toy@1.0.toml")


def toy(name: str, constraint: str, expect: str, verdict: str) -> CaseResult:
    """A result of a case of the toy table: `name` is "row/precision"."""
    reason = constraint if expect == "reject" else None
    case, row = f"{name}/{constraint}/x/y", name.partition("/")[0]
    return replace(answer(expect, verdict), case=case, row=row, constraint=constraint, reason=reason)


@pytest.mark.parametrize(
    ("result", "found"),
    [
        (("aten.relu.default/int8", "operator", "accept", "accept"), "promises_accepts"),
        (("aten.relu.default/int8", "operator", "accept", "reject"), "promises_rejects"),
        (("aten.relu.default/int8", "operator", "accept", "partial"), "promises_rejects"),
        (("aten.relu.default/int8", "rank", "reject", "reject"), "excludes_rejects"),
        (("aten.relu.default/int8", "rank", "reject", "partial"), "excludes_accepts"),
        (("aten.relu.default/int8", "rank", "accept", "accept"), "promises_accepts"),
        (("aten.relu.default/int8", "batch", "reject", "reject"), "unconditional_rejects"),
        (("aten.relu.default/int8", "batch", "reject", "accept"), "unconditional_accepts"),
        (("aten.relu.default/int8", "common", "reject", "partial"), "unconditional_rejects"),
        (("aten.relu.default/int16", "operator", "accept", "accept"), "unlisted_accepts"),
        (("aten.abs.default/int8", "operator", "accept", "accept"), "unlisted_accepts"),
        (("aten.abs.default/int8", "common", "reject", "reject"), "unlisted_rejects"),
        (("aten.neg.default/int8", "missing", "reject", "reject"), "promises_rejects"),
        (("aten.neg.default/int8", "missing", "reject", "accept"), "promises_accepts"),
        (("aten.relu.default/int8", "operator", "unspecified", "accept"), ""),
        (("aten.relu.default/int8", "operator", "accept", "error"), ""),
    ],
)
def test_what_the_document_says_of_a_case(result: tuple[str, str, str, str], found: str) -> None:
    assert drift("toy", TOY, [toy(*result)]).entries[0].document == found


def test_document_and_code_by_operator_and_constraint() -> None:
    found = drift(
        "toy",
        TOY,
        [
            toy("aten.relu.default/int8", "operator", "accept", "accept"),
            toy("aten.relu.default/int8", "batch", "reject", "reject"),
            toy("aten.relu.default/int16", "batch", "reject", "reject"),
            toy("aten.relu.default/int16", "operator", "accept", "accept"),
            toy("aten.abs.default/int8", "operator", "accept", "accept"),
            toy("aten.neg.default/int8", "missing", "reject", "reject"),
        ],
    )
    assert not found.found, "table and backend agree"
    assert list(documented_lines(found)) == [
        "aten.relu.default/int8/batch [1.5.1]: 1 document states no such condition, backend rejects",
        "aten.neg.default/int8/missing [1.5.1]: 1 document promises, backend rejects",
        "aten.relu.default/int16: 1 document does not list, backend accepts",
        "aten.abs.default/int8: 1 document does not list, backend accepts",
        "loop (8x8) has no cases, refused: missing [1.5.1]",
        "sqrt.default (8x8) has no cases, rewritten to aten.abs.default",
    ]
    text = list(lines(found))
    assert "  batch [1.5.1]: 1 document states no such condition, backend rejects; aten.relu.default" in text
    assert "       1 document does not list, backend rejects" in text
    assert "  document does not list, backend accepts: aten.relu.default int16, aten.abs.default int8" in text
    page = drift_markdown(found).split("\n")
    assert "| `missing` | 1.5.1 | aten.neg.default | 1 |  |" in page
    assert "| aten.relu.default | int16 | 1 |" in page
    assert "| sqrt.default | 8x8 | aten.abs.default |" in page
    data = found.as_json()
    assert data["documented"]["unconditional_rejects"] == 1 and data["rewritten"] == {
        "sqrt.default": ["aten.abs.default"]
    }


# ------------------------------------------------------------------------------------ what cannot be read


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (RESULTS, lambda text: text.replace('"verdict":"accept"', '"verdict":"reject"', 1), "is not the file that"),
        (RESULTS, lambda text: text[:-20], "is not the file that"),
        (TABLE, lambda text: text + "]", "table.toml"),
        (CERTIFICATE, lambda text: "{}", "certificate.json"),
    ],
)
def test_an_unusable_run_is_one_error(
    name: str, change: Callable[[str], str], message: str, folders: Path, tmp_path: Path
) -> None:
    shutil.copytree(folders / "strays", tmp_path / "run")
    edit(tmp_path / "run", name, change)
    found = invoke(tmp_path / "run")
    assert found.exit_code == 2 and message in found.stderr and found.stderr.count("\n") == 1
    assert found.stderr.startswith(f"assay: {tmp_path / 'run'}: ")


def test_errors_of_use(folders: Path, tmp_path: Path) -> None:
    assert "no run has written here" in invoke(tmp_path).stderr
    assert invoke(folders / "strays", "--json", "--markdown").exit_code == 2
    assert invoke(folders / "strays", "--json", "--document").exit_code == 2
    found = invoke(folders / "strays", "--repros")
    assert found.exit_code == 2 and "no scripts for fake_backend:strays: expected one of executorch:" in found.stderr
