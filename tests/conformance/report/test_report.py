"""Reports: every failure with its sentence and command, in four formats, and text that cannot break them."""

from __future__ import annotations

import base64
import datetime
import hashlib
import io
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode
from xml.etree import ElementTree

import pytest
from places import SHARED
from reported import HOSTILE, NEG, run, spoiled
from rich.console import Console

from npu_assay.conformance.backend.loading import load_backend, needed_path
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.results import Failure, Reason
from npu_assay.conformance.record.waivers import Waiver
from npu_assay.conformance.report.console import BarProgress, PlainProgress, finding_text, progress, summary
from npu_assay.conformance.report.data import CHECKS, Report, command, make_report
from npu_assay.conformance.report.findings import find
from npu_assay.conformance.report.junit import junit
from npu_assay.conformance.report.matrix import Tally
from npu_assay.conformance.report.page.data import page_data
from npu_assay.conformance.report.render import html, markdown
from npu_assay.conformance.report.svg import RED, lsb_by_row, lsb_histogram, sqnr_plot
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(tmp_path_factory.mktemp("report"), "drifts", "baseline or quantized")


@pytest.fixture(scope="module")
def hostile(failing: Report) -> Report:
    """The same run with a message that would break careless markup."""
    bad = Failure("gate1", "<script>alert(1)</script> [red] & | \x00\x1b")
    far = {"metrics": {**failing.results[0].metrics, "max_lsb": 9}, "failures": (bad,)}  # of a kind of its own
    results = [replace(r, **far) if r.case == NEG else r for r in failing.results]  # type: ignore[arg-type]  # as named
    return make_report(failing.certificate, failing.table, results, all_cases(failing.table))


def test_a_failure_has_its_rule_and_its_command(failing: Report) -> None:
    failure = next(f for f in failing.failures if f.result.constraint == "quantized")
    assert failure.sentence.startswith("the operator must stand between")
    assert failure.command == f"assay certify fake_backend:drifts -k {failure.result.case} -n 1"
    assert "the table promises: accept" in failure.asked


def test_a_table_of_ones_own_is_part_of_the_command(failing: Report) -> None:
    certificate = replace(failing.certificate, table={**failing.certificate.table, "path": "my table.toml"})
    assert command(certificate, "a b") == ("assay certify fake_backend:drifts -k 'a b' -n 1 --table 'my table.toml'")
    assert command(failing.certificate, "a", "my tests").startswith("PYTHONPATH='my tests' assay certify ")


def test_the_path_of_a_backend_is_part_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    load_backend("fake_backend:drifts")
    assert needed_path("neutron") == ""
    monkeypatch.setenv("PYTHONPATH", "")
    assert needed_path("fake_backend:drifts") == ""
    monkeypatch.setenv("PYTHONPATH", f"elsewhere{os.pathsep}{SHARED}")
    assert needed_path("fake_backend:drifts") == os.environ["PYTHONPATH"]
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    assert needed_path("fake_backend:drifts") == ""


def test_counts_by_operator_and_constraint(failing: Report) -> None:
    assert sum(tally.cases for _, tally in failing.rows) == len(failing.results)
    assert next(line for line in failing.lines if line.row == "aten.neg.default").cells["operator"].failed >= 1
    assert [Tally().state, Tally(1).state, Tally(1, 1, 1).state, Tally(0, 1).state] == [
        "none",
        "pass",
        "fail",
        "unspecified",
    ]


