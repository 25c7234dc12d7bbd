"""Reports: every failure with its sentence and command, in four formats, and text that cannot break them."""

from __future__ import annotations

import datetime
import io
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from conformance.assay import Request, assay
from conformance.certificate import Selection
from conformance.report.console import BarProgress, PlainProgress, progress, summary
from conformance.report.data import CHECKS, Report, Tally, command, make_report
from conformance.report.junit import junit
from conformance.report.render import html, markdown
from conformance.report.svg import lsb_histogram, sqnr_plot
from conformance.results import Failure

NEG = "aten.neg.default/operator/accept/baseline"


def run(folder: Path, name: str, expression: str | None) -> Report:
    console = Console(file=io.StringIO())
    request = Request(f"fake_backend:{name}", None, Selection(expression), 1, folder)
    return assay(request, PlainProgress(console), lambda: datetime.date(2026, 6, 1))


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(tmp_path_factory.mktemp("report"), "drifts", "baseline or quantized")


@pytest.fixture(scope="module")
def hostile(failing: Report) -> Report:
    """The same run with a message that would break careless markup."""
    bad = Failure("gate1", "<script>alert(1)</script> [red] & | \x00\x1b")
    results = [replace(r, failures=(bad,)) if r.case == NEG else r for r in failing.results]
    return make_report(failing.certificate, failing.table, results)


def test_a_failure_has_its_rule_and_its_command(failing: Report) -> None:
    failure = next(f for f in failing.failures if f.result.constraint == "quantized")
    assert failure.sentence.startswith("the operator must stand between")
    assert failure.command == f"assay certify fake_backend:drifts -k {failure.result.case} -n 1"
    assert "the table promises: accept" in failure.asked


def test_a_table_of_ones_own_is_part_of_the_command(failing: Report) -> None:
    certificate = replace(failing.certificate, table={**failing.certificate.table, "path": "my table.toml"})
    assert command(certificate, "a b") == ("assay certify fake_backend:drifts -k 'a b' -n 1 --table 'my table.toml'")


def test_counts_by_operator_and_constraint(failing: Report) -> None:
    assert sum(tally.cases for _, tally in failing.rows) == len(failing.results)
    assert failing.cells["aten.neg.default", "operator"].failed >= 1
    assert [Tally().state, Tally(1).state, Tally(1, 1, 1).state, Tally(0, 1).state] == [
        "none",
        "pass",
        "fail",
        "unspecified",
    ]


def test_html_is_one_self_contained_file(failing: Report) -> None:
    text = html(failing)
    assert NEG in text and "expected -33 (exact)" in text and text.count("<svg") == 2
    assert not any(word in text for word in ("<script", "<link", "src=", "@import", "url("))
    assert all(f.command.replace("'", "&#39;") in text for f in failing.failures)


def test_hostile_text_stays_text(hostile: Report) -> None:
    assert "<script" not in html(hostile)
    tree = ElementTree.fromstring(junit(hostile))
    assert any("<script>" in str(node.get("message")) for node in tree.iter("failure"))


def test_junit_counts_what_it_lists(failing: Report) -> None:
    tree = ElementTree.fromstring(junit(failing))
    assert sum(int(suite.get("tests", "")) for suite in tree) == len(list(tree.iter("testcase")))
    assert (
        sum(int(suite.get("failures", "")) for suite in tree)
        == len(failing.failures)
        == len(list(tree.iter("failure")))
    )


def test_markdown_lists_every_failure(failing: Report) -> None:
    text = markdown(failing)
    assert "not certified" in text.splitlines()[0]
    assert all(failure.command in text for failure in failing.failures)


def test_every_check_is_explained(failing: Report) -> None:
    assert {f.check for r in failing.results for f in r.failures} <= set(CHECKS)


def test_plots_show_every_measured_case(failing: Report) -> None:
    assert f">{len([r for r in failing.results if r.metrics['max_lsb'] == 1.0])}</text>" in lsb_histogram(
        failing.results
    )
    assert 'fill="#b3261e"/>' in sqnr_plot(failing.results)
    assert ElementTree.fromstring(lsb_histogram([])) is not None
    assert ElementTree.fromstring(sqnr_plot([])) is not None


def test_the_summary_ends_with_the_verdict(failing: Report) -> None:
    console = Console(file=io.StringIO(), width=100)
    summary(console, failing, Path("out"))
    text = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert "NOT CERTIFIED: fake against fake@1.0" in text.splitlines()[-3]
    assert "because only a selection of the table's cases was run" in text


@pytest.mark.parametrize(("terminal", "kind"), [(True, BarProgress), (False, PlainProgress)])
def test_progress_fits_where_it_is_shown(terminal: bool, kind: type[PlainProgress], failing: Report) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with progress(console) as shown:
        assert type(shown) is kind
        shown.started(len(failing.results))
        for result in failing.results:
            shown.finished(result)
    assert f"{len(failing.failures)} failures" in console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
