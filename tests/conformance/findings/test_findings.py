"""What was found in releases of others: one index, the heads of its pages, and the cases that ask a release for it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from engine_runs import named
from places import ROOT

from npu_assay.conformance import findings as index
from npu_assay.conformance.cli import main
from npu_assay.conformance.findings import (
    GONE,
    NOT_JUDGED,
    SEVERITIES,
    THERE,
    UNASKED,
    Finding,
    findings,
    regression,
    statuses,
)
from npu_assay.conformance.programs.variation_names import is_variation
from npu_assay.conformance.record.certificate import Selection, read_certificate
from npu_assay.conformance.run.selection import all_cases, cases_of, select
from npu_assay.conformance.table import load_table

REPORTS = ROOT / "docs" / "reports"
FOUND = findings()
LONGEST = 20
"""Lines of a script."""
TABLES = {
    "executorch:xnnpack": "xnnpack@1.5",
    "executorch:ethos-u55": "ethos_u55@1.5",
    "executorch:ethos-u85": "ethos_u85@1.5",
    "executorch:arm-tosa": "ethos_u85@1.5",
    "executorch:vulkan": "vulkan@1.4",
    "executorch:neutron": "neutron@1.4",
    "litert:reference": "litert_reference@2.3",
    "litert:xnnpack": "litert_xnnpack@2.3",
    "onnxruntime:cpu": "onnxruntime_cpu@1.31",
    "openvino:cpu": "openvino_cpu@2026.4",
    "iree:cpu": "iree_cpu@3.13",
    "rknn:rk3588": "rknn@2.5",
    "onnxruntime:qnn-htp": "qnn_htp@2.51",
}
EARLIER = {("executorch:neutron", "ExecuTorch 1.3.1"): "neutron@1.3"}
"""The tables of earlier releases of a backend."""


def text(page: str) -> str:
    return (REPORTS / f"{page}.md").read_text(encoding="utf-8")


def wrong_heads(found: dict[str, Finding]) -> list[str]:
    """Findings whose page has not exactly their head."""
    return [name for name, finding in found.items() if text(finding.page).count(finding.head + "\n\n") != 1]


def test_every_page_begins_with_its_head() -> None:
    assert wrong_heads(dict(FOUND)) == []


def test_a_head_that_is_not_the_index_is_found() -> None:
    told = FOUND["gelu-tanh"]
    changed = Finding(**{**vars(told), "severity": "crash"})
    assert wrong_heads({"gelu-tanh": changed}) == ["gelu-tanh"]


def test_every_page_is_in_the_index_once() -> None:
    pages = sorted(path.stem for path in (REPORTS / "findings").glob("*.md"))
    assert (
        sorted(finding.page.removeprefix("findings/") for finding in FOUND.values() if "findings/" in finding.page)
        == pages
    )


def test_every_part_of_an_engine_s_page_is_in_the_index() -> None:
    for page in {finding.page for finding in FOUND.values() if "findings/" not in finding.page}:
        faults = [line for line in re.findall(r"^## \d+\. (.*)$", text(page), re.MULTILINE) if "Rounding:" not in line]
        assert len(faults) == sum(finding.page == page for finding in FOUND.values()), page


def without_script(pages: dict[str, str]) -> list[str]:
    """The faults of engines' pages that no script of their own shows."""
    parts = [
        part for content in pages.values() for part in re.split(r"^## (?=\d+\. )", content, flags=re.MULTILINE)[1:]
    ]
    faults = [part for part in parts if "Rounding:" not in part.partition("\n")[0]]
    return [part.partition("\n")[0] for part in faults if part.count("```python\n") != 1]


ENGINES = {finding.page: text(finding.page) for finding in FOUND.values() if "findings/" not in finding.page}


def test_every_fault_of_an_engine_has_a_script() -> None:
    assert len(ENGINES) == 4
    assert without_script(ENGINES) == []


def test_a_fault_without_a_script_is_found() -> None:
    told = ENGINES["iree-cpu-3.13.0"].replace("```python\n", "```\n")
    assert without_script({"iree": told}) == ["1. A convolution whose result is one row or one column does not compile"]