def test_precisions_have_lines_of_their_own(failing: Report) -> None:
    table = load_table("xnnpack@1.5")
    cases = all_cases(table)
    ran = [replace(failing.results[0], case=c.id, row=c.row, constraint=c.constraint, status="pass") for c in cases]
    typed = make_report(failing.certificate, table, ran, cases)
    found = {line.precision: line for line in typed.lines if line.row == "aten.add.Tensor"}
    expected = Counter(case.precision for case in cases if case.row == "aten.add.Tensor")
    assert {name: line.all.cases for name, line in found.items()} == expected
    assert "add_scale_ratio" in found["static_int8"].cells and "add_scale_ratio" not in found["fp32"].cells
    assert "add_scale_ratio" not in typed.codes and "dtype" in typed.codes
    assert f"| aten.add.Tensor | fp16 | {found['fp16'].all.cases} |" in markdown(typed)
    assert '<td class="word">static_int8</td>' in html(typed)
    assert "precision" not in html(failing).partition("<h2>Operators and constraints")[2].partition("</tr>")[0]


def test_reports_say_how_well_the_limits_of_a_shipped_table_are_shown(failing: Report) -> None:
    """Of another table, a changed one too, nothing was counted, and nothing is said."""
    title = "Coverage of the table's limits"
    shown = replace(failing, table=load_table("neutron@1.3"))
    assert failing.coverage is None and shown.coverage is not None
    for text in (markdown(shown), html(shown)):
        assert title in text and shown.coverage.atoms_text in text and shown.coverage.pairs_text in text
    assert title not in markdown(failing) and title not in html(failing)


def test_html_is_one_self_contained_file(failing: Report) -> None:
    text = html(failing)
    assert all(failing.first(finding).result.case in text for finding in failing.findings)
    assert failing.findings[0].symptom.what in text and text.count("<svg") == 3
    assert not any(word in text for word in ("<link", "src=", "@import", "url(")) and text.count("<script") == 2
    policy = text.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src &#39;none&#39;") and "http" not in policy
    script = text.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;" in policy


def test_the_page_is_the_same_bytes_for_the_same_record(failing: Report) -> None:
    again = make_report(failing.certificate, failing.table, failing.results, all_cases(failing.table))
    assert html(again) == html(failing)


def test_the_page_holds_every_case_and_its_command(failing: Report) -> None:
    data = page_data(failing, {})
    texts = _unpacked(data["texts"])
    ids = {"/".join(filter(None, (*(texts[n] for n in one[2:6]), texts[one[0]]))) for one in data["cases"]}
    assert ids == {result.case for result in failing.results} and not any(one[1] for one in data["cases"])
    again = {failure.result.case: failure.command for failure in failing.failures}
    assert {case: f" -k {case} ".join(data["again"]) for case in again} == again


def _unpacked(texts: list[Any]) -> list[str]:
    """Texts with their numbers in the places of "#"."""

    def text(packed: Any) -> str:
        if isinstance(packed, str):
            return packed
        alike, numbers = packed
        parts = (texts[alike][0] if isinstance(alike, int) else alike).split("#")
        return "".join(map("".join, zip_longest(parts, numbers.split(" "), fillvalue="")))

    return list(map(text, texts))


def test_a_waived_failure_is_told_apart(failing: Report) -> None:
    (first, *_) = failing.failures
    checks = tuple(sorted({failure.check for failure in first.result.failures}))
    waiver = Waiver(first.result.case, checks, "known to round", "somebody", datetime.date(2026, 12, 31))
    certificate = replace(failing.certificate, waivers=(waiver,))
    report = make_report(certificate, failing.table, failing.results, all_cases(failing.table))
    texts = _unpacked(page_data(report, {})["texts"])
    counts = Counter(texts[one[7]] for one in page_data(report, {})["cases"])
    assert counts["waived"] == 1 and counts["fail"] == len(failing.failures) - 1
    text = html(report)
    assert "1 waiver</a> for 1 case; the next one expires on 2026-12-31" in text
    assert f'href="#cases?{urlencode({"q": waiver.case, "status": "waived"}).replace("&", "&amp;")}"' in text


