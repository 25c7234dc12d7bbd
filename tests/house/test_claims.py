"""No claim about a release without a script that shows it, which tox runs with the versions pinned."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from pinned import Environment, environments
from places import ROOT

from npu_assay.conformance.compare.drift_text import drift_markdown
from npu_assay.conformance.findings import SEVERITIES, findings
from npu_assay.conformance.findings.triage import read

REPORTS = ROOT / "docs" / "reports"
SUBJECTS = {
    "ExecuTorch": "executorch",
    "ONNX Runtime": "onnxruntime",
    "OpenVINO": "openvino",
    "LiteRT": "ai-edge-litert",
    "IREE": "iree-base-compiler",
}
"""The packages of the projects that pages make claims about."""
BESIDE = ("torch", "torchao", "tosa-tools", "ethos-u-vela", "coremltools", "onnx")
"""Packages that pages name beside these, by their own names."""
MADE = {
    "onnxruntime-qnn": "tests/crosscheck/test_qnn_htp.py",
    "rknn-toolkit2": "tests/crosscheck/test_rknn.py",
}
"""Vendors' packages, and the module that runs the scripts of their pages, in an environment of what a page installs."""
RELEASE = re.compile(rf"\b({'|'.join((*MADE, *SUBJECTS, *BESIDE))}) (\d+(?:\.\d+)+)")
FINDINGS = "tests/crosscheck/executorch/test_findings.py"
"""It runs the scripts of all pages in findings/."""
RAW = {
    "executorch-coreml-1.5.1": "coreml@1.5",
    "executorch-vulkan-1.5.1": "vulkan@1.4",
    "executorch-neutron-1.3.1": "neutron@1.3",
    "executorch-neutron-1.5.1": "neutron@1.4",
    "executorch-xnnpack-1.5.1": "xnnpack@1.5",
    "executorch-ethos-u55-1.5.1": "ethos_u55@1.5",
    "executorch-ethos-u85-1.5.1": "ethos_u85@1.5",
    "executorch-arm-tosa-1.5.1": "ethos_u85@1.5",
}
"""The pages whose results lie beside them, and their tables."""

PAGES = {
    str(path.relative_to(REPORTS).with_suffix("")): path.read_text(encoding="utf-8")
    for path in sorted((*REPORTS.glob("*.md"), *REPORTS.glob("findings/*.md")))
}
CLAIMS = {name: text for name, text in PAGES.items() if name not in ("README", "withdrawn")}
"""The pages that are about a release."""
MODULES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
}


def releases(text: str) -> dict[str, str]:
    """Version by package, as the beginning of a page names them."""
    head = "\n".join(text.splitlines()[:8])
    return {SUBJECTS.get(name, name): version for name, version in RELEASE.findall(head)}


def runner(name: str) -> str | None:
    """The test module that shows a page's claims on the release: it names the page."""
    if name.startswith("findings/") or name.endswith("-triage") or f"{name}-triage" in PAGES:
        return FINDINGS  # a triage's causes are shown by the pages that it links
    named = (path for path, text in MODULES.items() if path.startswith("tests/crosscheck/") and f"{name}" in text)
    return next(named, None)


def unshown(name: str, text: str, found: Iterable[Environment]) -> list[str]:
    """Why a page's claims are not shown on the release that it names."""
    named = releases(text)
    if vendors := [package for package in named if package in MADE]:
        return [
            f"it does not install {package}=={named[package]}, or {MADE[package]} is not there"
            for package in vendors
            if (name.startswith("findings/") and f" {package}=={named[package]}" not in text)
            or MADE[package] not in MODULES
        ]
    about = next((package for package in named if package in SUBJECTS.values()), None)
    if about is None:
        return ["it names no release"]
    if name.startswith("findings/") and text.count("```python\n") != 1:
        return ["it has no script"]
    module = runner(name)
    if module is None:
        return ["no test of tests/crosscheck names it"]
    running = [one for one in found if one.runs(module) and one.is_about(about, named[about])]
    wrong = [
        f"{one.name} has {package} {one.pins.get(package)}, the page {version}"
        for one in running
        for package, version in named.items()
        if one.pins.get(package) != version
    ]
    fits = [one for one in running if all(one.pins.get(package) == version for package, version in named.items())]
    return [] if fits else wrong or [f"no environment runs {module} with {about}"]


