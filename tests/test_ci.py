"""What a run tells a build server: JUnit with times, annotations and summaries by GitHub's rules, differences."""

from __future__ import annotations

import datetime
import importlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from test_package import NEG, TODAY, Silent, run

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.ci.github import MOST, annotated, message, summary, tell, value
from npu_assay.conformance.ci.junit import timed_junit
from npu_assay.conformance.cli import main
from npu_assay.conformance.common.markup import code
from npu_assay.conformance.compare.difference import Difference, compare, read_run
from npu_assay.conformance.compare.difference_markup import CASES, LONGEST, html, markdown
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.names import TABLE
from npu_assay.conformance.record.results import Failure
from npu_assay.conformance.report.console import summary as shown_on_console
from npu_assay.conformance.report.data import Report, make_report
from npu_assay.conformance.report.junit import junit
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.run.session import Request, assay

ROOT = Path(__file__).parent.parent
START = datetime.datetime(2026, 6, 1, 12, 0, 5, tzinfo=datetime.UTC)
HOSTILE = "<script>alert(1)</script> [x](http://e.vil) `` | \\| **b** %25\r\n::error::made up \x00\x1b[31m @someone"
WORKFLOW = ROOT / "examples" / "github-workflow" / "assay.yml"


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(tmp_path_factory.mktemp("ci") / "out", "refuses", Selection("neg or abs and baseline"))


@pytest.fixture(scope="module")
def hostile(failing: Report) -> Report:
    """The same run, with a message that would break careless markup."""
    results = [replace(r, failures=(Failure("crash", HOSTILE),)) if r.case == NEG else r for r in failing.results]
    return make_report(failing.certificate, failing.table, results, all_cases(failing.table))


def command(*arguments: str | Path, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)), env=environment)


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
    assert times and all(0 < time < 100 for time in times)
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
    assert len(lines) == MOST + 1 == 10 and lines[-1].endswith("::and 41 more findings, see the report")
    assert len(list(annotated(replace(failing, findings=failing.findings[:1]), tmp_path / "t.toml"))) == 1


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


def outside_of_code(text: str) -> str:
    """What is left of Markdown without its code spans: where a parser looks for markup."""
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)


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


# ------------------------------------------------------------------------------------ differences


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Difference:
    made = tmp_path_factory.mktemp("diff")
    for name in ("backend", "refuses"):
        run(made / name, name, Selection("neg"))
    return compare(read_run(made / "backend"), read_run(made / "refuses"))


@pytest.fixture(scope="module")
def spoiled(found: Difference) -> Difference:
    """The same, with texts that would break careless markup in every place."""
    spoil = tuple(replace(change, after=HOSTILE, row=HOSTILE, what=HOSTILE) for change in found.changes)
    return replace(
        found, changes=spoil, stated=((HOSTILE,) * 3,), made_with=((HOSTILE,) * 3,), a=replace(found.a, name=HOSTILE)
    )


def test_markdown_says_what_the_text_says(found: Difference) -> None:
    text = markdown(found)
    assert text.startswith(f"### Different: {len(found.a.results)} of {len(found.a.results)} cases\n")
    assert "\n- tags: `accept` to `reject (mood), which fails`: " in text
    assert re.search(r"\n\| no longer accepted \| [1-9]\d* \| went to the device \|\n", text)
    assert "| `counts` | `" in text
    assert markdown(compare(found.a, found.a)).startswith("### The same\n")


def test_markdown_of_texts_that_are_not_trusted(spoiled: Difference) -> None:
    text = outside_of_code(markdown(spoiled))
    for word in ("<", "alert", "e.vil", "@someone", "\x1b"):
        assert word not in text, word
    for line in text.splitlines():
        assert not line.startswith("|") or len(re.findall(r"(?<!\\)\|", line)) in (4, 6)


def test_markdown_fits_a_comment(found: Difference) -> None:
    many = tuple(
        replace(change, row=f"row{number}", after=f"{number} {'x' * 200}")
        for number in range(200)
        for change in found.changes[:10]
    )
    text = markdown(replace(found, changes=many))
    assert len(text) < LONGEST + 100 and text.endswith("The rest is left out (--json has all).\n")


