"""What a run tells a build server: JUnit with times, annotations and summaries by GitHub's rules, differences."""

from __future__ import annotations

import datetime
import io
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ci_asked import HOSTILE, command, outside_of_code
from rich.console import Console

from npu_assay.conformance.ci.annotation import message, value
from npu_assay.conformance.ci.github import MOST, annotated, summary, tell
from npu_assay.conformance.ci.junit import timed_junit
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.names import TABLE
from npu_assay.conformance.record.results import Failure
from npu_assay.conformance.record.waivers import Waiver
from npu_assay.conformance.report.console import summary as shown_on_console
from npu_assay.conformance.report.data import Report, make_report
from npu_assay.conformance.report.junit import junit
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.run.session import Request, assay
from tests.conformance.record.test_package import NEG, TODAY, Silent, run

START = datetime.datetime(2026, 6, 1, 12, 0, 5, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(tmp_path_factory.mktemp("ci") / "out", "refuses", Selection("neg or abs and baseline"))


@pytest.fixture(scope="module")
def hostile(failing: Report) -> Report:
    """The same run, with a message that would break careless markup."""
    results = [replace(r, failures=(Failure("crash", HOSTILE),)) if r.case == NEG else r for r in failing.results]
    return make_report(failing.certificate, failing.table, results, all_cases(failing.table))


# ------------------------------------------------------------------------------------ JUnit


def test_junit_has_times_host_and_properties(failing: Report) -> None:
    seconds = {result.case: 0.25 for result in failing.results} | {NEG: 1.5}
    root = ElementTree.fromstring(timed_junit(junit(failing), failing.certificate, seconds, START, "builder-7"))
    cases = list(root.iter("testcase"))
    times = {f"{case.get('classname')}/{case.get('name')}": case.get("time") for case in cases}
    assert times[NEG] == "1.500" and set(times.values()) == {"0.250", "1.500"}
    assert float(root.get("time", 0)) == pytest.approx(0.25 * (len(cases) - 1) + 1.5)
    suite = root.find("testsuite")
    assert suite is not None
    assert (suite.get("hostname"), suite.get("timestamp")) == ("builder-7", "2026-06-01T12:00:05+00:00")
    stated = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert stated["backend"] == "fake_backend:refuses" and stated["table"] == "fake@1.0"
    assert stated["selection"] == "-k 'neg or abs and baseline'" and {"torch", "limits", "level"} <= stated.keys()


def test_what_nobody_measured_has_no_time(failing: Report) -> None:
    root = ElementTree.fromstring(timed_junit(junit(failing), failing.certificate, {}, START, "x"))
    assert [each for each in root.iter() if each.get("time") is not None] == []


def test_but_for_that_it_is_the_record_s(hostile: Report) -> None:
    """Counts, failures and texts are those of junit.xml."""
    plain = ElementTree.fromstring(junit(hostile))
    timed = ElementTree.fromstring(timed_junit(junit(hostile), hostile.certificate, {NEG: 2.0}, START, HOSTILE))
    for suite in timed.iter("testsuite"):
        for key in ("hostname", "timestamp", "time"):
            suite.attrib.pop(key, None)
        held = suite.find("properties")
        assert held is not None
        for each in list(held)[2:]:
            held.remove(each)
    for element in timed.iter():
        element.attrib.pop("time", None)
    for tree in (plain, timed):
        ElementTree.indent(tree)
    assert ElementTree.tostring(timed) == ElementTree.tostring(plain)


def test_the_command_measures_every_case_and_leaves_the_record_alone(tmp_path: Path) -> None:
    arguments = ("certify", "fake_backend:backend", "-k", "baseline", "-n", "1", "--out", tmp_path / "out")
    found = command(*arguments, "--junit", tmp_path / "ci" / "junit.xml")
    assert found.exit_code == 0, found.output
    root = ElementTree.parse(tmp_path / "ci" / "junit.xml").getroot()
    times = [float(case.get("time", "nan")) for case in root.iter("testcase")]
    assert times and all(0 <= time < 100 for time in times)  # one of less than half a millisecond says 0
    assert max(times) > 0
    assert "time=" not in (tmp_path / "out" / "junit.xml").read_text()
    assert "hostname" not in (tmp_path / "out" / "junit.xml").read_text()


def test_a_slow_case_takes_its_time(tmp_path: Path) -> None:
    request = Request("fake_backend:slow", None, Selection(NEG), 1, tmp_path / "out", junit=tmp_path / "junit.xml")
    assay(request, Silent(), lambda: TODAY)
    (case,) = ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")
    assert float(case.get("time", 0)) > 0.01


def test_a_file_within_the_record_is_refused(tmp_path: Path) -> None:
    found = command("certify", "fake_backend:backend", "--out", tmp_path, "--junit", tmp_path / "junit.xml")
    assert found.exit_code == 2 and "expected --out FILE elsewhere" in found.output


# ------------------------------------------------------------------------------------ GitHub


def test_messages_and_properties_are_escaped_by_github_s_rules() -> None:
    """https://github.com/actions/toolkit, packages/core: % first, then line ends; of properties also : and ,."""
    assert message("100%\r\na:b,c") == "100%25%0D%0Aa:b,c"
    assert value("100%\r\na:b,c") == "100%25%0D%0Aa%3Ab%2Cc"


def test_every_annotation_is_one_line_at_the_table_s_row(failing: Report, tmp_path: Path) -> None:
    table = tmp_path / "tables" / "fake,1.toml"
    table.parent.mkdir()
    table.write_text('# a comment\n[operators]\n"aten.abs.default" = {}\n"aten.neg.default" = {}\n')
    lines = list(annotated(failing, table, str(tmp_path)))
    assert lines and all("\n" not in line and "\r" not in line for line in lines)
    assert lines[0].startswith(
        "::error file=tables/fake%2C1.toml,line=4,title=fake_backend%3Arefuses against fake@1.0::"
    )
    assert "%0Aagain: assay certify fake_backend:refuses -k aten.neg.default/" in lines[0]


def test_a_table_elsewhere_is_named_whole(failing: Report, tmp_path: Path) -> None:
    line = next(annotated(failing, tmp_path / "no such.toml", "/somewhere/else"))
    assert line.startswith(f"::error file={value(str(tmp_path / 'no such.toml'))},title=")


def test_no_text_of_a_backend_is_a_command(hostile: Report, tmp_path: Path) -> None:
    for line in annotated(hostile, tmp_path / "t.toml"):
        assert line.startswith("::error ") and "\n" not in line and "\r" not in line and "\x1b" not in line
        properties = line.removeprefix("::error ").partition("::")[0]
        assert re.fullmatch(r"(file|title)=[^:,\n]*(,(line|title)=[^:,\n]*)*", properties)


def commands(text: str) -> list[str]:
    """The lines that GitHub's runner takes for commands: `::name` at the start, or `##[name` anywhere."""
    return [line for line in text.splitlines() if re.match(r"\s*::[a-z-]+", line) or re.search(r"##\[[a-z-]+", line)]


def test_no_text_of_a_backend_stops_the_annotations(failing: Report, tmp_path: Path) -> None:
    """The older form counts in the middle of a line, as findings print the messages of a backend."""
    message = "no such thing ##[stop-commands]quiet"
    results = [replace(r, failures=(Failure("crash", message),)) if r.case == NEG else r for r in failing.results]
    report = make_report(failing.certificate, failing.table, results, all_cases(failing.table))
    printed = io.StringIO()
    shown_on_console(Console(file=printed, width=80), report, tmp_path)
    assert "stop-commands" in printed.getvalue() and commands(printed.getvalue()) == []
    assert commands(message) == [message]
    for line in annotated(report, tmp_path / "t.toml"):
        assert commands(line) == [line] and "##[" not in line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[operators]\n"aten.neg.default" = {}\n', 2),
        ("[operators]\n'aten.neg.default' = {}\n", 2),
        ('[operators."aten.neg.default"]\ndocument = ""\n', 1),
        ('[operators]\n"aten.neg.default_2" = {}\n"aten.neg.default"={}\n', 3),
        ("# aten.neg.default is not here\n", 0),
    ],
)
def test_an_annotation_finds_its_row_however_the_table_writes_it(
    text: str, line: int, failing: Report, tmp_path: Path
) -> None:
    table = tmp_path / "t.toml"
    table.write_text(text)
    first = next(annotated(failing, table))
    assert first.startswith(f"::error file={value(str(table))},line={line},") == (line > 0)
    assert (",line=" in first) == (line > 0)