def causes_without_a_page(text: str) -> list[str]:
    """Rows of a triage that a user reaches, and that link no page of findings."""
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| (?!cause |\*\*)", line)]
    reached = [row for row in rows if len(row) > 6 and row[1].strip() and row[6].strip() in SEVERITIES]
    links = {row[0]: re.findall(r"\((findings/[\w-]+)\.md\)", row[0]) for row in reached}
    return [row for row, pages in links.items() if not pages or not set(pages) <= PAGES.keys()]


def misnamed(text: str) -> list[str]:
    """Links to pages of findings whose words are not the page's title."""
    links = re.findall(r"^- \[(.*)\]\((findings/[\w-]+)\.md\)$", text, re.MULTILINE)
    return [page for title, page in links if PAGES[page].partition("\n")[0] != f"# {title}"]


def unlisted(name: str, text: str) -> set[str]:
    """Findings in a page's backend that its list leaves out, or that it has and the index does not."""
    backend = name.removeprefix("executorch-").rpartition("-")[0]
    listed = set(re.findall(r"^- \[.*\]\((findings/[\w-]+)\.md\)$", text, re.MULTILINE))
    spec, release = f"executorch:{backend}", name.rpartition("-")[2]
    return listed ^ {finding.page for finding in findings().values() if finding.shown_by(spec, release)}


def totals() -> str:
    """How many findings there are, how many a user reaches, and how many of these nobody upstream tells of."""
    told = findings().values()
    reached = [one for one in told if not one.reach.startswith("an edge program")]
    new = Counter(one.severity for one in reached if one.upstream.startswith("none "))
    own = sum(any(spec.startswith("executorch:") for spec in one.releases) for one in told)
    counts = [new[word] for word in ("crash", "wrong numbers", "refusal", "side effect", "missed delegation")]
    return (
        f"Of all {len(told)} findings {own} are in ExecuTorch and {len(told) - own} in engines. "
        f"A user reaches {len(reached)} of them without writing an edge program; "
        f"of {new.total()} of these nothing was found upstream: "
        "{} crash, {} give wrong numbers, {} are refusals, {} side effects and {} missed delegations.".format(*counts)
    )


def underived(name: str, text: str) -> list[str]:
    """Lines of a page's tables that its raw results do not give."""
    backend = name.removeprefix("executorch-").rpartition("-")[0]
    found = read(REPORTS / "raw" / f"{name}.jsonl.xz", f"executorch:{backend}", RAW[name])
    return [line for line in drift_markdown(found).split("\n") if line not in text]


@pytest.fixture(scope="module")
def found() -> list[Environment]:
    return environments()


@pytest.mark.parametrize("name", CLAIMS)
def test_each_page_is_shown_on_the_release_that_it_names(name: str, found: list[Environment]) -> None:
    assert unshown(name, CLAIMS[name], found) == []


@pytest.mark.parametrize("name", [name for name in CLAIMS if name.endswith("-triage")])
def test_causes_that_a_user_reaches_have_pages(name: str) -> None:
    assert causes_without_a_page(CLAIMS[name]) == []


@pytest.mark.long
@pytest.mark.parametrize("name", RAW)
def test_tables_are_those_of_the_raw_results(name: str) -> None:
    assert underived(name, CLAIMS[name]) == []


def test_a_page_of_counts_has_its_results_beside_it() -> None:
    counts = {name for name, text in CLAIMS.items() if "\n| both accept | " in text}
    assert counts == RAW.keys()


@pytest.mark.parametrize(
    "name", [name for name, text in PAGES.items() if re.search(r"^- \[.*\]\(findings/", text, re.MULTILINE)]
)
def test_lists_have_the_titles_of_the_pages(name: str) -> None:
    assert misnamed(PAGES[name]) == []


def test_the_totals_are_those_of_the_index() -> None:
    assert totals() in " ".join(PAGES["README"].split())


@pytest.mark.parametrize("name", [name for name, text in CLAIMS.items() if "\n## Findings\n" in text])
def test_a_report_lists_every_finding_of_its_backend(name: str) -> None:
    assert unlisted(name, CLAIMS[name]) == set()


# ------------------------------------------------------------------------------------- injected faults