class Elements(HTMLParser):
    """The elements of a page, and what they refer to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names = list[str]()
        self.references = list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.references += [str(text) for name, text in attrs if name in ("src", "href", "action", "data")]


def test_html_is_one_file_without_markup_of_a_backend(found: Difference, spoiled: Difference) -> None:
    page = Elements(html(spoiled))
    assert "script" not in page.names and page.references == []
    assert "alert(1)" in html(spoiled) and "\x1b" not in html(spoiled)
    assert Elements(html(found)).names.count("li") >= CASES
    assert html(found) == html(found) and "mood (a bad one)" in html(found)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("a|b", "`a\\|b`"),
        ("", "`none`"),
        ("`", "`` ` ``"),
        ("a``b`", "``` a``b` ```"),
        ("a\nb", "`a\\nb`"),
        (" x", "`  x `"),
    ],
)
def test_any_text_is_a_code_span(text: str, span: str) -> None:
    assert code(text) == span


@pytest.mark.parametrize(("form", "start"), [("--markdown", "### Different"), ("--html", "<!DOCTYPE html>\n")])
def test_the_command_has_each_form(form: str, start: str, found: Difference) -> None:
    shown = command("diff", found.a.name, found.b.name, form)
    assert shown.exit_code == 1 and shown.stdout.startswith(start)
    assert command("diff", found.a.name, found.a.name, form).exit_code == 0


# ------------------------------------------------------------------------------------ the workflow


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each job's steps."""
    yaml: Any = importlib.import_module("yaml")
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    for name, job in jobs.items():
        for step in job["steps"]:
            yield name, step


def lines(job: str) -> list[str]:
    """The assay commands of a job, a line each, with shard numbers in place of GitHub's expressions."""
    texts = [str(step["run"]) for name, step in steps() if name == job and "run" in step]
    found = [line.strip() for text in texts for line in text.replace("\\\n", " ").splitlines()]
    return [line for line in found if line.startswith("assay ")]


def test_every_command_of_the_workflow_can_be_given() -> None:
    commands = [line for job in ("shard", "certificate") for line in lines(job)]
    assert len(commands) >= 4
    for line in commands:
        verb, *arguments = shlex.split(re.split(r" (?:>>|\|\|) ", filled(line, 1))[0])[1:]
        main.commands[verb].make_context(verb, arguments)


def filled(line: str, number: int) -> str:
    line = line.replace("${{ matrix.shard }}", str(number)).replace('"$BACKEND"', "fake_backend:backend")
    return line.replace('--table "$TABLE"', "")


def test_what_a_user_changes_stands_in_env_alone() -> None:
    yaml: Any = importlib.import_module("yaml")
    workflow = yaml.safe_load(WORKFLOW.read_text())
    backend, table = workflow["env"]["BACKEND"], workflow["env"]["TABLE"]
    assert Path(load_backend(backend).table).stem == table or load_backend(backend).table == table
    texts = [str(step["run"]) for _, step in steps() if "run" in step]
    assert not [text for text in texts if backend in text or "constraints.txt" in text]
    for verb in ("certify", "merge"):
        assert all(
            '--table "$TABLE"' in line for job in ("shard", "certificate") for line in lines(job) if verb in line
        )


def test_the_workflow_s_shards_are_those_of_its_matrix() -> None:
    yaml: Any = importlib.import_module("yaml")
    job = yaml.safe_load(WORKFLOW.read_text())["jobs"]["shard"]
    numbers = job["strategy"]["matrix"]["shard"]
    (certify,) = lines("shard")
    assert numbers == list(range(1, len(numbers) + 1)) and f"/{len(numbers)} " in certify
    assert job["strategy"]["fail-fast"] is False


def test_the_workflow_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands, one after another in one folder, with a small backend in the place of Neutron."""
    monkeypatch.chdir(tmp_path)
    summaries = tmp_path / "summary.md"
    job = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summaries)}
    (certify,) = lines("shard")
    for number in range(1, 5):
        assert command(*shlex.split(filled(certify, number))[1:], environment=job).exit_code == 0
    for line in lines("certificate"):
        words = shlex.split(re.split(r" (?:>>|\|\|) ", filled(line, 1))[0])[1:]
        words = [str(path) for word in words for path in (sorted(tmp_path.glob(word)) if "*" in word else [word])]
        if words[0] != "diff":  # against a certificate of another day, which is not here
            assert command(*words, environment=job).exit_code == 0, line
    assert summaries.read_text().count("### ") == 5 and "### Certified: " in summaries.read_text()