def test_annotations_are_no_more_than_a_step_shows(failing: Report, tmp_path: Path) -> None:
    many = replace(failing, findings=failing.findings[:1] * 50)
    lines = list(annotated(many, tmp_path / "t.toml"))
    assert len(lines) == MOST + 1 == 10 and lines[-1].endswith("::and 41 more, see the report")
    assert len(list(annotated(replace(failing, findings=failing.findings[:1]), tmp_path / "t.toml"))) == 1


def waived(case: str, expires: str, reason: str = "known", owner: str = "jane") -> str:
    checks = 'checks = ["tag", "reason"]'
    return f'[[waiver]]\n{checks}\nreason = "{reason}"\n case="{case}"\nowner = "{owner}"\nexpires = {expires}\n'


def test_waivers_that_are_wrong_have_annotations_at_their_lines_beside_failing_cases(tmp_path: Path) -> None:
    path = tmp_path / "ci" / "waivers.toml"
    path.parent.mkdir()
    path.write_text(waived(NEG, "2020-01-31") + waived("aten.nothing", "2999-12-31"))
    job = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(tmp_path)}
    arguments = ("certify", "fake_backend:refuses", "-k", NEG, "-n", "1", "--out", tmp_path / "out")
    output = command(*arguments, "--waivers", path, environment=job).output
    errors = [line for line in output.splitlines() if line.startswith("::error ")]
    assert len(errors) == 3 and errors[0].startswith("::error file=out/")
    for error, line, text in zip(
        errors[1:], (4, 10), (f"{NEG} expired on", "aten.nothing matches no case"), strict=True
    ):
        assert error.startswith(f"::error file=ci/waivers.toml,line={line},title=")
        assert f"::the waiver of jane for {text}" in error