def test_messages_that_differ_in_numbers_are_one_text(failing: Report) -> None:
    data, messages = page_data(failing, {}), {f.message for each in failing.failures for f in each.result.failures}
    assert messages <= set(_unpacked(data["texts"]))
    exact = [n for n, text in enumerate(_unpacked(data["texts"])) if "(exact)" in text]
    packed = [data["texts"][n] for n in exact]
    assert 0 < sum(isinstance(alike, str) for alike, _ in packed) < len(packed)
    odd = Failure("gate1", "# 1 2 3 4 is 5")
    results = [replace(failing.results[0], failures=(odd,), status="fail")]
    assert odd.message in page_data(replace(failing, results=tuple(results)), {})["texts"]


def test_an_id_that_is_not_made_of_its_parts_is_kept_whole(failing: Report) -> None:
    odd = [replace(failing.results[0], case="fuzz/0/1"), *failing.results[1:]]
    data = page_data(make_report(failing.certificate, failing.table, odd[1:], all_cases(failing.table)), {})
    assert not any(one[1] for one in data["cases"])
    (found,) = (one for one in page_data(replace(failing, results=tuple(odd)), {})["cases"] if one[1])
    assert found[1] == 1


def test_hostile_text_stays_text(hostile: Report) -> None:
    for report in (hostile, spoiled(hostile)):
        text = html(report)
        elements = Targets(text)
        assert elements.tags.count("script") == 2 and "img" not in elements.tags and HOSTILE not in text
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert any("</script><script>document.title" in each for each in data["texts"] if isinstance(each, str))
    tree = ElementTree.fromstring(junit(hostile))
    assert any("<script>" in str(node.get("message")) for node in tree.iter("failure"))


def test_control_characters_are_shown_as_escapes(hostile: Report) -> None:
    """In the reports as on the terminal, where nothing but line ends is left."""
    console = Console(file=io.StringIO(), width=200)
    summary(console, hostile, Path("out"))
    shown = [markdown(hostile), html(hostile), console.file.getvalue()]  # type: ignore[attr-defined]
    for text in shown:
        assert all(c.isprintable() or c == "\n" for c in text)
        assert "| \\x00\\x1b" in text.replace("\\\\", "\\")  # in JSON a backslash is two


def test_codes_of_rejections_are_shown_as_escapes(failing: Report) -> None:
    """In the headline, too, which is made of them."""
    reasons = (Reason("\x1b[31mrank\u202e\n", "5", "4"),)
    bad = {"verdict": "reject", "status": "fail", "reasons": reasons, "failures": (Failure("tag", "x"),)}
    results = [replace(r, **bad) if r.case == NEG else r for r in failing.results]  # type: ignore[arg-type]  # as named
    report = make_report(failing.certificate, failing.table, results, all_cases(failing.table))
    console = Console(file=io.StringIO(), width=200)
    summary(console, report, Path("out"))
    text = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert "Rejected for \\x1b[31mrank\\u202e\\n, but the table allows it" in text
    assert all(c.isprintable() or c == "\n" for c in text)


def test_a_finding_has_the_sentence_of_the_rule_that_it_names(failing: Report) -> None:
    """Not that of the constraint which its case is about."""
    case = next(r for r in failing.results if r.constraint == "quantized" and r.expect == "accept")
    for code, words in (("static_shape", "every dimension"), ("unheard_of", "")):
        bad = {"verdict": "reject", "status": "fail", "reasons": (Reason(code, "0", "?"),)}
        results = [replace(case, failures=(Failure("tag", "x"),), **bad)]  # type: ignore[arg-type]  # as named
        report = make_report(failing.certificate, failing.table, results, all_cases(failing.table))
        (finding,) = report.findings
        assert finding.symptom.rule == code and report.rule(finding).startswith(words)
        lines = [line.strip() for line in finding_text(report, finding).splitlines()]
        shown = [line for line in lines if line.startswith("rule ")]
        assert [line.partition(": ")[2] for line in shown] == ([report.rule(finding)] if words else [])


