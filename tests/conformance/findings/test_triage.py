"""The triage of a release: derived from the raw results beside its page, it adds up, and leaves no case out."""

from __future__ import annotations

import lzma
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from places import ROOT

from npu_assay.conformance.compare.drift import AGREEMENTS, FLAGS, Drift
from npu_assay.conformance.findings import findings
from npu_assay.conformance.findings.triage import (
    ASKED,
    CAUSES,
    KINDS,
    Cause,
    TriageError,
    causes,
    check_asked,
    from_modules,
    main,
    read,
    spread,
    triage,
)
from npu_assay.conformance.programs.variation_names import is_variation
from npu_assay.conformance.reach.walk import DELEGATED, ERROR, LEFT, WRONG, Met

REPORTS = ROOT / "docs" / "reports"
RAW = REPORTS / "raw" / "executorch-xnnpack-1.5.1.jsonl.xz"
MODULES = RAW.with_name("executorch-xnnpack-1.5.1-modules.jsonl.xz")
RUN = RAW, "executorch:xnnpack", "xnnpack@1.5"
TRIAGED = {
    "executorch-xnnpack-1.5.1": RUN[1:],
    "executorch-ethos-u55-1.5.1": ("executorch:ethos-u55", "ethos_u55@1.5"),
    "executorch-ethos-u85-1.5.1": ("executorch:ethos-u85", "ethos_u85@1.5"),
    "executorch-neutron-1.5.1": ("executorch:neutron", "neutron@1.4"),
    "executorch-neutron-1.3.1": ("executorch:neutron", "neutron@1.3"),
}
"""The releases with a triage: backend and table of their raw results."""
WHOLE = {"executorch-neutron-1.3.1"}
"""Those of which every failing case was asked from an nn.Module."""
ON_PAGE = {
    "executorch-vulkan-1.5.1": ("executorch:vulkan", "vulkan@1.4"),
    "executorch-coreml-1.5.1": ("executorch:coreml", "coreml@1.5"),
}
"""Those whose triage stands on their own page; none of their cases was asked from an nn.Module."""
WORDS = {
    "table_accepts": "table accepts, backend rejects",
    "table_rejects": "table rejects, backend accepts",
    "accepted_breaks": "accepted, but breaks",
    "accepted_wrong": "accepted, but wrong",
}
every_release = pytest.mark.parametrize("release", TRIAGED)


def page(release: str) -> str:
    name = release if release in ON_PAGE else f"{release}-triage"
    return (REPORTS / f"{name}.md").read_text(encoding="utf-8")


@cache
def run(release: str) -> Drift:
    return read(RAW.with_name(f"{release}.jsonl.xz"), *{**TRIAGED, **ON_PAGE}[release])