def test_what_is_waived_is_listed_and_warned_of_before_it_ends(failing: Report, tmp_path: Path) -> None:
    """Two cases for one reason until a fortnight after the run, one for another until the day after, one expired."""
    until = [datetime.date(2026, 6, 15)] * 2 + [datetime.date(2026, 6, 16), datetime.date(2026, 5, 31)]
    whose = [("slow | fix", "jane"), ("slow | fix", "jane"), (HOSTILE, HOSTILE), ("late", "joe")]
    failed = [result for result in failing.results if result.failures]
    waivers = tuple(
        Waiver(each.case, tuple(dict.fromkeys(failure.check for failure in each.failures)), *names, day)
        for each, names, day in zip(failed, whose, until, strict=False)
    )
    path = tmp_path / "waivers.toml"
    path.write_text(f'[[waiver]]\ncase = "{waivers[0].case}"\n')
    certificate = replace(failing.certificate, waivers=waivers)
    report = make_report(certificate, failing.table, failing.results, all_cases(failing.table))
    text = summary(report, tmp_path)
    checks = ", ".join(waivers[0].checks)
    assert "\n| waived | checks | reason | owner | last day |\n|--:|" in text
    assert f"\n| 2 cases | `{checks}` | `slow \\| fix` | `jane` | 2026-06-15 |\n| 1 case | " in text
    assert "joe" not in text and "<" not in outside_of_code(text) and "::" not in outside_of_code(text)
    (warning,) = [line for line in annotated(report, path, str(tmp_path), path) if line.startswith("::warning ")]
    assert warning.startswith("::warning file=waivers.toml,line=2,title=")
    assert f"::the waiver of jane for 2 cases ends on 2026-06-15: slow | fix%0Aexample: {waivers[0].case}" in warning
    later = replace(report, certificate=replace(certificate, made="2026-06-02"))
    found = [line for line in annotated(later, path) if line.startswith("::warning ")]
    assert len(found) == 2 and all(commands(line) == [line] for line in found) and "file=" not in "".join(found)


def test_objections_count_among_the_ten(failing: Report, tmp_path: Path) -> None:
    waivers = tuple(Waiver(f"case/{n}", ("tag",), "r", "o", TODAY) for n in range(12))
    objections = ("2 of 4 cases fail", *(f"{waiver.name} expired on {TODAY} ##[x]" for waiver in waivers))
    certificate = replace(failing.certificate, waivers=waivers, objections=objections)
    lines = list(annotated(replace(failing, certificate=certificate), tmp_path / "t.toml"))
    rest = len(failing.findings) + 12 - MOST
    assert len(lines) == MOST + 1 and lines[-1].endswith(f"::and {rest} more, see the report")
    assert lines[1].startswith("::error title=") and "::the waiver of o for case/0 expired on " in lines[1]
    assert not [line for line in lines if commands(line) != [line] or "cases fail" in line]
    alone = list(annotated(replace(failing, certificate=certificate, findings=()), tmp_path / "t.toml"))
    assert len(alone) == MOST + 1 and alone[0].startswith(f"::error file={value(str(tmp_path))}")
    assert alone[0].endswith("::2 of 4 cases fail") and alone[-1].endswith("::and 4 more, see the report")