class Targets(HTMLParser):
    """The elements of a page, the links inside of it, and its ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.ids, self.tags = set[str](), set[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.tags.append(tag)
        if (known.get("href") or "").startswith("#"):
            self.links.add(str(known["href"])[1:])
        if "id" in known:
            self.ids.add(str(known["id"]))


def test_links_lead_somewhere(failing: Report) -> None:
    """To a part of the page, or to the cases that a filter leaves: there are some."""
    page = Targets(html(failing))
    filters = [dict(parse_qsl(link.removeprefix("cases?"))) for link in page.links if link.startswith("cases?")]
    assert {link for link in page.links if not link.startswith("cases?")} <= page.ids and len(filters) > 20
    known = {"operator": "row", "constraint": "constraint", "precision": "precision", "case": "case"}
    for chosen in filters:
        wanted = {known[key]: value for key, value in chosen.items() if key in known}
        assert any(all(getattr(r, key) == value for key, value in wanted.items()) for r in failing.results), chosen


def test_no_text_of_a_backend_is_html_in_markdown(hostile: Report) -> None:
    text = markdown(hostile)
    assert "<script" not in text and "&lt;script>alert(1)&lt;/script> [red] & |" in text
    assert "assay certify fake_backend:drifts -k" in text and "\n```sh\n" in text


def test_every_report_says_who_vouches_for_it(failing: Report) -> None:
    console = Console(file=io.StringIO())
    summary(console, failing, Path("x"))
    for text in (markdown(failing), html(failing), console.file.getvalue()):  # type: ignore[attr-defined]
        (line,) = [line for line in text.splitlines() if "self-declared: " in line]
        assert all(command in line for command in ("assay attest", "assay verify --key", "assay verify --rerun"))
    suites = ElementTree.fromstring(junit(failing)).findall("testsuite")
    found = [[p.attrib for p in suite.findall("properties/property")] for suite in suites]
    said = [{"name": "trust", "value": "self-declared"}, {"name": "level", "value": "numbers"}]
    assert found == [said] * len(suites)


def test_junit_counts_what_it_lists(failing: Report) -> None:
    tree = ElementTree.fromstring(junit(failing))
    assert sum(int(suite.get("tests", "")) for suite in tree) == len(list(tree.iter("testcase")))
    assert (
        sum(int(suite.get("failures", "")) for suite in tree)
        == len(failing.failures)
        == len(list(tree.iter("failure")))
    )


def test_junit_of_waived_failures_is_green_and_of_expired_waivers_red(failing: Report) -> None:
    """Build servers that read it say what the exit code says."""
    waived = Waiver("some/case", ("gate1",), "the vendor mends it", "kk", datetime.date(2030, 1, 31))
    failures = tuple(replace(each, waived=True) for each in failing.failures)
    certificate = replace(
        failing.certificate,
        waivers=tuple(replace(waived, case=each.result.case) for each in failures),
        objections=(failing.certificate.selection.objection,),
    )
    green = ElementTree.fromstring(junit(replace(failing, failures=failures, certificate=certificate)))
    assert not list(green.iter("failure")) and {suite.get("failures") for suite in green} == {"0"}
    told = [each.get("message", "") for each in green.iter("skipped")]
    assert told.count("waived until 2030-01-31 by kk: the vendor mends it") == len(failures) > 1
    expired = replace(certificate, objections=(*certificate.objections, "the waiver of kk expired", "another"))
    red = ElementTree.fromstring(junit(replace(failing, failures=failures, certificate=expired)))
    assert [each.get("message") for each in red.iter("failure")] == ["the waiver of kk expired", "another"]
    assert [each.get("name") for each in red if each.get("failures") != "0"] == ["certificate"]


def test_markdown_lists_every_failure(failing: Report) -> None:
    text = markdown(failing)
    assert text.splitlines()[0] == "# fake_backend:drifts against fake@1.0: not passed, a selection of the cases"
    assert all(failure.command in text for failure in failing.failures)


def test_every_check_is_explained(failing: Report) -> None:
    assert {f.check for r in failing.results for f in r.failures} <= set(CHECKS)


def _paths(svg: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path"))


def test_plots_show_every_measured_case(failing: Report) -> None:
    assert f">{len([r for r in failing.results if r.metrics['max_lsb'] == 1.0])}</text>" in lsb_histogram(
        failing.results
    )
    places = {str(node.get("d")).count("M") for node in _paths(sqnr_plot(failing.results)) if node.get("stroke") == RED}
    assert max(places) > 1
    assert ElementTree.fromstring(lsb_histogram([])) is not None
    assert ElementTree.fromstring(sqnr_plot([])) is not None


def test_plots_have_titles_and_units(failing: Report) -> None:
    for plot, unit in ((lsb_histogram, "LSB"), (lsb_by_row, "LSB"), (sqnr_plot, "dB")):
        svg = ElementTree.fromstring(plot(failing.results))
        texts = [str(node.text) for node in svg.iter("{http://www.w3.org/2000/svg}text")]
        assert unit in str(svg.findtext("{http://www.w3.org/2000/svg}title"))
        assert any(unit in text for text in texts)


def test_shares_of_an_operator_fill_its_bar(failing: Report) -> None:
    svg = ElementTree.fromstring(lsb_by_row([r for r in failing.results if r.row == "aten.neg.default"]))
    bars = [node for node in svg.iter("{http://www.w3.org/2000/svg}rect") if len(node)]
    assert sum(float(bar.get("width", "")) for bar in bars) == pytest.approx(510, abs=1)
    assert any("1 LSB" in str(bar[0].text) for bar in bars)


# ------------------------------------------------------------------------------------ findings


def test_findings_hold_every_failure_once(failing: Report) -> None:
    held = [name for finding in failing.findings for name in finding.cases]
    assert sorted(held) == sorted(failure.result.case for failure in failing.failures)
    assert all(finding.first in finding.cases for finding in failing.findings)


def test_waived_failures_are_no_findings(failing: Report) -> None:
    cases = {case.id: case for case in all_cases(failing.table)}
    waived = {failure.result.case for failure in failing.failures}
    assert find(failing.results, cases, waived, failing.table) == ()


@pytest.mark.parametrize("shown", [markdown, html])
def test_findings_stand_before_everything_else(shown: Callable[[Report], str], failing: Report) -> None:
    text = shown(failing).rpartition("</nav>")[2]
    finding = failing.findings[0]
    assert text.index("What is wrong") < text.index(finding.symptom.what) < text.index("Operators")
    assert text.index(failing.first(finding).command.replace("'", "&#39;")) < text.index("Operators")


def test_the_summary_ends_with_the_verdict(failing: Report) -> None:
    console = Console(file=io.StringIO(), width=100)
    summary(console, failing, Path("out"))
    text = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert text.splitlines()[-3] == "NOT PASSED: fake_backend:drifts against fake@1.0"
    assert text.splitlines()[-2] == f"  because {failing.certificate.objections[1]}"
    assert text.splitlines()[-1].startswith("  no certificate: only a selection of the table's cases was run (")


def test_a_whole_run_that_fails_is_not_certified(failing: Report) -> None:
    certificate = replace(failing.certificate, selection=Selection(), objections=failing.certificate.objections[1:])
    console = Console(file=io.StringIO(), width=100)
    summary(console, replace(failing, certificate=certificate), Path("out"))
    text = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert text.splitlines()[-2] == "NOT CERTIFIED: fake_backend:drifts against fake@1.0"


@pytest.mark.parametrize(("terminal", "kind"), [(True, BarProgress), (False, PlainProgress)])
def test_progress_fits_where_it_is_shown(terminal: bool, kind: type[PlainProgress], failing: Report) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with progress(console) as shown:
        assert type(shown) is kind
        shown.started(len(failing.results))
        for result in failing.results:
            shown.finished(result)
    assert f"{len(failing.failures)} failures" in console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