@pytest.mark.parametrize("finding", FOUND.values(), ids=FOUND)
def test_an_entry_is_complete(finding: Finding) -> None:
    assert finding.severity in SEVERITIES
    assert finding.cause and finding.reach and finding.releases
    assert re.search(r"\d{4,}|none (found|known).* as of \d{4}-\d\d-\d\d", finding.upstream)
    assert bool(finding.cases) != bool(finding.without)


@pytest.mark.parametrize("finding", FOUND.values(), ids=FOUND)
def test_scripts_are_short(finding: Finding) -> None:
    scripts = re.findall(r"^```python\n(.*?)^```$", text(finding.page), re.MULTILINE | re.DOTALL)
    assert all(len(script.splitlines()) <= LONGEST for script in scripts)


def test_severities_are_explained_where_findings_are_listed() -> None:
    page = text("README")
    for word, meaning in SEVERITIES.items():
        assert f"| {word} | {meaning} |" in page


def leading(text: str) -> list[str]:
    """The pages that the list of silent faults names, each as often as it stands there."""
    part = text.partition("## Silent, in a user's reach")[2].partition("\n## ")[0]
    return sorted(re.findall(r"\]\(([\w./-]+)\.md\)$", part, re.MULTILINE))


def silent() -> list[str]:
    return sorted(
        one.page
        for one in FOUND.values()
        if one.severity == "wrong numbers"
        and not one.reach.startswith("an edge program")
        and one.upstream.startswith("none ")
    )


def test_what_is_silent_in_reach_and_unreported_leads_the_list() -> None:
    page = text("README")
    assert page.index("## ") == page.index("## Silent, in a user's reach")
    assert leading(page) == silent()
    without = page.replace("(findings/tied-weights.md)", "(findings/two-batch-norms.md)")
    assert leading(without) != silent()


NAMED = {case for finding in FOUND.values() for case in finding.cases}


@cache
def known(table: str) -> frozenset[str]:
    """The cases that findings name and a table has, variations among them."""
    return frozenset(named(load_table(table), NAMED))


def unknown(finding: Finding) -> set[str]:
    """The cases of a finding that no table of its releases has; all, where a table has none of them."""
    tables = {EARLIER.get(pair, TABLES[pair[0]]) for pair in finding.releases.items()}
    cases = set(finding.cases)
    return cases if any(not cases & known(table) for table in tables) else cases - set().union(*map(known, tables))


@pytest.mark.long
def test_cases_are_those_of_the_tables() -> None:
    assert {finding.name: cases for finding in FOUND.values() if (cases := unknown(finding))} == {}


def test_a_case_of_another_release_s_table_is_found() -> None:
    told = FOUND["neutron-negative-slice"]
    assert unknown(replace(told, releases={"executorch:neutron": "ExecuTorch 1.5.1"})) == set(told.cases)


def test_every_release_that_a_finding_names_has_a_table() -> None:
    assert {spec for finding in FOUND.values() for spec in finding.releases} <= set(TABLES)


def test_regression_selects_what_the_index_names() -> None:
    cases = all_cases(load_table("xnnpack@1.5"))
    named = {case for finding in FOUND.values() for case in finding.cases}
    assert {case.id for case in select(cases, "regression")} == {case.id for case in cases} & named
    assert [case.id for case in select(cases, "regression/gelu-tanh")] == list(FOUND["gelu-tanh"].cases)
    both = {case.id for case in select(cases, "REGRESSION and softmax")}
    assert both == {case for case in named if case.startswith("aten._softmax.default/fp32")}


@pytest.mark.parametrize("how", [None, "chosen"])
def test_a_finding_selects_its_variations_once_whatever_is_asked(how: str | None) -> None:
    told = FOUND["bias-of-another-shape"]
    table = load_table("xnnpack@1.5")
    cases = cases_of(table, "aten.linear.default")
    assert told.cases and all(is_variation(case) for case in told.cases)
    assert [case.id for case in Selection(f"regression/{told.name}", variations=how).of(table, cases)] == sorted(
        told.cases
    )
    assert not any(is_variation(case.id) for case in Selection("regression/gelu-tanh or baseline").of(table, cases))