def test_a_right_run_has_no_annotation(tmp_path: Path) -> None:
    report = run(tmp_path / "out", "backend", Selection("baseline"))
    assert list(annotated(report, tmp_path / "t.toml")) == []
    assert summary(report, tmp_path / "out").startswith(
        "### Passed, a selection of the cases: `fake_backend:backend against fake@1.0`\n"
    )


def test_the_summary_says_verdict_counts_and_findings(failing: Report, tmp_path: Path) -> None:
    text = summary(failing, tmp_path / "out")
    assert text.startswith("### Not passed, a selection of the cases: `fake_backend:refuses against fake@1.0`\n")
    counts = failing.certificate.counts
    assert f"| {' | '.join(map(str, counts.values()))} |" in text and counts["fail"] > 0
    assert f"- example `{failing.findings[0].first}`" in text


def test_no_text_of_a_backend_is_markup_of_a_summary(hostile: Report, tmp_path: Path) -> None:
    text = summary(hostile, tmp_path / "out")
    assert "alert(1)" in text
    for word in ("<", "alert", "e.vil", "@someone", "\x1b", "::"):
        assert word not in outside_of_code(text), word


def test_nothing_is_told_elsewhere(failing: Report, tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    there = {"GITHUB_STEP_SUMMARY": str(path)}
    assert tell(failing, tmp_path, tmp_path / "t.toml", there) == () and path.read_text() == "before\n"
    lines = tell(failing, tmp_path, tmp_path / "t.toml", there | {"GITHUB_ACTIONS": "true"})
    assert lines and path.read_text() == "before\n" + summary(failing, tmp_path)


def test_the_command_tells_in_a_job_alone(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    job = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(path), "GITHUB_WORKSPACE": str(tmp_path)}
    arguments = ("certify", "fake_backend:refuses", "-k", "neg", "-n", "1", "--out", tmp_path / "out")
    found = command(*arguments, environment=job)
    assert found.exit_code == 1 and f"\n::error file=out/{TABLE},line=" in found.output
    assert path.read_text().startswith("### Not passed, a selection of the cases: ")
    assert "::error" not in command(*arguments, environment={"GITHUB_ACTIONS": ""}).output


def test_a_summary_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    job = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path)}
    arguments = ("certify", "fake_backend:backend", "-k", NEG, "-n", "1", "--out", tmp_path / "out")
    found = command(*arguments, environment=job)
    assert found.exit_code == 2 and found.output.endswith(f"assay: {tmp_path}: cannot be written: Is a directory\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("merge", "shard-1", "shard-2"), "assay: shard-1: no such folder or archive"),
        (("certify", "neutron", "--waivers", "no%such.toml"), "assay: no%such.toml: cannot read the waivers: No such"),
        (("diff", "nowhere", "nowhere", "--markdown"), "assay: nowhere: "),
        (("certify", "neutron", "--out", "file/out"), "assay: file/out: cannot be written: "),
        (("merge", "--tabel", "x", "shard-1"), "Error: No such option"),
        (("table", "lint"), "Error: Missing argument"),
    ],
)
def test_a_usage_error_is_an_annotation_once(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, as `assay diff` may write to the summary; what is printed elsewhere is printed as well."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    alone = command(*arguments, environment={"GITHUB_ACTIONS": ""})
    told = command(*arguments, environment={"GITHUB_ACTIONS": "true"})
    (line,) = commands(told.stderr)
    assert (alone.exit_code, told.exit_code, told.stdout) == (2, 2, alone.stdout) and commands(alone.output) == []
    assert said in alone.stderr and told.stderr.replace(f"{line}\n", "", 1) == alone.stderr
    text = alone.stderr.splitlines()[-1].removeprefix("assay: ").removeprefix("Error: ")
    assert line == f"::error title=assay::{message(text)}"
