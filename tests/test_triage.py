"""The triage of a release: derived from the raw results beside its page, it adds up, and leaves no case out."""

from __future__ import annotations

import json
import lzma
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from npu_assay.conformance.compare.drift import AGREEMENTS, FLAGS, Drift
from npu_assay.conformance.findings import findings
from npu_assay.conformance.findings.triage import (
    CAUSES,
    KINDS,
    TriageError,
    causes,
    fails_from_modules,
    main,
    read,
    triage,
)

ROOT = Path(__file__).parent.parent
REPORTS = ROOT / "docs" / "reports"
RAW = REPORTS / "raw" / "executorch-xnnpack-1.5.1.jsonl.xz"
MODULES = RAW.with_name("executorch-xnnpack-1.5.1-modules.jsonl.xz")
RUN = RAW, "executorch:xnnpack", "xnnpack@1.5"
TRIAGED = {
    "executorch-xnnpack-1.5.1": RUN[1:],
    "executorch-ethos-u55-1.5.1": ("executorch:ethos-u55", "ethos_u55@1.5"),
    "executorch-ethos-u85-1.5.1": ("executorch:ethos-u85", "ethos_u85@1.5"),
    "executorch-neutron-1.5.1": ("executorch:neutron", "neutron@1.4"),
}
"""The releases with a triage: backend and table of their raw results."""
WORDS = {
    "table_accepts": "table accepts, code rejects",
    "table_rejects": "table rejects, code accepts",
    "accepted_breaks": "accepted, but breaks",
    "accepted_wrong": "accepted, but wrong",
}
every_release = pytest.mark.parametrize("release", TRIAGED)


def page(release: str) -> str:
    return (REPORTS / f"{release}-triage.md").read_text(encoding="utf-8")


@cache
def run(release: str) -> Drift:
    return read(RAW.with_name(f"{release}.jsonl.xz"), *TRIAGED[release])


@every_release
def test_the_page_s_command_prints_the_page_s_table(release: str) -> None:
    (command,) = re.findall(r"^    python (.*)$", page(release), re.MULTILINE)
    done = subprocess.run(
        [sys.executable, *command.split()], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and done.stdout in page(release)


@every_release
def test_the_table_adds_up_to_the_run(release: str) -> None:
    text = page(release)
    statuses = Counter(entry.result.status for entry in run(release).entries)
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| (?!cause|\*\*|--)", line)]
    columns = [sum(int(row[at].strip() or 0) for row in rows) for at in range(1, len(KINDS) + 1)]
    assert sum(columns) == statuses["fail"] and f"{statuses['fail']} cases fail" in text
    assert f"| **all {statuses['fail']}** | " + " | ".join(map(str, columns)) + " |" in text
    assert f"{sum(statuses.values())} cases" in text


def test_what_fails_from_modules_adds_up() -> None:
    text = page("executorch-xnnpack-1.5.1")
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| (?!cause|\*\*|--)", line)]
    met = [json.loads(line)["end"] for line in lzma.decompress(MODULES.read_bytes()).decode().splitlines()]
    fail = sum(end in ("error", "wrong numbers") for end in met)
    assert len(met) == len(run("executorch-xnnpack-1.5.1").found) and fail == sum(
        int(row[len(KINDS) + 1].strip() or 0) for row in rows
    )
    assert f" | {fail} | | |" in text and f"{fail} of them fail there, too" in text


@every_release
def test_the_counts_of_the_other_pages_are_those_of_the_raw_results(release: str) -> None:
    found = run(release)
    drift = (REPORTS / f"{release}.md").read_text(encoding="utf-8")
    for key, word in WORDS.items():
        assert f"| {word} | {found.counts[key]} |" in drift or not found.counts[key]
    ran = any(found.counts[key] for key in FLAGS if key.startswith("accepted"))
    counts = [found.counts[key] if ran or key in AGREEMENTS else "not judged" for key in WORDS]
    row = f"| {found.table.name}@{found.table.version} | {len(found.entries)} | " + " | ".join(map(str, counts)) + " |"
    assert row in (REPORTS / "README.md").read_text(encoding="utf-8")


@every_release
def test_every_finding_of_the_release_explains_the_cases_that_it_names(release: str) -> None:
    backend, _ = TRIAGED[release]
    of = {case: cause for cause, cases in triage(run(release), causes(backend)) for case in cases}
    for name, finding in findings().items():
        if backend in finding.releases:
            assert {of[case].finding for case in finding.cases} <= {name}, name


@pytest.mark.parametrize("file", sorted(CAUSES.glob("*.toml")), ids=lambda file: file.stem)
def test_every_cause_explains_something(file: Path) -> None:
    backends = tomllib.loads(file.read_text(encoding="utf-8"))["backends"]
    sorted_out = [triage(run(release), causes(one)) for release, (one, _) in TRIAGED.items() if one in backends]
    unused = [rows[0][0] for rows in zip(*sorted_out, strict=True) if not any(cases for _, cases in rows)]
    assert [cause.title or cause.finding for cause in unused] == []
    assert {cause.kind for cause in causes(backends[0])} == set(KINDS)


def test_a_backend_without_causes_is_an_error() -> None:
    with pytest.raises(TriageError, match=r"mine: found no causes"):
        causes("mine")


def test_a_case_without_a_cause_is_found() -> None:
    """Were a cause forgotten, the table would not add up."""
    fewer = [cause for cause in causes(RUN[1]) if cause.finding != "gelu-tanh"]
    with pytest.raises(TriageError, match=r"aten\.gelu.*found no cause .accepted_wrong., expected one"):
        triage(run("executorch-xnnpack-1.5.1"), fewer)


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