def test_no_other_word_is_a_finding() -> None:
    assert regression("gelu-tanh") is None
    done = CliRunner().invoke(main, ["certify", "xnnpack", "-k", "regression/gelu-tan"])
    assert done.exit_code == 2 and done.output.count("\n") == 1
    assert "no finding 'gelu-tan', did you mean 'gelu-tanh'?" in done.output
    assert not any("regression" in case.id for case in all_cases(load_table("xnnpack@1.5")))


def test_an_unknown_key_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "shipped.toml").write_text('[a]\npage = "a"\ncolor = "red"\n')
    findings.cache_clear()
    with patch.object(index, "FILE", tmp_path / "shipped.toml"), pytest.raises(TypeError, match="color"):
        findings()
    findings.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["neutron", "neutron-1.4", "xnnpack", "ethos-u55", "ethos-u85"])
def test_our_own_backends_pass(spec: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["certify", spec, "-k", "regression", "-n", "1", "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output[-2000:]
    certificate = read_certificate((tmp_path / "run" / "certificate.json").read_text())
    assert not certificate.certified and certificate.selection.expression == "regression"


def shown(cases: dict[str, str], expression: str | None, backend: str = "executorch:xnnpack") -> dict[str, str]:
    return {one.name: status for one, status, _ in statuses(backend, expression, cases)}


def test_every_finding_that_is_asked_for_has_a_status() -> None:
    told = FOUND["gelu-tanh"]
    nothing = next(one for one in FOUND.values() if "executorch:xnnpack" in one.releases and not one.cases)
    asked = "baseline or (regression/gelu-tanh)"
    for status, expected in (("fail", THERE), ("pass", GONE), ("unspecified", NOT_JUDGED), ("undecided", NOT_JUDGED)):
        assert shown(dict.fromkeys(told.cases, status), asked) == {"gelu-tanh": expected}
    assert shown({}, asked) == {"gelu-tanh": UNASKED}
    assert shown({told.cases[0]: "fail"}, None) == shown({told.cases[0]: "fail"}, "gelu") == {}
    everything = shown({told.cases[0]: "fail"}, "regression")
    assert everything.keys() == {each.name for each in FOUND.values() if "executorch:xnnpack" in each.releases}
    assert everything.pop("gelu-tanh") == THERE and set(everything.values()) == {UNASKED}
    ((_, _, why),) = statuses("executorch:xnnpack", f"regression/{nothing.name}", {})
    assert why == nothing.without
    assert shown(dict.fromkeys(told.cases, "fail"), "regression", "xnnpack") == {}


@pytest.mark.parametrize(("flags", "shows"), [("fpu sse2", False), ("fpu avx512_fp16", True), ("fp asimdhp", True)])
def test_what_a_processor_cannot_show_is_not_judged(flags: str, shows: bool, tmp_path: Path) -> None:
    (cpu := tmp_path / "cpuinfo").write_text(f"flags: {flags}\n")
    told = FOUND["half-ends-early"]
    with patch.object(index, "CPU", cpu):
        index.processor_flags.cache_clear()
        passed, failed = (dict.fromkeys(told.cases, status) for status in ("pass", "fail"))
        assert shown(passed, None) == ({} if shows else {told.name: NOT_JUDGED})
        assert shown(passed, "regression/half-ends-early") == {told.name: GONE if shows else NOT_JUDGED}
        assert shown(failed, "regression/half-ends-early") == {told.name: THERE}
    index.processor_flags.cache_clear()


def test_a_run_says_a_line_for_each_finding(tmp_path: Path) -> None:
    """Of a backend here, under the name of the one that has the findings."""
    told = replace(FOUND["gelu-tanh"], releases={"xnnpack": "1"})
    other = replace(told, name="other", cases=(), without="nothing asks for it")
    with patch.object(index, "findings", lambda: {"gelu-tanh": told, "other": other}):
        words = ["certify", "xnnpack", "-k", "regression", "-n", "1", "--out", str(tmp_path / "run")]
        done = CliRunner().invoke(main, words)
    assert "not there: regression/gelu-tanh; docs/reports/findings/gelu-tanh.md\n" in done.output
    assert (
        "cannot be asked: regression/other (nothing asks for it); docs/reports/findings/gelu-tanh.md\n" in done.output
    )