@pytest.mark.long
@pytest.mark.parametrize("release", [*TRIAGED, *ON_PAGE])
def test_the_page_s_command_prints_the_page_s_table(release: str) -> None:
    (command,) = re.findall(r"^    python (.*)$", page(release), re.MULTILINE)
    done = subprocess.run(
        [sys.executable, *command.split()], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and done.stdout in page(release)


@pytest.mark.long
@every_release
def test_the_table_adds_up_to_the_run(release: str) -> None:
    text = page(release)
    statuses = Counter(entry.result.status for entry in run(release).entries)
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| (?!cause|\*\*|--)", line)]
    columns = [sum(int(row[at].strip() or 0) for row in rows) for at in range(1, len(KINDS) + 1)]
    assert sum(columns) == statuses["fail"] and f"{statuses['fail']} cases fail" in text
    assert f"| **all {statuses['fail']}** | " + " | ".join(map(str, columns)) + " |" in text
    assert f"{sum(statuses.values())} cases" in text


def modules(release: str) -> dict[str, Met]:
    return dict(from_modules(RAW.with_name(f"{release}-modules.jsonl.xz")))


@every_release
def test_what_fails_from_modules_adds_up(release: str) -> None:
    text, met = page(release), modules(release)
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| (?!cause|\*\*|--)", line)]
    cells = [row[len(KINDS) + 1].strip().split(" ") for row in rows]
    shown = sum(int(cell[0] or 0) for cell in cells)
    total = f"{shown}" if release in WHOLE else f"{shown} of {len(met)} asked"
    assert f"| {total} | | |" in text and f"{shown} of them " in text
    assert sum(one.is_fault for one in met.values()) <= shown


@every_release
def test_of_each_cause_the_cases_are_those_that_the_command_asks(release: str) -> None:
    sorted_out = triage(run(release), causes(*TRIAGED[release]))
    wanted = {case for _, cases in sorted_out for case in (cases if release in WHOLE else spread(cases, ASKED))}
    assert set(modules(release)) == wanted


@every_release
def test_a_cause_that_a_user_reaches_was_shown_from_a_module_or_has_a_page(release: str) -> None:
    """Pages have scripts that begin with an nn.Module, which the cross-check runs."""
    met = modules(release)
    for cause, cases in triage(run(release), causes(*TRIAGED[release])):
        if cause.kind == "reached" and cases:
            shown = any(cause.shows(met[case]) for case in cases if case in met)
            assert shown or (cause.finding and not cause.title), cause.title


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


_AVERAGE, _ADAPTIVE, _MAX = (f"aten.{name}.default" for name in ("avg_pool2d", "_adaptive_avg_pool2d", "max_pool2d"))
CALLED_THEN = {
    f"{_AVERAGE}/fp16/rank/outside/rank_3": f"{_AVERAGE}/fp16/rank/outside/3",
    f"{_MAX}/fp32/rank/outside/rank_3": f"{_MAX}/fp32/rank/outside/3",
    f"{_AVERAGE}/fp32/divisor_override/outside/at_once_12": (
        f"{_AVERAGE}/fp32/divisor_override/outside/size_of_the_window_with_padding"
    ),
    f"{_AVERAGE}/int8/operator/accept/kernel_size_list_2": f"{_AVERAGE}/int8/operator/accept/one_number",
    f"{_ADAPTIVE}/int8/operator/accept/rank_3": f"{_ADAPTIVE}/int16/rank/at_limit/3",
    f"{_ADAPTIVE}/int8/batch/at_limit/rank_3": f"{_ADAPTIVE}/int16/rank/at_limit/3",
    f"{_AVERAGE}/int8/kernel_height/outside/far_window_n_1_1_past": f"{_AVERAGE}/int8/kernel_height/outside/257_rows",
    f"{_AVERAGE}/int8/max_channels/outside/far_image_of_channels_1_past": f"{_AVERAGE}/int8/max_channels/outside/65537",
    f"{_MAX}/int8/max_channels/outside/far_image_of_channels_1_past": f"{_MAX}/int8/max_channels/outside/65537",
    f"{_MAX}/int16/dilated_size/outside/far_gaps_2_past": (
        f"{_MAX}/int16/dilated_size/outside/width_65536_turned_dilation_65537"
    ),
}
"""The names that cases had in recorded runs, where they have another now."""


@pytest.mark.parametrize("release", [*TRIAGED, *ON_PAGE])
def test_every_finding_of_the_release_explains_the_cases_that_it_names(release: str) -> None:
    backend, table = {**TRIAGED, **ON_PAGE}[release]
    asked = {entry.result.case for entry in run(release).entries}
    of = {case: cause for cause, cases in triage(run(release), causes(backend, table)) for case in cases}
    for name, finding in findings().items():
        if (
            finding.shown_by(backend, release.rpartition("-")[2]) and not finding.processor
        ):  # the runs are of other processors
            named = {
                CALLED_THEN.get(case, case) for case in finding.cases if not is_variation(case)
            }  # the runs had none
            own = asked & named  # those of another release of the finding have other operators
            assert not named or own, name
            assert len(finding.releases) > 1 or own == named, name
            assert {of[case].finding for case in own} <= {name}, name


@pytest.mark.long
def test_the_triage_of_ethos_u85_has_the_causes_of_arm_tosa_but_for_dynamic_shapes() -> None:
    tosa = read(RAW.with_name("executorch-arm-tosa-1.5.1.jsonl.xz"), "executorch:arm-tosa", "ethos_u85@1.5")
    shown = (REPORTS / "executorch-arm-tosa-1.5.1.md").read_text(encoding="utf-8")
    found, of_device = answers(tosa), answers(run("executorch-ethos-u85-1.5.1"))
    other = differing(found, of_device)
    assert all("/static_shape/outside/" in case for case in other)
    failing = sum(entry.result.status == "fail" for entry in tosa.entries)
    assert f"but for {len(other)} with dynamic shapes" in shown and f"{failing} of them fail" in shown
    assert f"the cause of the other {failing - len(other)}" in shown


Answers = dict[str, tuple[str, list[str]]]


def answers(found: Drift) -> Answers:
    """By case: its verdict, and the checks that it fails."""
    results = [entry.result for entry in found.entries]
    return {one.case: (one.verdict, [failure.check for failure in one.failures]) for one in results}


def differing(found: Answers, expected: Answers) -> list[str]:
    return [case for case in found | expected if found.get(case) != expected.get(case)]


def test_another_answer_than_ethos_u85_s_is_found() -> None:
    expected = answers(run("executorch-ethos-u85-1.5.1"))
    verdict, checks = expected[(case := next(iter(expected)))]
    assert differing({**expected, case: (verdict, [*checks, "gate1"])}, expected) == [case]
    assert differing({other: one for other, one in expected.items() if other != case}, expected) == [case]


@pytest.mark.parametrize("file", sorted(CAUSES.glob("*.toml")), ids=lambda file: file.stem)
def test_every_cause_explains_something(file: Path) -> None:
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    tables = data.get("tables", [table for _, table in [*TRIAGED.values(), *ON_PAGE.values()]])
    triaged = {
        release: asked
        for release, asked in {**TRIAGED, **ON_PAGE}.items()
        if asked[0] in data["backends"] and asked[1] in tables
    }
    sorted_out = [triage(run(release), causes(*asked)) for release, asked in triaged.items()]
    unused = [rows[0][0] for rows in zip(*sorted_out, strict=True) if not any(cases for _, cases in rows)]
    assert [cause.title or cause.finding for cause in unused] == []
    if triaged.keys() & TRIAGED.keys():
        assert {cause.kind for cause in causes(*next(iter(triaged.values())))} == set(KINDS)


def test_a_backend_without_causes_is_an_error() -> None:
    with pytest.raises(TriageError, match=r"mine: found no causes of its cases in xnnpack@1\.5"):
        causes("mine", "xnnpack@1.5")


def test_releases_that_are_asked_for_other_tables_have_other_causes() -> None:
    first, fourth = causes("executorch:neutron", "neutron@1.3"), causes("executorch:neutron", "neutron@1.4")
    assert "neutron-alpha" in {cause.finding for cause in first} - {cause.finding for cause in fourth}
    with pytest.raises(TriageError, match=r"executorch:neutron: found no causes of its cases in neutron@1\.5"):
        causes("executorch:neutron", "neutron@1.5")
    with pytest.raises(TriageError, match=r"found no cause .*, expected one"):
        triage(run("executorch-neutron-1.3.1"), fourth)


def test_a_case_without_a_cause_is_found() -> None:
    """Were a cause forgotten, the table would not add up."""
    fewer = [cause for cause in causes(*RUN[1:]) if cause.finding != "gelu-tanh"]
    with pytest.raises(TriageError, match=r"aten\.gelu.*found no cause .accepted_wrong., expected one"):
        triage(run("executorch-xnnpack-1.5.1"), fewer)


@pytest.mark.parametrize("content", [b"", b"no archive", lzma.compress(b"not json\n")])
def test_bad_results_are_one_error(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results.jsonl.xz").write_bytes(content)
    assert main([str(tmp_path / "results.jsonl.xz"), "executorch:xnnpack", "xnnpack@1.5"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main([str(tmp_path / "none"), "executorch:xnnpack", "xnnpack@1.5"]) == 2
    assert main([]) == 2


def test_a_cause_of_which_too_few_were_asked_is_found() -> None:
    known = Cause("edge", ["*"], title="all alike")
    names = [f"case {number}" for number in range(25)]
    met = {name: Met(name, LEFT, "run") for name in spread(names, ASKED)}
    check_asked([(known, names)], met)
    assert known.line(names, met).split(" | ")[5] == "0 of 10 asked"
    del met[names[0]]
    with pytest.raises(TriageError, match="all alike: found 9 cases, expected 10: case 0 is missing"):
        check_asked([(known, names)], met)
    with pytest.raises(TriageError, match="all alike: found 0 cases, expected 3"):
        check_asked([(known, names[:3])], {})


def test_cases_are_spread_over_all() -> None:
    assert spread("abcdefghij", 5) == ["a", "c", "e", "g", "i"]
    assert spread("abc", 5) == "abc"


@pytest.mark.parametrize(
    ("severity", "kind", "end", "targets", "shows"),
    [
        ("crash", "reached", ERROR, (), True),
        ("crash", "reached", WRONG, (), True),
        ("crash", "reached", LEFT, ("aten.abs.default",), False),
        ("missed delegation", "reached", LEFT, ("aten.abs.default",), True),
        ("missed delegation", "reached", LEFT, ("aten.neg.default",), False),
        ("missed delegation", "reached", DELEGATED, (), False),
        ("missed delegation", "table", LEFT, ("aten.abs.default",), False),
    ],
)
def test_what_shows_a_cause(severity: str, kind: str, end: str, targets: tuple[str, ...], shows: bool) -> None:
    cause = Cause(kind, ["*"], severity=severity)
    assert cause.shows(Met("aten.abs.default/int8/operator/accept/baseline", end, "run", "", targets)) == shows


def test_what_reach_did_not_write_is_one_error(tmp_path: Path) -> None:
    for content in (b"", b"no archive", lzma.compress(b"[1]\n"), lzma.compress(b"not json\n")):
        (tmp_path / "met.xz").write_bytes(content)
        with pytest.raises(TriageError):
            from_modules(tmp_path / "met.xz")
