"""The triage of a release: derived from the raw results beside its page, it adds up, and leaves no case out."""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from npu_assay.conformance.findings import findings
from npu_assay.conformance.findings.triage import KINDS, TriageError, causes, fails_from_modules, main, read, triage

ROOT = Path(__file__).parent.parent
REPORTS = ROOT / "docs" / "reports"
RAW = REPORTS / "raw" / "executorch-xnnpack-1.5.1.jsonl.xz"
MODULES = RAW.with_name("executorch-xnnpack-1.5.1-modules.jsonl.xz")
RUN = RAW, "executorch:xnnpack", "xnnpack@1.5"
PAGE = (REPORTS / "executorch-xnnpack-1.5.1-triage.md").read_text(encoding="utf-8")


def test_the_page_s_command_prints_the_page_s_table() -> None:
    (command,) = re.findall(r"^    python (.*)$", PAGE, re.MULTILINE)
    done = subprocess.run(
        [sys.executable, *command.split()], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and done.stdout in PAGE


def test_the_table_adds_up_to_the_run() -> None:
    statuses = Counter(re.findall(r'"status":"(\w+)"', lzma.decompress(RAW.read_bytes()).decode()))
    rows = [line.split(" | ") for line in PAGE.splitlines() if re.match(r"\| (?!cause|\*\*|--)", line)]
    columns = [sum(int(row[at].strip() or 0) for row in rows) for at in range(1, len(KINDS) + 1)]
    assert sum(columns) == statuses["fail"] and f"{statuses['fail']} cases fail" in PAGE
    met = [json.loads(line)["end"] for line in lzma.decompress(MODULES.read_bytes()).decode().splitlines()]
    fail = sum(end in ("error", "wrong numbers") for end in met)
    assert len(met) == statuses["fail"] and fail == sum(int(row[len(KINDS) + 1].strip() or 0) for row in rows)
    assert f"| **all {statuses['fail']}** | " + " | ".join(map(str, (*columns, fail))) + " | | |" in PAGE
    assert f"{fail} of them fail there, too" in PAGE
    assert f"{sum(statuses.values())} cases, " in PAGE


def test_the_counts_of_the_other_pages_are_those_of_the_raw_results() -> None:
    found = read(*RUN)
    drift = (REPORTS / "executorch-xnnpack-1.5.1.md").read_text(encoding="utf-8")
    words = {
        "table_accepts": "table accepts, code rejects",
        "table_rejects": "table rejects, code accepts",
        "accepted_breaks": "accepted, but breaks",
        "accepted_wrong": "accepted, but wrong",
    }
    for key, word in words.items():
        assert f"| {word} | {found.counts[key]} |" in drift
    row = f"| xnnpack@1.5 | {len(found.entries)} | " + " | ".join(str(found.counts[key]) for key in words) + " |"
    assert row in (REPORTS / "README.md").read_text(encoding="utf-8")


def test_every_finding_of_the_release_explains_the_cases_that_it_names() -> None:
    of = {case: cause for cause, cases in triage(read(*RUN), causes()) for case in cases}
    for name, finding in findings().items():
        if "executorch:xnnpack" in finding.releases:
            assert {of[case].finding for case in finding.cases} <= {name}, name


def test_every_cause_explains_something() -> None:
    assert [cause.title or cause.finding for cause, cases in triage(read(*RUN), causes()) if not cases] == []
    assert {cause.kind for cause in causes()} == set(KINDS)


def test_a_case_without_a_cause_is_found() -> None:
    """Were a cause forgotten, the table would not add up."""
    fewer = [cause for cause in causes() if cause.finding != "gelu-tanh"]
    with pytest.raises(TriageError, match=r"aten\.gelu.*found no cause .accepted_wrong., expected one"):
        triage(read(*RUN), fewer)


@pytest.mark.parametrize("content", [b"", b"no archive", lzma.compress(b"not json\n")])
def test_bad_results_are_one_error(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results.jsonl.xz").write_bytes(content)
    assert main([str(tmp_path / "results.jsonl.xz"), "executorch:xnnpack", "xnnpack@1.5"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main([str(tmp_path / "none"), "executorch:xnnpack", "xnnpack@1.5"]) == 2
    assert main([]) == 2


def test_a_case_that_was_not_asked_from_a_module_is_found(tmp_path: Path) -> None:
    lines = lzma.decompress(MODULES.read_bytes()).splitlines(keepends=True)
    (tmp_path / "met.xz").write_bytes(lzma.compress(b"".join(lines[1:])))
    cases = [json.loads(line)["case"] for line in lines]
    with pytest.raises(TriageError, match=re.escape(cases[0])):
        fails_from_modules(tmp_path / "met.xz", cases)
    for content in (b"", b"no archive", lzma.compress(b"[1]\n"), lzma.compress(b"not json\n")):
        (tmp_path / "met.xz").write_bytes(content)
        with pytest.raises(TriageError):
            fails_from_modules(tmp_path / "met.xz", cases)