ALTERED: Mapping[str, tuple[str, str, str, Sequence[str]]] = {
    "the constraints pin another release": (
        "constraints.txt",
        "executorch==1.5.1",
        "executorch==1.5.2",
        ["executorch has executorch 1.5.2, the page 1.5.1"],
    ),
    "the constraints pin no release": (
        "constraints.txt",
        "torchao==0.18.0\n",
        "",
        ["executorch has torchao None, the page 0.18.0"],
    ),
    "other constraints": (
        "tox.ini",
        "-c {tox_root}{/}constraints_tosa.txt tosa-tools ethos-u-vela",
        "-c {tox_root}{/}constraints_tosa.txt tosa-tools",
        ["executorch has ethos-u-vela None, the page 5.1.0"],
    ),
    "the environment runs other tests": (
        "tox.ini",
        "commands = pytest -n auto tests/crosscheck/executorch {posargs}",
        "commands = pytest -n auto tests/crosscheck/tosa {posargs}",
        [f"no environment runs {FINDINGS} with executorch"],
    ),
    "the environment does not install the release": (
        "tox.ini",
        "extras = test, executorch\n",
        "extras = test\n",
        [f"no environment runs {FINDINGS} with executorch"],
    ),
}


@pytest.mark.parametrize("fault", ALTERED)
def test_an_altered_environment_is_found(fault: str, tmp_path: Path) -> None:
    name, old, new, expected = ALTERED[fault]
    for file in ("tox.ini", "pyproject.toml", "constraints.txt", "constraints_tosa.txt"):
        shutil.copy(ROOT / file, tmp_path)
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new), encoding="utf-8")
    page = "findings/arm-linear-of-many-inputs"
    assert unshown(page, CLAIMS[page], environments(tmp_path)) == expected


def test_a_vendors_page_that_installs_another_release_is_found() -> None:
    text = PAGES["findings/qnn-htp-tied-bias"]
    assert unshown("findings/qnn-htp-tied-bias", text, []) == []
    (found,) = unshown(
        "findings/qnn-htp-tied-bias", text.replace("onnxruntime-qnn==2.7.0", "onnxruntime-qnn==2.6.0"), []
    )
    assert found.startswith("it does not install onnxruntime-qnn==2.7.0")


def test_a_page_of_a_release_that_no_environment_has_is_found(found: list[Environment]) -> None:
    page = "findings/neutron-alpha"
    assert unshown(page, CLAIMS[page].replace("ExecuTorch 1.3.1", "ExecuTorch 1.3.0"), found) == [
        "executorch has executorch 1.5.1, the page 1.3.0"
    ]


def test_an_altered_page_is_found(found: list[Environment]) -> None:
    page = "findings/gelu-tanh"
    text = CLAIMS[page]
    assert unshown(page, text.replace("```python\n", "```\n"), found) == ["it has no script"]
    assert unshown(page, text.replace("ExecuTorch 1.5.1, ", ""), found) == ["it names no release"]
    assert unshown(page, text.replace("torchao 0.18.0", "torchao 0.19.0"), found) == [
        "executorch has torchao 0.18.0, the page 0.19.0"
    ]
    assert unshown("executorch-qnn-1.5.1", text, found) == ["no test of tests/crosscheck names it"]


def test_an_altered_triage_is_found() -> None:
    text = CLAIMS["executorch-xnnpack-1.5.1-triage"]
    assert causes_without_a_page(text.replace("[gelu-tanh](findings/gelu-tanh.md)", "gelu")) == ["| gelu"]
    assert causes_without_a_page(text.replace("findings/gelu-tanh.md", "findings/gone.md")) == [
        "| [gelu-tanh](findings/gone.md)"
    ]


def test_an_altered_count_is_found() -> None:
    name = "executorch-coreml-1.5.1"
    assert underived(name, CLAIMS[name].replace("| both accept | 1954 |", "| both accept | 1955 |")) == [
        "| both accept | 1954 |"
    ]


def test_an_altered_list_is_found() -> None:
    name, gone = "executorch-ethos-u55-1.5.1", "findings/arm-cumsum-int16"
    text = CLAIMS[name]
    (line,) = re.findall(rf"^- .*\({gone}\.md\)\n", text, re.MULTILINE)
    assert unlisted(name, text.replace(line, "")) == {gone}
    assert misnamed(text.replace("cumsum in 16 bits", "cumsum")) == [gone]
